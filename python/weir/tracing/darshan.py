"""Darshan logs as runs, for sites that have Darshan and no tracer of ours.

Darshan's library may crash on the log of a pre-release, so logs are read in a child process with a time limit.
Every file that a run wrote counts as created: Darshan does not tell whether the file was there before.
"""

import importlib.util
import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from weir.distribution import install_command
from weir.errors import WeirError
from weir.tracing.records import SHARED, Creation, Run

READ_SECONDS_MAX = 120.0
"""Time limit for one log; a log of a million records takes about 20 s."""
_START_SECONDS_MAX = 60.0
"""Additional time for the child's first log: it imports the library."""
_ANSWER_BYTES_MAX = 1 << 28
"""Longest answer about a log: half a kilobyte for each of half a million files, in ten times as much memory."""
_MAGIC = 6567223
"""`DARSHAN_MAGIC_NR` of darshan-log-format.h, at byte 8 of every log of version 3."""
_COMPRESSED = (b"\x1f\x8b", b"BZh")
"""Logs of Darshan 1 and 2 are compressed as a whole, by gzip or bzip2."""


class DarshanError(WeirError):
    """A log that cannot be read: its path, the reason, and a hint."""


@dataclass(frozen=True, slots=True)
class Component:
    """One component of a file's layout on Lustre."""

    end_bytes: int | None
    """End of the component in bytes; None at the end of the file."""
    stripe_bytes: int
    targets: tuple[int, ...]
    """OST indices in stripe order."""


@dataclass(frozen=True, slots=True)
class Access:
    """The access of a rank to a file by one interface, or of all ranks where one reduced record stands for them.

    Moments are seconds from the run's start.
    """

    rank: int
    """The rank; -1 in a reduced record of all ranks."""
    opened: float
    """Begin of the first open; 0 where it was not seen."""
    closed: float
    """End of the last open, read, write or close."""
    first_read: float
    """Begin of the first read; 0 where nothing was read."""
    first_write: float
    """Begin of the first write; 0 where nothing was written."""
    read_seconds: float
    """Time in reads; of all ranks together in a reduced record."""
    write_seconds: float
    """Time in writes; of all ranks together in a reduced record."""
    reads: int
    writes: int
    read_bytes: int
    written_bytes: int
    transfer_bytes: int
    """The most common size of an access; 0 where it is not known."""


@dataclass(frozen=True, slots=True)
class Segments:
    """The traced accesses of a rank to a file as columns, the writes before the reads."""

    rank: int
    writes: int
    """Number of writes, which come first."""
    offsets: tuple[int, ...]
    lengths: tuple[int, ...]
    starts: tuple[float, ...]
    """Begin of each access, in seconds from the run's start."""
    ends: tuple[float, ...]
    """End of each access, in seconds from the run's start."""


@dataclass(frozen=True, slots=True)
class LoggedFile:
    """A log's record of one file, all ranks together."""

    path: str
    rank: int
    """Rank that used the file, or `SHARED`."""
    processes: int
    """Number of ranks that opened the file."""
    writers: int
    """Number of ranks that wrote the file; all ranks where one reduced record stands for them and nothing was
    traced."""
    size_bytes: int
    """One past the last byte written; 0 where nothing was written."""
    size_read_bytes: int
    """One past the last byte read."""
    reads: int
    writes: int
    read_bytes: int
    written_bytes: int
    transfer_bytes: int
    """The most common size of an access; 0 where it is not known."""
    unaligned: int
    """Accesses whose offset is no multiple of the file system's block."""
    seconds: float
    """Time of the slowest rank in reads and writes."""
    components: tuple[Component, ...]
    """Components; empty where the file does not lie on Lustre, or the log does not tell."""
    accesses: tuple[Access, ...] = ()
    """Times of the accesses, where they were asked for."""
    segments: tuple[Segments, ...] = ()
    """Traced accesses, where they were asked for and the log has them (DXT)."""

    @property
    def layout(self) -> str | None:
        """The layout in the spelling of `lfs setstripe`, without the targets; None where it is not known."""
        if not self.components or not all(component.targets for component in self.components):
            return None
        if len(self.components) == 1 and self.components[0].end_bytes is None:
            only = self.components[0]
            return f"-c {len(only.targets)} -S {only.stripe_bytes}"
        return " ".join(
            f"-E {-1 if part.end_bytes is None else part.end_bytes} -c {len(part.targets)} -S {part.stripe_bytes}"
            for part in self.components
        )


@dataclass(frozen=True, slots=True)
class DarshanLog:
    """One log."""

    path: Path
    version: str
    """Version of the log's format."""
    run: Run
    files: tuple[LoggedFile, ...]
    """Files in the order in which they were opened."""
    incomplete: tuple[str, ...]
    """Modules that ran out of memory, so that files are missing or counted in part."""
    modules: tuple[str, ...]
    """Modules that recorded something; without any the run did no I/O that Darshan saw."""
    job_id: int = 0
    """Number of the job in the site's queues; the number of a process where there was no queue."""
    uid: int = 0
    """Number of the user."""


def read_log(path: Path, *, seconds_max: float = READ_SECONDS_MAX, times: bool = False) -> DarshanLog:
    """Read one log.

    Args:
        path: The log.
        seconds_max: Longest time that the library may take.
        times: Whether the files have the times of their accesses, and the traced accesses.

    Raises:
        DarshanError: The file is no log, has an unreadable version, is damaged, or took too long.
    """
    ((_, answer),) = read_logs([path], seconds_max=seconds_max, times=times)
    if isinstance(answer, DarshanError):
        raise answer
    return answer


def read_logs(
    paths: Sequence[Path], *, seconds_max: float = READ_SECONDS_MAX, times: bool = False
) -> Iterator[tuple[Path, DarshanLog | DarshanError]]:
    """Read logs one after the other; a log that harms the library does not harm the next log.

    Args:
        paths: The logs.
        seconds_max: Longest time that the library may take for each log.
        times: Whether the files have the times of their accesses, and the traced accesses.

    Yields:
        The path of each log, with the log or the reason why it cannot be read.
    """
    reader: Reader | None = None
    try:
        for path in paths:
            refused = refusal(path)
            if refused is not None:
                yield path, refused
                continue
            if reader is None or not reader.is_alive:
                reader = Reader()
            answer = reader.ask(path, seconds_max, "times" if times else "files")
            yield path, answer if isinstance(answer, DarshanError) else log_of(path, answer)
    finally:
        if reader is not None:
            reader.end()


def refusal(path: Path) -> DarshanError | None:
    """Decide whether a file can be a log, because the library only reports that it failed.

    Returns:
        The reason why the file is no readable log; None where it may be one.
    """
    if importlib.util.find_spec("darshan") is None:
        return DarshanError(
            f"{path}: Darshan logs are read by the package darshan, which is not installed",
            hint=install_command("placement"),
        )
    try:
        if path.exists() and not path.is_file():
            return DarshanError(
                f"{path} is not a file", hint="give the logs themselves, or their folder as FOLDER/*.darshan"
            )
        with path.open("rb") as file:
            head = file.read(16)
    except OSError as error:
        return DarshanError(f"{path}: {error.strerror}")
    if not head:
        return DarshanError(f"{path} is empty", hint="the run ended before Darshan wrote its log; use another one")
    if head.startswith(_COMPRESSED):
        return DarshanError(
            f"{path} is a log of Darshan 1 or 2, which Darshan's library no longer reads",
            hint="trace the program with Darshan 3, or with `weir run --trace`",
        )
    orders = ("little", "big")
    if len(head) < 16 or all(int.from_bytes(head[8:16], order) != _MAGIC for order in orders):  # type: ignore[arg-type]
        return DarshanError(f"{path} is not a Darshan log", hint="give logs that end in .darshan")
    return None


class Reader:
    """A child process that reads logs by Darshan's library, one after the other."""

    def __init__(self) -> None:
        """Start the process."""
        self._child = subprocess.Popen(
            [sys.executable, "-P", "-m", "weir.tracing.darshan_reader"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            # A thread for each core would reserve more address space than the child may have.
            env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
        )
        self._allowance = _START_SECONDS_MAX
        self.is_alive = True

    def ask(self, path: Path, seconds_max: float, want: str) -> dict[str, Any] | DarshanError:
        """Read one log. If the process died or took too long, it is gone.

        Args:
            path: The log.
            seconds_max: Longest time that the library may take.
            want: `files`, `times` or `totals`, as in `weir.tracing.darshan_reader`.

        Returns:
            The log's content, or the reason why there is none.
        """
        line = self._line(path, seconds_max + self._allowance, want)
        self._allowance = 0.0
        if isinstance(line, DarshanError):
            self.end()
            return line
        answer = json.loads(line)
        if "error" in answer:
            return DarshanError(
                f"{path} cannot be read by Darshan's library: {answer['error']}",
                hint="it is damaged or cut short; copy it again, or leave it out",
            )
        log: dict[str, Any] = answer["log"]
        return log

    def _line(self, path: Path, seconds_max: float, want: str) -> bytes | DarshanError:
        assert self._child.stdin is not None and self._child.stdout is not None
        deadline = time.monotonic() + seconds_max
        line = bytearray()
        try:
            self._child.stdin.write(json.dumps({"path": str(path), "want": want}).encode() + b"\n")
            self._child.stdin.flush()
        except BrokenPipeError:
            return self._died(path)
        while not line.endswith(b"\n"):
            ready, _, _ = select.select([self._child.stdout], [], [], max(deadline - time.monotonic(), 0.0))
            if len(line) > _ANSWER_BYTES_MAX:
                return DarshanError(
                    f"{path} has more than {_ANSWER_BYTES_MAX >> 20} MiB of records",
                    hint="leave it out, or split the run",
                )
            if not ready:
                return DarshanError(
                    f"{path}: Darshan's library did not read it within {seconds_max:.0f} s",
                    hint="it is probably damaged; leave it out",
                )
            piece = os.read(self._child.stdout.fileno(), 1 << 20)
            if not piece:
                return self._died(path)
            line += piece
        return bytes(line)

    def _died(self, path: Path) -> DarshanError:
        code = self._child.wait()
        return DarshanError(
            f"{path}: Darshan's library crashed on it ({f'signal {-code}' if code < 0 else f'exit code {code}'})",
            hint="it is damaged or was written by a pre-release of Darshan; leave it out",
        )

    def end(self) -> None:
        """End the child."""
        self.is_alive = False
        if self._child.poll() is None:
            self._child.kill()
        self._child.wait()
        for pipe in (self._child.stdin, self._child.stdout):
            if pipe is not None:
                pipe.close()


def log_of(path: Path, found: dict[str, Any]) -> DarshanLog:
    """Make a log of what a reader found.

    Args:
        path: The log.
        found: The answer of `Reader.ask` for `files` or `times`.
    """
    files = tuple(_logged(file) for file in found["files"])
    command = found["command"] or ["unknown"]
    run = Run(
        program=command[0].rsplit("/", 1)[-1],
        arguments=tuple(command[1:]),
        ranks=found["ranks"],
        started=found["started"],
        ended=found["started"] + found["seconds"],
        creations=_creations(files),
        source="darshan",
    )
    return DarshanLog(
        path,
        found["version"],
        run,
        files,
        incomplete=tuple(found["incomplete"]),
        modules=tuple(found["modules"]),
        job_id=found["job_id"],
        uid=found["uid"],
    )


def _logged(file: dict[str, Any]) -> LoggedFile:
    components = tuple(
        Component(
            end_bytes=None if part["end_bytes"] < 0 else part["end_bytes"],
            stripe_bytes=part["stripe_bytes"],
            targets=tuple(part["targets"]),
        )
        for part in file["components"]
    )
    apart = ("components", "accesses", "segments")
    fields = {name: file[name] for name in LoggedFile.__dataclass_fields__ if name not in apart}
    return LoggedFile(
        **fields,
        components=components,
        accesses=tuple(Access(**access) for access in file.get("accesses", ())),
        segments=tuple(_segments(part) for part in file.get("segments", ())),
    )


def _segments(part: dict[str, Any]) -> Segments:
    columns = {name: tuple(part[name]) for name in ("offsets", "lengths", "starts", "ends")}
    return Segments(rank=part["rank"], writes=part["writes"], **columns)


def _creations(files: Sequence[LoggedFile]) -> tuple[Creation, ...]:
    """The written files, each with its position among the files of its rank."""
    orders: dict[int, int] = {}
    creations = []
    for file in files:
        if file.writes == 0 and file.written_bytes == 0:
            continue
        order = orders.get(file.rank, 0)
        orders[file.rank] = order + 1
        creations.append(
            Creation(
                path=file.path,
                rank=file.rank,
                order=order,
                size_bytes=file.size_bytes,
                written_bytes=file.written_bytes,
                writers=max(file.writers, 1) if file.rank == SHARED else 1,
                layout=file.layout,
            )
        )
    return tuple(creations)
