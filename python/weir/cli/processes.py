"""Processes that outlive the command which starts them.

A process is known by its pid, its start time and the boot: a pid alone may be another process by the time it is used.
The record is written by the new process before it becomes the program, so there is never a process without a record.
"""

import contextlib
import os
import select
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from weir.cli.files import write_whole

TERMINATE_SECONDS = 15.0
"""How long a process may take to end in order; a `dir` server writes back what is dirty."""
_KILL_SECONDS = 5.0
"""How long the kernel may take to end a killed process."""

_START_TIME_FIELD = 19
"""Index of `starttime` behind the command name in /proc/PID/stat (proc(5), field 22)."""


@dataclass(frozen=True)
class Process:
    """One process of this boot."""

    pid: int
    start_ticks: int
    boot: str

    @staticmethod
    def current() -> "Process":
        """This process."""
        pid = os.getpid()
        ticks = _start_ticks(pid)
        if ticks is None:
            raise OSError("cannot read /proc/self/stat")
        return Process(pid, ticks, _boot())

    @staticmethod
    def recorded(record: Path) -> "Process | None":
        """The process of a record, or None where there is none that can be read."""
        try:
            pid, ticks, boot = record.read_text().split()
            return Process(int(pid), int(ticks), boot)
        except (FileNotFoundError, ValueError):
            return None

    def is_alive(self) -> bool:
        """Whether it still runs."""
        return self.boot == _boot() and _start_ticks(self.pid) == self.start_ticks

    def is_of_this_boot(self) -> bool:
        """Whether the machine has not been started again since."""
        return self.boot == _boot()

    def request_stop(self) -> None:
        """Ask it to end, without waiting; `stop` waits."""
        with contextlib.suppress(ProcessLookupError):
            descriptor = os.pidfd_open(self.pid)
            if self.is_alive():
                _signal(descriptor, signal.SIGTERM)
            os.close(descriptor)

    def stop(self, terminate_seconds: float = TERMINATE_SECONDS) -> bool:
        """End it in order, or by force after `terminate_seconds`.

        Returns:
            Whether it ended in order (or had ended before).
        """
        try:
            descriptor = os.pidfd_open(self.pid)
        except ProcessLookupError:
            return True
        try:
            if not self.is_alive():
                return True
            _signal(descriptor, signal.SIGTERM)
            if _ended(descriptor, terminate_seconds):
                return True
            _signal(descriptor, signal.SIGKILL)
            _ended(descriptor, _KILL_SECONDS)
            return False
        finally:
            os.close(descriptor)

    def ends_within(self, wait_seconds: float) -> bool:
        """Whether it ends by itself within `wait_seconds`."""
        deadline = time.monotonic() + wait_seconds
        while self.is_alive():
            if time.monotonic() > deadline:
                return False
            time.sleep(0.02)
        return True

    def text(self) -> str:
        """The text of its record."""
        return f"{self.pid} {self.start_ticks} {self.boot}\n"


def start(
    command: Sequence[str | Path], *, record: Path, log: Path, folder: Path, read_output: bool = False
) -> subprocess.Popen[str]:
    """Start a program in a session of its own, with its words appended to `log`.

    With `read_output`, its standard output is a pipe that the caller reads.

    Raises:
        OSError: Its log, its record or the program cannot be opened or written; the error names which.
    """
    reader, writer = os.pipe2(os.O_CLOEXEC)

    def write_record() -> None:
        try:
            write_whole(record, Process.current().text(), mode=0o644)
        except OSError as error:
            # All that the parent hears of an exception here is that there was one.
            os.write(writer, str(error.errno).encode())
            raise

    with (
        os.fdopen(reader, "rb") as failed,
        os.fdopen(writer, "wb") as failing,
        os.fdopen(os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600), "a") as words,
    ):
        try:
            # The hook runs between fork and exec. This program has one thread, so no lock can be held there.
            return subprocess.Popen(
                [str(word) for word in command],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE if read_output else words,
                stderr=words,
                text=True,
                cwd=folder,
                env=_service_environment(os.environ),
                start_new_session=True,
                preexec_fn=write_record,
            )
        except subprocess.SubprocessError:
            failing.close()
            number = failed.read()
            if not number:
                raise
            raise OSError(int(number), os.strerror(int(number)), str(record)) from None


def reason(log: Path, offset: int, ended: str) -> tuple[str, str]:
    """The message and the hint of a program that was to serve: its words behind `offset` in its log, else `ended`."""
    told = last_error(log, offset)
    if told is not None:
        return told
    room = os.statvfs(log.parent)
    if room.f_bavail == 0:
        return ended, f"the file system of {log} is full, and what the program said is lost: make room there"
    return ended, f"see {log}"


def last_error(log: Path, offset: int) -> tuple[str, str] | None:
    """The last `error: …` line behind `offset` in a log, taken apart into message and hint."""
    with log.open(errors="replace") as file:
        file.seek(offset)
        lines = [line.strip() for line in file]
    return error_in(lines)


def error_in(lines: Sequence[str]) -> tuple[str, str] | None:
    """The last `error: …` line, taken apart into message and hint.

    The hint follows `hint:` on the same or the next line, or else the last semicolon.
    """
    for number in range(len(lines) - 1, -1, -1):
        line = lines[number]
        if not line.startswith("error:"):
            continue
        message, _, hint = line.removeprefix("error:").partition("hint:")
        following = lines[number + 1] if number + 1 < len(lines) else ""
        if not hint and following.startswith("hint:"):
            hint = following.removeprefix("hint:")
        if not hint and "; " in message:
            message, _, hint = message.rpartition("; ")
        return message.strip().rstrip(";,"), hint.strip()
    return None


def _service_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """What a server or a mount inherits: nothing that would make it a client of the store it serves."""
    inherited = {name: value for name, value in environment.items() if not name.startswith("WEIR_")}
    for name in ("WEIR_TRANSPORT", "WEIR_TIMEOUT_SECONDS"):
        if name in environment:
            inherited[name] = environment[name]
    libraries = inherited.pop("LD_PRELOAD", "").replace(" ", ":").split(":")
    others = [library for library in libraries if library and "libweir_preload" not in library]
    if others:
        inherited["LD_PRELOAD"] = ":".join(others)
    return inherited


def _start_ticks(pid: int) -> int | None:
    try:
        state = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = state.rpartition(")")[2].split()
    # A zombie has ended; where process 1 does not reap, it stays in the table for ever.
    return None if fields[0] in "ZX" else int(fields[_START_TIME_FIELD])


def _boot() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def _signal(descriptor: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        signal.pidfd_send_signal(descriptor, number)


def _ended(descriptor: int, wait_seconds: float) -> bool:
    poller = select.poll()
    poller.register(descriptor, select.POLLIN)
    return bool(poller.poll(wait_seconds * 1000))
