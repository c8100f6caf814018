"""The counters of a Darshan log over all of its files: what a run did as a whole, without the files one by one."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from weir.tracing.darshan import READ_SECONDS_MAX, DarshanError, DarshanLog, Reader, log_of, refusal


@dataclass(frozen=True, slots=True)
class InterfaceTotals:
    """The calls of one interface, summed over all files and ranks."""

    files: int
    """Files that were used by it."""
    shared_files: int
    """Files that all ranks used."""
    counters: Mapping[str, int]
    """Darshan's counters that add up, by their names without the interface, such as `OPENS` or `SIZE_READ_0_100`."""
    seconds: Mapping[str, float]
    """Times in seconds by `READ_TIME`, `WRITE_TIME` and `META_TIME`, all ranks together."""

    def count(self, *names: str) -> int:
        """Add counters up.

        Args:
            names: Names of counters; a log of an older version may lack some.

        Returns:
            Their sum.
        """
        return sum(self.counters.get(name, 0) for name in names)


@dataclass(frozen=True, slots=True)
class LogTotals:
    """A log without its files."""

    path: Path
    version: str
    """Version of the log's format."""
    command: tuple[str, ...]
    """The program and its arguments; empty where the log does not tell."""
    ranks: int
    """Processes."""
    started: float
    """Begin of the run, in seconds since 1970."""
    seconds: float
    """Time from begin to end."""
    job_id: int
    """Number of the job in the site's queues."""
    uid: int
    """Number of the user."""
    modules: tuple[str, ...]
    """Modules that recorded something."""
    incomplete: tuple[str, ...]
    """Modules that ran out of memory, so that calls are missing."""
    interfaces: Mapping[str, InterfaceTotals]
    """Totals of `POSIX`, `STDIO` and `MPI-IO`, where the log has them."""


class TotalsReader:
    """Reads logs one after the other in a child process, which stays for the next log."""

    def __init__(self) -> None:
        """Make a reader; its process starts with the first log."""
        self._reader: Reader | None = None

    def start(self) -> None:
        """Start the process ahead of the first log: it imports the library while the caller does other work."""
        if self._reader is None or not self._reader.is_alive:
            self._reader = Reader()

    def read(self, path: Path, *, seconds_max: float = READ_SECONDS_MAX) -> LogTotals:
        """Read one log.

        Args:
            path: The log.
            seconds_max: Longest time that the library may take.

        Returns:
            The log's totals.

        Raises:
            DarshanError: The file is no log, has an unreadable version, is damaged, or took too long.
        """
        refused = refusal(path)
        if refused is not None:
            raise refused
        self.start()
        assert self._reader is not None
        answer = self._reader.ask(path, seconds_max, "totals")
        if isinstance(answer, DarshanError):
            raise answer
        return _totals(path, answer)

    def end(self) -> None:
        """End the child process."""
        if self._reader is not None:
            self._reader.end()
            self._reader = None


def read_totals(
    paths: Sequence[Path], *, seconds_max: float = READ_SECONDS_MAX
) -> Iterator[tuple[Path, LogTotals | DarshanError]]:
    """Read logs one after the other; a log that harms the library does not harm the next log.

    Args:
        paths: The logs.
        seconds_max: Longest time that the library may take for each log.

    Yields:
        The path of each log, with its totals or the reason why it cannot be read.
    """
    reader = TotalsReader()
    try:
        for path in paths:
            try:
                yield path, reader.read(path, seconds_max=seconds_max)
            except DarshanError as error:
                yield path, error
    finally:
        reader.end()


def read_whole(path: Path, *, seconds_max: float = READ_SECONDS_MAX) -> tuple[DarshanLog, LogTotals]:
    """Read the files of a log with the times of their accesses, and the log's totals.

    Args:
        path: The log.
        seconds_max: Longest time that the library may take for each of both.

    Raises:
        DarshanError: The file is no log, has an unreadable version, is damaged, or took too long.
    """
    refused = refusal(path)
    if refused is not None:
        raise refused
    reader = Reader()
    try:
        totals, times = (reader.ask(path, seconds_max, want) for want in ("totals", "times"))
    finally:
        reader.end()
    for answer in (totals, times):
        if isinstance(answer, DarshanError):
            raise answer
    assert isinstance(totals, dict) and isinstance(times, dict)
    return log_of(path, times), _totals(path, totals)


def _totals(path: Path, found: dict[str, Any]) -> LogTotals:
    return LogTotals(
        path=path,
        version=found["version"],
        command=tuple(found["command"]),
        ranks=found["ranks"],
        started=found["started"],
        seconds=found["seconds"],
        job_id=found["job_id"],
        uid=found["uid"],
        modules=tuple(found["modules"]),
        incomplete=tuple(found["incomplete"]),
        interfaces={name: InterfaceTotals(**each) for name, each in found["totals"].items()},
    )
