"""The reading of logs into the archive, by any number of processes.

Each worker keeps one child process that reads logs (`weir.tracing.totals`), so a log that harms the library ends that
child alone.
"""

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from weir.provisioning.errors import ProvisioningError
from weir.provisioning.learning.archive import Archive, LogFile, ParsedLog
from weir.provisioning.learning.runs import of_totals
from weir.provisioning.learning.summaries import ENDINGS, read_table
from weir.simulation.sweeps.pools import Pool
from weir.tracing.darshan import DarshanError
from weir.tracing.totals import TotalsReader

_BATCH = 32
"""Logs of a task: few enough that a killed build loses little, enough that tasks cost nothing beside them."""
_REASON_MAX = 500
"""Longest reason that is kept for an unreadable log."""
_own = threading.local()


@dataclass(frozen=True)
class ParseTask:
    """Logs that one worker reads."""

    logs: tuple[LogFile, ...]

    @property
    def key(self) -> str:
        """Name of the task."""
        return f"logs-{self.logs[0].number}"


def check(paths: Sequence[Path]) -> None:
    """Refuse paths that do not exist, before anything is written.

    Args:
        paths: Logs, tables of summaries, and folders.

    Raises:
        ProvisioningError: A path does not exist or cannot be looked at.
    """
    for path in paths:
        try:
            path.stat()
        except OSError as error:
            raise ProvisioningError(f"{path}: {error.strerror}", hint="give logs, or folders that hold them") from error


def listed(paths: Sequence[Path]) -> Iterator[tuple[str, int, int]]:
    """List logs below folders, one by one.

    Args:
        paths: Logs, tables of summaries, and folders with logs at any depth.

    Yields:
        Absolute path, size and time of change of each.

    Raises:
        ProvisioningError: A path does not exist or cannot be listed.
    """
    for path in paths:
        try:
            if path.is_dir():
                yield from _below(path.absolute())
            else:
                found = path.stat()
                yield str(path.absolute()), found.st_size, found.st_mtime_ns
        except OSError as error:
            raise ProvisioningError(f"{path}: {error.strerror}", hint="give logs, or folders that hold them") from error


def _below(folder: Path) -> Iterator[tuple[str, int, int]]:
    folders = [str(folder)]
    while folders:
        with os.scandir(folders.pop()) as entries:
            for entry in entries:
                # A link to a folder above would never end.
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
                elif entry.name.endswith((".darshan", *ENDINGS)) and entry.is_file():
                    found = entry.stat()
                    yield entry.path, found.st_size, found.st_mtime_ns


def parse(archive: Archive, pool: Pool, progress: Callable[[int, int], object]) -> None:
    """Read the logs that the archive lacks.

    Args:
        archive: The archive, whose logs are listed.
        pool: The place where logs are read.
        progress: Called with the number of logs that are read, and of all.
    """
    total = archive.waiting_count()
    done = 0
    progress(done, total)
    tasks = (ParseTask(batch) for batch in archive.waiting(_BATCH))
    with closing(pool.answers(parsed, tasks)) as answers:
        for task, logs in answers:
            archive.keep(logs)
            done += len(task.logs)
            progress(done, total)


def parsed(task: ParseTask, is_wanted: Callable[[], bool]) -> tuple[ParsedLog, ...]:
    """Read the logs of a task.

    Args:
        is_wanted: Whether the answer is still wanted.

    Returns:
        Each log's runs, or the reason why it cannot be read.
    """
    return tuple(_parsed(log) for log in task.logs if is_wanted())


def _parsed(log: LogFile) -> ParsedLog:
    path = Path(log.path)
    try:
        if log.path.endswith(ENDINGS):
            return ParsedLog(log.number, tuple(read_table(path)), None)
        return ParsedLog(log.number, (of_totals(_reader().read(path)),), None)
    except (DarshanError, ProvisioningError) as error:
        return ParsedLog(log.number, (), error.message[:_REASON_MAX])


def _reader() -> TotalsReader:
    """The reader of this thread; its child ends with the process, whose end closes the child's input."""
    reader: TotalsReader | None = getattr(_own, "reader", None)
    if reader is None:
        reader = _own.reader = TotalsReader()
    return reader
