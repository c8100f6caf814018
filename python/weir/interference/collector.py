"""The collector: reads the windows of all servers of a store while it runs, and joins them to rows of a data set.

A server that dies, or that joins, loses the open window at most, and a collector that is started again finds the
windows that the servers still have; each loss is told.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from stat import S_ISDIR
from typing import TYPE_CHECKING, Any

from weir.interference.errors import InterferenceError
from weir.interference.upkeep import check_own
from weir.store.observations import METADATA, JobKey
from weir.ways import make_work_folder

if TYPE_CHECKING:
    from weir.store.client_windows import ClientLine, ClientWindows
    from weir.store.control import Server
    from weir.store.observations import ObservedDevice, ObservedJob, Window, Windows

CLIENT_COUNTS = {
    "client_reads": "reads",
    "client_writes": "writes",
    "client_read_bytes": "read_bytes",
    "client_written_bytes": "written_bytes",
    "client_stats": "stats",
    "client_opens": "opens",
    "client_closes": "closes",
}
"""Columns of a job's counts, and the counts of the control API."""
_REDUCED = (
    "reads",
    "writes",
    "read_sectors",
    "written_sectors",
    "read_milliseconds",
    "write_milliseconds",
    "in_progress",
    "busy_milliseconds",
    "queued_milliseconds",
)
"""Counters of a device. No scheduler of a store merges requests, so merged requests are 0."""
PART_WINDOWS = 10
"""Windows of one file of a run."""
_OPEN_WINDOWS = 60
"""Windows after which a file of a run that did nothing more is whole."""
_WAITING_MAX = 600
"""Most windows that wait for a server that has not told them yet."""


@dataclass
class _Known:
    """The last news of a server."""

    boot: str
    last: int
    is_silent: bool = False


@dataclass
class Collector:
    """Windows of a store's servers, put together by their numbers.

    Attributes:
        find: Finds the servers there are now.
        tell: Takes a line about each loss.
        look_at_clients: Takes the number of a window and the length of windows, and gives the windows of clients after
            that one; absent where the servers' counts are enough.
        keeps_parts: Whether windows are kept in which a server started: their work is whole, and their time is not.
    """

    find: "Callable[[], Sequence[Server]]"
    tell: Callable[[str], None]
    look_at_clients: "Callable[[int, float], ClientWindows] | None" = None
    keeps_parts: bool = False
    window_seconds: float = 0.0
    """Length of a window, once a server has told it."""
    _has_polled: bool = False
    _known: dict[int, _Known] = field(default_factory=dict)
    _waiting: "dict[int, list[Window]]" = field(default_factory=dict)
    _clients: "dict[int, list[ClientLine]]" = field(default_factory=dict)
    _clients_reached: int = 0
    _clients_first: int = 0

    def poll(self) -> None:
        """Ask all servers for the windows that ended since the last call."""
        from weir.store.control import ask_all
        from weir.store.errors import StoreError

        servers = list(self.find())

        def question(server: "Server") -> "Windows":
            known = self._known.get(server.number)
            return server.windows(known.last if known else 0)

        for server, answer in zip(servers, ask_all(servers, question), strict=True):
            if isinstance(answer, StoreError):
                self._note_silence(server.number, answer)
            else:
                self._take(server.number, answer)
        for number in self._known.keys() - {server.number for server in servers}:
            self._note_silence(number, f"server {number} left the store")
        self._has_polled = True
        self._gather()
        for waiting in (self._waiting, self._clients):
            while len(waiting) > _WAITING_MAX:
                del waiting[min(waiting)]

    def _gather(self) -> None:
        """Take what clients counted since the last call."""
        if self.look_at_clients is None or not self.window_seconds:
            return
        found = self.look_at_clients(self._clients_reached, self.window_seconds)
        if not self._clients_reached:
            self._clients_first = found.first
        for line in found.lines:
            self._clients.setdefault(line.window, []).append(line)
        self._clients_reached = found.last

    def silent(self) -> list[int]:
        """The servers that do not answer, or have left.

        Returns:
            Their numbers.
        """
        return sorted(number for number, known in self._known.items() if known.is_silent)

    def boot_of(self, server: int) -> str:
        """The start of a server that told windows.

        Returns:
            Its identity; empty where the server is not known.
        """
        known = self._known.get(server)
        return known.boot if known else ""

    def _note_silence(self, number: int, error: Exception | str) -> None:
        known = self._known.setdefault(number, _Known("", 0))
        if not known.is_silent:
            self.tell(f"{error}; its windows are missing from now on, and the open one is lost")
        known.is_silent = True

    def _take(self, number: int, answer: "Windows") -> None:
        if self.window_seconds not in (0.0, answer.window_seconds):
            raise InterferenceError(
                f"server {number} has windows of {answer.window_seconds} s, and another one of {self.window_seconds} s",
                hint="all servers of a store need the same `window` in cluster.toml",
            )
        self.window_seconds = answer.window_seconds
        known = self._known.get(number)
        if known is None and self._has_polled and not self.keeps_parts:
            self.tell(f"server {number} joined: its open window is lost")
        elif known is not None and known.boot and known.boot != answer.boot:
            self.tell(f"server {number} was started again: the windows between are lost")
        elif known is not None and answer.windows and known.last and answer.windows[0].number > known.last + 1:
            self.tell(f"{answer.windows[0].number - known.last - 1} windows of server {number} are lost")
        last = answer.windows[-1].number if answer.windows else (known.last if known else 0)
        self._known[number] = _Known(answer.boot, last)
        for window in answer.windows:
            if window.is_whole or self.keeps_parts:
                self._waiting.setdefault(window.number, []).append(window)

    def take(self, *, is_end: bool = False) -> "list[tuple[int, list[Window]]]":
        """Take the windows that every server that answers has told.

        Servers keep more windows than clients do: those before the first that clients could tell are dropped.

        Args:
            is_end: Whether to take the others, too.

        Returns:
            The number of each window, and the window at each server, in the order of time.
        """
        reached = self.reached()
        for early in [number for number in self._waiting if number < self._clients_first]:
            del self._waiting[early]
        ready = sorted(number for number in self._waiting if is_end or number <= reached)
        return [(number, self._waiting.pop(number)) for number in ready]

    def take_clients(self, number: int) -> "list[ClientLine]":
        """Take what clients counted in a window that was taken.

        Returns:
            The operations of all jobs.
        """
        for earlier in [each for each in self._clients if each < number]:
            del self._clients[earlier]
        return self._clients.pop(number, [])

    def reached(self) -> int:
        """The last window that every server that answers has told, and that clients have ended.

        Returns:
            Its number; 0 before the first.
        """
        told = self.told()
        return told if self.look_at_clients is None else min(told, self._clients_reached)

    def told(self) -> int:
        """The last window that every server that answers has told.

        Returns:
            Its number; 0 before the first.
        """
        return min((known.last for known in self._known.values() if not known.is_silent), default=0)


@dataclass(frozen=True, slots=True)
class JobWindow:
    """A job in a window, on all servers."""

    number: int
    """Number of the window since 1970."""
    rows: tuple[dict[str, Any], ...]
    """Rows of a data set: one for each device."""
    device_seconds: float
    """Device time that the job received."""
    waited_seconds: float
    """Device time that others received while the job had requests queued."""
    waited_for: dict[str, float]
    """The same by the names of the others."""


def joined(
    number: int,
    at_servers: "Iterable[Window]",
    job: str,
    run: str,
    workload: str,
    *,
    uid: int | None = None,
    clients: "Sequence[ClientLine] | None" = None,
) -> JobWindow:
    """Put a window of all servers together for one job.

    A row has the job's operations as its programs counted them, or as the servers did, and says which: the time of an
    operation begins at the client in the one, and at its arrival in the other.

    Args:
        at_servers: The window at each server.
        job: Name of the job.
        run: Name of the run.
        workload: Name of the workload.
        uid: Number of the job's user; None joins the jobs of all users with this name.
        clients: What clients counted in the window; by default the servers' counts are taken.

    Returns:
        The rows, and the waits of the job.
    """
    devices: dict[str, ObservedDevice] = {}
    lines: dict[str, list[ObservedJob]] = {}
    for window in at_servers:
        devices.update((device.device, device) for device in window.devices)
        for line in window.jobs:
            if line.job == job and uid in (None, line.uid):
                lines.setdefault(line.device, []).append(line)
    own = [line for of_device in lines.values() for line in of_device]
    shared = {
        "run": run,
        "workload": workload,
        "window": number,
        "io_seconds": sum(line.request_seconds for line in own),
        "slowdown": None,
        "counted_by": "server",
    }
    counts = {name: _counts_of_servers(lines.get(name, [])) for name in devices}
    if clients is not None:
        counted = [line for line in clients if line.job == job and uid in (None, line.uid)]
        shared |= {"io_seconds": sum(_client_seconds(line) for line in counted), "counted_by": "client"}
        counts = {name: _counts_of_clients([line for line in counted if line.device == name]) for name in devices}
    rows = tuple({**shared, **counts[name], **_row(device)} for name, device in sorted(devices.items()))
    waited: dict[str, float] = {}
    for line in own:
        for other in line.waited_for:
            waited[other.job] = waited.get(other.job, 0.0) + other.seconds
    waited_seconds = sum(waited.values()) + sum(line.waited_for_others_seconds for line in own)
    return JobWindow(number, rows, sum(line.device_seconds for line in own), waited_seconds, waited)


def _counts_of_servers(lines: "Sequence[ObservedJob]") -> dict[str, float]:
    """The counts of a job at a device, by the server."""
    return {column: float(sum(getattr(line, count) for line in lines)) for column, count in CLIENT_COUNTS.items()}


def _counts_of_clients(lines: "Sequence[ClientLine]") -> dict[str, float]:
    """The counts and times of a job at a device, by the job's programs on all hosts."""
    from weir.interference.windows import TIMES

    columns = CLIENT_COUNTS | {f"client_{name}": name for name in TIMES}
    return {column: float(sum(getattr(line, count) for line in lines)) for column, count in columns.items()}


def _client_seconds(line: "ClientLine") -> float:
    return line.read_seconds + line.write_seconds + line.metadata_seconds


def _row(device: "ObservedDevice") -> dict[str, Any]:
    """The row of a device, without the counts of the job."""
    row: dict[str, Any] = {"server": device.device, "is_metadata": device.device.endswith(METADATA)}
    for counter in _REDUCED:
        statistic = getattr(device, counter)
        for kind in ("sum", "mean", "deviation"):
            row[f"server_{counter}_{kind}"] = getattr(statistic, kind)
    return row


def owned_jobs_of(at_servers: "Iterable[Window]") -> list[JobKey]:
    """The jobs that did something in a window, apart by user: users may give their jobs the same name.

    Args:
        at_servers: The window at each server.

    Returns:
        The name of each, and the number of its user.
    """
    return sorted({JobKey(line.job, line.uid) for window in at_servers for line in window.jobs})


class Parts:
    """The Parquet files of runs below one folder, of which the oldest are removed beyond a size."""

    def __init__(self, folder: Path, bytes_max: int) -> None:
        """Take a folder for files.

        Args:
            folder: The folder, which is made.
            bytes_max: Most bytes of all parts.

        Raises:
            InterferenceError: The folder belongs to another user, or others may write to it.
        """
        self._folder = folder
        self._bytes_max = bytes_max
        self._open: dict[str, tuple[Path, list[dict[str, Any]], set[int]]] = {}
        make_work_folder(folder, 0o700)
        check_own(folder)

    def add(self, window: JobWindow) -> int:
        """Keep a window on disk at once.

        Returns:
            Number of the parts that were removed to make room.
        """
        return self.add_rows(window.number, window.rows)

    def add_rows(self, number: int, added: Sequence[dict[str, Any]]) -> int:
        """Keep the rows of a run's window on disk at once.

        Args:
            added: Rows of one run, one for each server.

        Returns:
            Number of the parts that were removed to make room.
        """
        from weir.interference.windows import write_rows

        if not added:
            return 0
        run = str(added[0]["run"])
        path, rows, numbers = self._open.get(run) or (self._part(run, number), [], set())
        rows.extend(added)
        numbers.add(number)
        path.parent.mkdir(exist_ok=True)
        write_rows(rows, path)
        self._open[run] = (path, rows, numbers)
        if len(numbers) >= PART_WINDOWS:
            del self._open[run]
        for idle in [run for run, (_, _, numbers) in self._open.items() if max(numbers) < number - _OPEN_WINDOWS]:
            del self._open[idle]
        return self._remove_oldest()

    def _part(self, run: str, number: int) -> Path:
        return self.place(run) / f"{number:012d}.parquet"

    def place(self, run: str) -> Path:
        """Find the folder of a run's parts.

        Args:
            run: Name of the run.

        Returns:
            The folder, which may not be there yet.
        """
        from urllib.parse import quote

        return self._folder / f"run={quote(run, safe='')}"

    def _remove_oldest(self) -> int:
        """Remove the oldest parts beyond the limit, except those that still grow."""
        growing = {path for path, _, _ in self._open.values()}
        parts = sorted(_parts_below(self._folder), key=lambda path: path.name)
        sizes = {path: _size(path) for path in parts}
        total, removed = sum(sizes.values()), 0
        for path in parts:
            if total <= self._bytes_max:
                break
            if path in growing:
                continue
            path.unlink(missing_ok=True)
            with suppress(OSError):
                # Other parts, or the mark of a collector, keep the folder.
                path.parent.rmdir()
            total -= sizes[path]
            removed += 1
        return removed


def _parts_below(folder: Path) -> Iterator[Path]:
    """The parts in folders of this user. Links lead elsewhere, and are left alone."""
    for run in folder.glob("run=*"):
        with suppress(FileNotFoundError):
            found = run.lstat()
            if S_ISDIR(found.st_mode) and found.st_uid == os.geteuid():
                yield from (path for path in run.glob("*.parquet") if not path.is_symlink())


def _size(path: Path) -> int:
    """The size of a part; 0 for one that another collector removed just now."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
