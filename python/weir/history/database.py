"""The file of a history: what was sampled goes in, and grows coarser with age, within a bound of bytes.

Each call is one transaction: a process that is killed, or a disk that is full, loses what was not committed and nothing
else.
"""

import fcntl
import os
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from weir.history.errors import FullDiskError, HistoryError, TakenHistoryError
from weir.history.levels import KEPT_MIN, MINUTE, Level, levels_of
from weir.history.samples import Decision, JobTraits, Sample
from weir.history.tables import FOLDING, OTHERS, Table
from weir.store.observations import JobKey
from weir.ways import check_closed

VERSION = 1
"""Version of the tables."""
FILE = "history.db"
"""Name of the file in a history's folder."""
_FILLED = 0.9
"""Part of the bound beyond which old buckets fold early: the rest is for the log and for folding itself."""
_LOG_BYTES_MAX = 16 << 20
"""Length to which the write-ahead log is cut after its pages went to the file."""
_SLICES = 64
"""Coarser buckets that fold in one transaction, so that no turn is long."""
_DECISIONS_MAX = 100_000
_NOTED_EVERY = MINUTE
"""Milliseconds after which the same traits of a job are kept again, with the moment at which the job was last seen."""
_JOBS_MAX = 100_000
"""Most jobs without any row that keep their names."""
_FULL = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR)


class Database:
    """A history that is written. One process at a time has it."""

    def __init__(self, folder: Path, *, bytes_max: int, kept: int = KEPT_MIN) -> None:
        """Open the history of a folder, and make it where it is missing.

        Args:
            folder: A folder of this user alone, which is made.
            bytes_max: Most bytes of the file.
            kept: Age up to which the history is kept, in milliseconds.

        Raises:
            HistoryError: The folder cannot be used, another recorder uses it, or its file is no history.
        """
        self.file = folder / FILE
        self._bytes_max = bytes_max
        self._kept = kept
        self._lock = _claimed(folder)
        try:
            self._connection = _opened(self.file)
            self.window = int(self._fact("window") or 0)
        except BaseException:
            os.close(self._lock)
            raise
        self._jobs: dict[JobKey, int] = {}
        self._devices: dict[str, int] = {}
        self._noted: dict[JobKey, tuple[JobTraits, int]] = {}
        """Traits of jobs and the moments at which they were kept."""

    def close(self) -> None:
        """Give the file back."""
        self._connection.close()
        os.close(self._lock)

    @property
    def levels(self) -> tuple[Level, ...]:
        """The levels, once a window's length is known."""
        return levels_of(self.window, self._kept) if self.window else ()

    def reached(self) -> dict[int, int]:
        """Find the last window of each server that is kept.

        Returns:
            Numbers of windows by the numbers of servers.
        """
        return dict(self._connection.execute("SELECT server, window FROM servers").fetchall())

    def last_decisions(self) -> dict[tuple[int | None, str], str | None]:
        """Find what was in force when the history was last written.

        Returns:
            Values by server and subject.
        """
        rows = self._connection.execute(
            "SELECT server, subject, value FROM decisions WHERE number IN"
            " (SELECT max(number) FROM decisions GROUP BY server, subject)"
        )
        return {(server, subject): value for server, subject, value in rows}

    def last_prediction(self) -> int:
        """Find the last window whose predictions are kept in full; 0 where there is none."""
        last = self._connection.execute("SELECT max(begin) FROM predictions WHERE level = 0").fetchone()[0]
        return int(last) // self.window if last is not None and self.window else 0

    def add(self, sample: Sample) -> None:
        """Keep a sample.

        Raises:
            FullDiskError: The disk has no room; nothing of the sample is kept.
            HistoryError: The file cannot be written.
        """
        with self._transaction() as connection:
            if sample.window != self.window:
                connection.execute("INSERT OR REPLACE INTO facts VALUES ('window', ?)", (str(sample.window),))
            for key, traits in sample.jobs.items():
                self._note_job(key, traits, sample.at)
            for table, rows in sample.rows.items():
                numbered = (self._numbered(table, row) for row in rows)
                connection.executemany(table.insertion(), numbered)
            connection.executemany(
                "INSERT INTO servers VALUES (?, ?) ON CONFLICT DO UPDATE SET window = max(window, excluded.window)",
                sample.reached.items(),
            )
            self._note_decisions(sample.decisions)
        self.window = sample.window

    def settle(self, now: int) -> "Settled":
        """Fold and remove what is older than its level keeps, and more where the file would outgrow its bound.

        Args:
            now: Unix time in milliseconds.

        Returns:
            What became of the file.

        Raises:
            HistoryError: The file cannot be written.
        """
        levels = self.levels
        if not levels:
            return Settled(self.used_bytes(), None)
        for number, (level, coarser) in enumerate(pairwise(levels)):
            self._fold(number, coarser, now - level.age)
        last = len(levels) - 1
        self._remove(last, now - levels[last].age)
        while self.used_bytes() > _FILLED * self._bytes_max and self._shorten():
            pass
        self._forget()
        cut = int(self._fact("cut") or 0)
        return Settled(self.used_bytes(), now - cut if now - cut < self._kept else None)

    def used_bytes(self) -> int:
        """Count the bytes of the file that are in use; what is free in it is used again."""
        pages, free, size = (
            self._connection.execute(f"PRAGMA {name}").fetchone()[0]
            for name in ("page_count", "freelist_count", "page_size")
        )
        return (int(pages) - int(free)) * int(size)

    def _fold(self, number: int, coarser: Level, before: int) -> None:
        """Fold the buckets of a level before a moment into those of the next level."""
        end = before - before % coarser.width
        while (first := self._first(number)) is not None and first < end:
            begin = first - first % coarser.width
            part = min(end, begin + _SLICES * coarser.width)
            bounds = {"level": number, "first": begin, "end": part}
            with self._transaction() as connection:
                for table in FOLDING:
                    connection.execute(table.folding(), {**bounds, "up": number + 1, "width": coarser.width})
                    connection.execute(table.removal(), bounds)

    def _remove(self, number: int, before: int, *, is_cut: bool = False) -> None:
        """Remove the buckets of a level before a moment; a cut is told for as long as they would have been kept."""
        first = self._first(number)
        if first is None or first >= before:
            return
        with self._transaction() as connection:
            for table in FOLDING:
                connection.execute(table.removal(), {"level": number, "first": 0, "end": before})
            if is_cut:
                connection.execute("INSERT OR REPLACE INTO facts VALUES ('cut', ?)", (str(before),))

    def _shorten(self) -> bool:
        """Fold the older half of the finest level that holds anything, or remove the oldest tenth of the coarsest."""
        levels = self.levels
        for number, (first, last) in enumerate(map(self._span, range(len(levels)))):
            if first is None or last is None:
                continue
            if number + 1 == len(levels):
                end = first + max((last - first) // 10, levels[number].width)
                self._remove(number, end, is_cut=True)
                return last >= end
            coarser = levels[number + 1]
            if last - first >= 2 * coarser.width:
                self._fold(number, coarser, (first + last) // 2)
                return True
        return False

    def _span(self, number: int) -> tuple[int | None, int | None]:
        row = self._connection.execute("SELECT min(begin), max(begin) FROM known WHERE level = ?", (number,)).fetchone()
        return row[0], row[1]

    def _first(self, number: int) -> int | None:
        """The first bucket of a level in any table: an account may be kept where no window is."""
        firsts = (
            self._connection.execute(f"SELECT min(begin) FROM {table.name} WHERE level = ?", (number,)).fetchone()[0]
            for table in FOLDING
        )
        return min((first for first in firsts if first is not None), default=None)

    def _forget(self) -> None:
        """Forget the oldest decisions, and the oldest jobs of which nothing is left, where there are too many."""
        with self._transaction() as connection:
            connection.execute(
                "DELETE FROM decisions WHERE number <= (SELECT max(number) FROM decisions) - ?", (_DECISIONS_MAX,)
            )
            excess = connection.execute("SELECT count(*) FROM jobs").fetchone()[0] - _JOBS_MAX
            if excess > 0:
                connection.execute(
                    "DELETE FROM jobs WHERE number IN (SELECT number FROM jobs ORDER BY last LIMIT ?)"
                    " AND number NOT IN (SELECT job FROM work UNION SELECT job FROM promises"
                    " UNION SELECT culprit FROM waits UNION SELECT job FROM waits"
                    " UNION SELECT culprit FROM predictions UNION SELECT job FROM predictions)",
                    (excess,),
                )
                self._forget_names()

    def _note_job(self, key: JobKey, traits: JobTraits, at: int) -> None:
        """Keep the traits of a job, unless the same were kept a short while ago; unknown ones leave those kept."""
        noted, last = self._noted.get(key, (None, 0))
        if noted == traits and at - last < _NOTED_EVERY:
            return
        self._noted[key] = (traits, at)
        self._connection.execute(
            "INSERT INTO jobs (job, uid, user, grouping, nodes, priority, last) VALUES (?, ?, ?, ?, ?, ?, ?)"
            " ON CONFLICT (job, uid) DO UPDATE SET user = excluded.user,"
            " grouping = coalesce(excluded.grouping, grouping), nodes = coalesce(excluded.nodes, nodes),"
            " priority = coalesce(excluded.priority, priority), last = excluded.last",
            (*key, traits.user, traits.group, traits.nodes, traits.priority, at),
        )

    def _note_decisions(self, decisions: Iterable[Decision]) -> None:
        self._connection.executemany(
            "INSERT INTO decisions (at, server, subject, value) VALUES (?, ?, ?, ?)",
            ((each.at, each.server, each.subject, each.value) for each in decisions),
        )

    def _numbered(self, table: Table, row: tuple[object, ...]) -> tuple[object, ...]:
        """A row with numbers in place of the names of jobs and devices."""
        values = list(row)
        for place, column in enumerate(table.columns):
            value = values[place]
            if isinstance(value, JobKey):
                values[place] = self._job(value)
            elif column == "device" and isinstance(value, str):
                values[place] = self._device(value)
        return tuple(values)

    def _job(self, key: JobKey) -> int:
        if key not in self._jobs:
            row = self._connection.execute("SELECT number FROM jobs WHERE job = ? AND uid = ?", key).fetchone()
            self._jobs[key] = int(row[0])
        return self._jobs[key]

    def _device(self, name: str) -> int:
        if name not in self._devices:
            self._connection.execute("INSERT OR IGNORE INTO device_names (device) VALUES (?)", (name,))
            row = self._connection.execute("SELECT number FROM device_names WHERE device = ?", (name,)).fetchone()
            self._devices[name] = int(row[0])
        return self._devices[name]

    def _forget_names(self) -> None:
        self._jobs.clear()
        self._devices.clear()
        self._noted.clear()

    def _fact(self, name: str) -> str | None:
        row = self._connection.execute("SELECT value FROM facts WHERE name = ?", (name,)).fetchone()
        return None if row is None else str(row[0])

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """A transaction; names that it found are forgotten where it fails."""
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            yield self._connection
            self._connection.execute("COMMIT")
        except BaseException as error:
            self._forget_names()
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            if isinstance(error, sqlite3.Error | UnicodeDecodeError):
                raise _refused(self.file, error) from error
            raise


@dataclass(frozen=True, slots=True)
class Settled:
    """What became of a file.

    Attributes:
        used_bytes: Bytes in use.
        shortened: Age that the history reaches in milliseconds, where its bound cut it; else None.
    """

    used_bytes: int
    shortened: int | None


def _opened(file: Path) -> sqlite3.Connection:
    """Open the file, and make its tables where they are missing."""
    connection = sqlite3.connect(file, isolation_level=None, timeout=10.0)
    try:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute(f"PRAGMA journal_size_limit = {_LOG_BYTES_MAX}")
        connection.execute("PRAGMA temp_store = MEMORY")
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        if version not in (0, VERSION):
            raise HistoryError(
                f"{file} is a history of version {version}, and this program keeps version {VERSION}",
                hint="give another folder for the history",
            )
        connection.execute("BEGIN IMMEDIATE")
        for statement in (*(table.creation() for table in FOLDING), *OTHERS, f"PRAGMA user_version = {VERSION}"):
            connection.execute(statement)
        connection.execute("COMMIT")
    except (sqlite3.Error, UnicodeDecodeError) as error:
        connection.close()
        raise _refused(file, error) from error
    except HistoryError:
        connection.close()
        raise
    return connection


def _refused(file: Path, error: sqlite3.Error | UnicodeDecodeError) -> HistoryError:
    """The error of a file that cannot be written or is no history."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code in _FULL and _is_full(file):
        return FullDiskError(
            f"cannot write {file}: its disk has no room", hint="make room there; what was kept before is whole"
        )
    if code in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT):
        return HistoryError(f"{file} is no history: {error}", hint="move it away to begin anew")
    return HistoryError(f"cannot use {file}: {error}", hint="is its disk writable, and does it have room?")


def _is_full(file: Path) -> bool:
    """Whether the disk of a file has no room for a few pages of SQLite."""
    try:
        state = os.statvfs(file.parent)
    except OSError:
        return False
    return state.f_bavail * state.f_frsize < _LOG_BYTES_MAX


def _claimed(folder: Path) -> int:
    """The claim to a history: the kernel gives it back however this process ends."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        check_closed(folder)
        # SQLite gives its other files the mode of the first, which has every user's jobs.
        os.close(os.open(folder / FILE, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
        lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise HistoryError(
            f"cannot keep a history in {folder}: {error.strerror}", hint="give another folder for the history"
        ) from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(lock)
        raise TakenHistoryError(f"another recorder keeps the history in {folder}", hint="end it first") from None
    return lock
