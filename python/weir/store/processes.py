"""Processes that outlive the command which starts them.

A process is known by its pid, its start time and the boot: a pid alone may be another process when it is used. The new
process writes its record before it becomes the program, so there is never a process without a record. A shell does
this, and no hook between fork and exec: a notebook has threads, and their locks stay locked in a fork.
"""

import atexit
import contextlib
import errno
import os
import re
import select
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from weir.store import window_folders
from weir.store.environment import without_store

TERMINATE_SECONDS = 15.0
"""Longest time until a process ends in order; a `dir` server writes back its dirty data."""
_KILL_SECONDS = 5.0
"""Longest time until the kernel has ended a killed process."""

_LAUNCH_SECONDS = 60.0
"""Longest time until a shell has written a record, on a busy machine."""
_LAUNCHER = """
mask=$(umask)
umask 022
read -r _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ ticks _ <"/proc/$$/stat" &&
read -r boot </proc/sys/kernel/random/boot_id &&
echo "$$ $ticks $boot" >"$2.$$" &&
command -p mv -f "$2.$$" "$1" || exit
umask "$mask"
shift 2
exec "$@" </dev/null
"""
"""Writes the record of the process ($1; the begin of a temporary name is $2), and becomes the program.

The shell's own name has no blank, so the fields of its `stat` are those of proc(5). Its last line alone closes its
standard input, which is the writing end of a pipe."""

_ERROR = re.compile(r"error:|\S+Z ERROR weir-\w+:")
"""Begin of an error: in the words of a program without a log, and in a line of a log."""

LOG_BYTES_MAX = 1 << 20
"""Bytes of a log after which its program begins a new one (`FILE_BYTES_MAX` of the crate `weir-log`)."""

_FLAGS_FIELD = 6
"""Index of `flags` behind the command name in /proc/PID/stat (proc(5), field 9)."""
_EXITING = 0x4
"""PF_EXITING of the kernel's `include/linux/sched.h`."""
_START_TIME_FIELD = 19
"""Index of `starttime` behind the command name in /proc/PID/stat (proc(5), field 22)."""


@dataclass(frozen=True)
class Process:
    """A process, identified within one boot of the machine."""

    pid: int
    start_ticks: int
    boot: str

    @staticmethod
    def current() -> "Process":
        """Find this process.

        Raises:
            OSError: `/proc/self/stat` cannot be read.
        """
        pid = os.getpid()
        ticks = _start_ticks(pid)
        if ticks is None:
            raise OSError("cannot read /proc/self/stat")
        return Process(pid, ticks, _boot())

    @staticmethod
    def recorded(record: Path) -> "Process | None":
        """Read a record.

        Returns:
            The process; None where there is no record that can be read.
        """
        try:
            pid, ticks, boot = record.read_text().split()
            return Process(int(pid), int(ticks), boot)
        except (FileNotFoundError, ValueError):
            return None

    def is_alive(self) -> bool:
        """Decide whether the process still runs. The end of one that the kernel is ending is waited for.

        Returns:
            Whether it runs.
        """
        if not self._is_listed():
            return False
        if not _is_ending(self.pid):
            return True
        with contextlib.suppress(ProcessLookupError):
            descriptor = os.pidfd_open(self.pid)
            try:
                _ended(descriptor, _KILL_SECONDS)
            finally:
                os.close(descriptor)
        return self._is_listed()

    def _is_listed(self) -> bool:
        return self.boot == _boot() and _start_ticks(self.pid) == self.start_ticks

    def is_of_this_boot(self) -> bool:
        """Decide whether the process was started since the machine came up.

        Returns:
            Whether it was.
        """
        return self.boot == _boot()

    def request_stop(self) -> None:
        """Ask the process to end, without waiting; `stop` waits."""
        with contextlib.suppress(ProcessLookupError):
            descriptor = os.pidfd_open(self.pid)
            if self.is_alive():
                _signal(descriptor, signal.SIGTERM)
            os.close(descriptor)

    def stop(self, terminate_seconds: float = TERMINATE_SECONDS) -> bool:
        """End the process in order, or by force after a time.

        Args:
            terminate_seconds: Longest wait for an orderly end.

        Returns:
            Whether the process ended in order, or had ended before.
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
            _reap()

    def ends_within(self, wait_seconds: float) -> bool:
        """Wait for the end of the process.

        Args:
            wait_seconds: Longest wait.

        Returns:
            Whether the process ended in time.
        """
        deadline = time.monotonic() + wait_seconds
        while self.is_alive():
            if time.monotonic() > deadline:
                return False
            time.sleep(0.02)
        return True


def start(
    command: Sequence[str | Path], *, record: Path, log: Path, folder: Path, read_output: bool = False
) -> subprocess.Popen[str]:
    """Start a program in a session of its own.

    Args:
        command: The program's path or name, and its arguments.
        record: File that will name the process.
        log: File to which the program's output is appended.
        folder: The program's working directory.
        read_output: Whether the program's standard output is a pipe that the caller reads.

    Returns:
        The process, which has its record.

    Raises:
        OSError: The program cannot be executed, or the log or the record cannot be written; the error names the file.
    """
    program = str(command[0])
    if shutil.which(program) is None:
        number = errno.EACCES if os.path.lexists(program) else errno.ENOENT
        raise OSError(number, os.strerror(number), program)
    _reap()
    temporary = record.with_name(f".{record.name}")
    held, holds = os.pipe()
    try:
        with os.fdopen(os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600), "a") as words:
            child = subprocess.Popen(
                ["/bin/sh", "-c", _LAUNCHER, "sh", record, temporary, *map(str, command)],
                stdin=holds,
                stdout=subprocess.PIPE if read_output else words,
                stderr=words,
                text=True,
                cwd=folder,
                env=without_store(os.environ) | window_folders.variables(os.environ),
                start_new_session=True,
            )
        with _children_lock:
            _children.append(child)
    except BaseException:
        os.close(held)
        raise
    finally:
        os.close(holds)
    try:
        if not _ended(held, _LAUNCH_SECONDS):
            raise TimeoutError(errno.ETIMEDOUT, f"no process was recorded within {_LAUNCH_SECONDS:.0f} s", str(record))
    except BaseException:
        # An interrupted caller has no record by which to stop the process.
        child.kill()
        child.wait()
        raise
    finally:
        os.close(held)
    recorded = Process.recorded(record)
    if recorded is None or recorded.pid != child.pid:
        child.wait()
        # The shell's own words went to the log, which has no more room than the record.
        number = errno.ENOSPC if os.statvfs(record.parent).f_bavail == 0 else errno.EIO
        raise OSError(number, os.strerror(number), str(record))
    return child


def reason(log: Path, offset: int, ended: str) -> tuple[str, str]:
    """Find the reason why a program ended that was to serve.

    Args:
        offset: Offset of the program's first words in the log.
        ended: Words for an end without an error in the log.

    Returns:
        Message and hint.
    """
    told = last_error(log, offset)
    if told is not None:
        return told
    room = os.statvfs(log.parent)
    if room.f_bavail == 0:
        return ended, f"the file system of {log} is full, and the program's words are lost: make room there"
    return ended, f"see {log}"


def last_error(log: Path, offset: int) -> tuple[str, str] | None:
    """Find the last line of a log that tells an error.

    Args:
        offset: Offset from which the log is read.

    Returns:
        Message and hint of the line; None where there is none.
    """
    return error_in([line.strip() for line in words_since(log, offset)])


def words_since(log: Path, offset: int) -> list[str]:
    """Read a log from an offset on.

    Returns:
        The lines.
    """
    with log.open(errors="replace") as file:
        file.seek(offset)
        return list(file)


def end_of(log: Path) -> int:
    """Find the end of a log before a program is started. A log that is half full begins anew, and not in the start.

    Args:
        log: Path of the log, which need not exist.

    Returns:
        Offset of the program's first words.

    Raises:
        OSError: The log cannot be renamed.
    """
    try:
        size = log.stat().st_size
    except FileNotFoundError:
        return 0
    if size <= LOG_BYTES_MAX // 2:
        return size
    log.rename(older_log(log))
    return 0


def older_log(log: Path) -> Path:
    """Name the log that was full before a log began.

    Returns:
        Path of the older log, which need not exist.
    """
    return log.with_name(f"{log.name}.1")


def error_in(lines: Sequence[str]) -> tuple[str, str] | None:
    """Find the last line that tells an error.

    The hint follows `hint:` on the same or the next line, or else the last semicolon.

    Args:
        lines: Lines of a log, stripped.

    Returns:
        Message and hint of the line; None where there is none.
    """
    for number in range(len(lines) - 1, -1, -1):
        line = lines[number]
        told = _ERROR.match(line)
        if told is None:
            continue
        message, _, hint = line[told.end() :].partition("hint:")
        following = lines[number + 1] if number + 1 < len(lines) else ""
        if not hint and following.startswith("hint:"):
            hint = following.removeprefix("hint:")
        if not hint and "; " in message:
            message, _, hint = message.rpartition("; ")
        return message.strip().rstrip(";,"), hint.strip()
    return None


_children: list[subprocess.Popen[str]] = []
"""The started processes that this process has to reap, if it does not end before them."""
_children_lock = threading.Lock()


def _reap() -> None:
    """Reap children that have ended, so that a process that stays has no zombies."""
    with _children_lock:
        _children[:] = [child for child in _children if not _is_reaped(child)]


@atexit.register
def _leave() -> None:
    """Leave the processes that go on to the system: they outlive this one on purpose, and Python would warn of each."""
    for child in _children:
        if child.poll() is None:
            child.returncode = 0


def _is_reaped(child: subprocess.Popen[str]) -> bool:
    """Reap a child if it has ended.

    The first thread of a killed program may be a zombie before the others have ended; only then can it be reaped.
    """
    if child.poll() is None and _start_ticks(child.pid) is None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(_KILL_SECONDS)
    return child.returncode is not None


def _start_ticks(pid: int) -> int | None:
    try:
        state = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = state.rpartition(")")[2].split()
    # A zombie has ended; where process 1 does not reap, it stays in the table for ever.
    return None if fields[0] in "ZX" else int(fields[_START_TIME_FIELD])


def _is_ending(pid: int) -> bool:
    """Whether a process runs no more instructions of its program: SIGKILL was sent to it, or it is in its exit.

    Such a process is in the table, with its ports and locks, until the kernel has run it once more.
    """
    try:
        status = Path(f"/proc/{pid}/status").read_text()
        flags = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[_FLAGS_FIELD])
    except (FileNotFoundError, ProcessLookupError):
        return True
    pending = re.findall(r"^(?:SigPnd|ShdPnd):\s*([0-9a-f]+)$", status, re.MULTILINE)
    is_killed = any(int(mask, 16) >> (signal.SIGKILL - 1) & 1 for mask in pending)
    return is_killed or bool(flags & _EXITING)


def _boot() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def _signal(descriptor: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        signal.pidfd_send_signal(descriptor, number)


def _ended(descriptor: int, wait_seconds: float) -> bool:
    """Whether a process ends, or a pipe, within `wait_seconds`."""
    poller = select.poll()
    poller.register(descriptor, select.POLLIN)
    return bool(poller.poll(wait_seconds * 1000))
