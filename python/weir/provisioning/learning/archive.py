"""The archive of a build: parsed logs and finished steps, in one SQLite file, so that a killed build goes on.

Parsed runs lie in the file and not in memory: a build over any number of logs holds one batch of them.
"""

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import msgspec

from weir.provisioning.errors import ProvisioningError
from weir.provisioning.learning.runs import Run

_FORMAT = 1
"""Number of the tables' form, raised with each change of them or of `Run`."""
_BATCH = 1000
_TABLES = """
CREATE TABLE IF NOT EXISTS logs (
    id INTEGER PRIMARY KEY, path TEXT UNIQUE NOT NULL, size INTEGER NOT NULL, changed INTEGER NOT NULL,
    listing INTEGER NOT NULL, is_read INTEGER NOT NULL DEFAULT 0, error TEXT
);
CREATE TABLE IF NOT EXISTS runs (
    id INTEGER PRIMARY KEY, log INTEGER NOT NULL REFERENCES logs, program TEXT NOT NULL, storage TEXT NOT NULL,
    run BLOB NOT NULL
);
CREATE INDEX IF NOT EXISTS runs_of_log ON runs (log);
CREATE TABLE IF NOT EXISTS steps (key TEXT PRIMARY KEY, answer BLOB NOT NULL);
"""


class LogFile(NamedTuple):
    """A log that waits to be read."""

    number: int
    path: str


class ParsedLog(NamedTuple):
    """The runs of a log, or the reason why there are none."""

    number: int
    runs: tuple[Run, ...]
    error: str | None


class Archive:
    """Parsed logs and finished steps. `list_logs` comes first, then `waiting` and `keep`, then `runs`."""

    def __init__(self, path: Path) -> None:
        """Open the archive, or make it.

        Raises:
            ProvisioningError: The file is no archive of this version, or another build uses it.
        """
        self._path = path
        # Pools take tasks in threads of theirs, one after the other.
        self._file = sqlite3.connect(path, timeout=1.0, check_same_thread=False)
        self._listing = 0
        self._encoder, self._decoder = msgspec.msgpack.Encoder(), msgspec.msgpack.Decoder(Run)
        try:
            self._file.execute("PRAGMA locking_mode = EXCLUSIVE")
            (found,) = self._file.execute("PRAGMA user_version").fetchone()
            if found not in (0, _FORMAT):
                raise ProvisioningError(
                    f"{path} is of another version of Weir", hint="choose another `to`, or remove the file"
                )
            self._file.executescript(f"BEGIN EXCLUSIVE; {_TABLES} PRAGMA user_version = {_FORMAT}; COMMIT;")
        except sqlite3.OperationalError as error:
            self._file.close()
            raise ProvisioningError(f"{path}: {error}", hint="does another build use the folder?") from error
        except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
            self._file.close()
            raise ProvisioningError(
                f"{path} is no archive of a build: {error}", hint="choose another `to`, or remove the file"
            ) from error

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def list_logs(self, found: Iterable[tuple[str, int, int]]) -> int:
        """Take the logs of this build; those that are known and did not change keep their runs.

        Args:
            found: Path, size and time of change of each log, in any number.

        Returns:
            The number of logs.
        """
        with self._file:
            (last,) = self._file.execute("SELECT COALESCE(MAX(listing), 0) FROM logs").fetchone()
            self._file.executemany(
                "INSERT INTO logs (path, size, changed, listing) VALUES (?, ?, ?, ?) ON CONFLICT (path) DO UPDATE SET "
                "is_read = is_read AND size = excluded.size AND changed = excluded.changed, "
                "size = excluded.size, changed = excluded.changed, listing = excluded.listing",
                ((*each, last + 1) for each in found),
            )
            # A log that is not of this build stays parsed for another one, but its runs do not count.
            self._file.execute("DELETE FROM runs WHERE log IN (SELECT id FROM logs WHERE NOT is_read)")
            self._listing = last + 1
        return self._count("SELECT COUNT(*) FROM logs WHERE listing = ?")

    def waiting_count(self) -> int:
        """Count the logs that are not read yet.

        Returns:
            Their number.
        """
        return self._count("SELECT COUNT(*) FROM logs WHERE listing = ? AND NOT is_read")

    def waiting(self, size: int) -> Iterator[tuple[LogFile, ...]]:
        """List the logs that are not read yet.

        Args:
            size: Logs of a batch.

        Yields:
            Batches of logs.
        """
        last = 0
        while True:
            rows = self._file.execute(
                "SELECT id, path FROM logs WHERE listing = ? AND NOT is_read AND id > ? ORDER BY id LIMIT ?",
                (self._listing, last, size),
            ).fetchall()
            if not rows:
                return
            last = rows[-1][0]
            yield tuple(LogFile(*row) for row in rows)

    def keep(self, logs: Sequence[ParsedLog]) -> None:
        """Keep what logs told, all of them or none."""
        with self._file:
            for log in logs:
                self._file.execute("UPDATE logs SET is_read = 1, error = ? WHERE id = ?", (log.error, log.number))
                self._file.executemany(
                    "INSERT INTO runs (log, program, storage, run) VALUES (?, ?, ?, ?)",
                    ((log.number, run.traits.program, run.storage, self._encoder.encode(run)) for run in log.runs),
                )

    def unreadable(self, most: int) -> tuple[int, list[tuple[str, str]]]:
        """Tell the logs that could not be read.

        Args:
            most: Logs to name.

        Returns:
            Their number, and path and reason of the first of them.
        """
        rows = self._file.execute(
            "SELECT path, error FROM logs WHERE listing = ? AND error IS NOT NULL ORDER BY path LIMIT ?",
            (self._listing, most),
        ).fetchall()
        return self._count("SELECT COUNT(*) FROM logs WHERE listing = ? AND error IS NOT NULL"), rows

    def runs_count(self) -> int:
        """Count the runs of this build.

        Returns:
            Their number.
        """
        return self._count("SELECT COUNT(*) FROM runs JOIN logs ON logs.id = log WHERE listing = ?")

    def runs(self) -> Iterator[tuple[int, Run]]:
        """Go through the runs of this build, in the order of their logs' paths.

        Yields:
            Number and content of each run.
        """
        rows = self._file.execute(
            "SELECT runs.id, run FROM runs JOIN logs ON logs.id = log WHERE listing = ? ORDER BY path, runs.id",
            (self._listing,),
        )
        while batch := rows.fetchmany(_BATCH):
            for number, run in batch:
                yield number, self._decoder.decode(run)

    def run(self, number: int) -> Run:
        """Read a run."""
        (content,) = self._file.execute("SELECT run FROM runs WHERE id = ?", (number,)).fetchone()
        return self._decoder.decode(content)

    def common_storages(self, most: int) -> list[str]:
        """Name the file systems of most runs.

        Args:
            most: Names to give.

        Returns:
            The names, that of most runs first.
        """
        rows = self._file.execute(
            "SELECT storage FROM runs JOIN logs ON logs.id = log WHERE listing = ? AND storage != '' "
            "GROUP BY storage ORDER BY COUNT(*) DESC, storage LIMIT ?",
            (self._listing, most),
        )
        return [name for (name,) in rows.fetchall()]

    def answer(self, key: str) -> bytes | None:
        """Look a finished step up.

        Returns:
            Its answer; None where it is not finished.
        """
        row = self._file.execute("SELECT answer FROM steps WHERE key = ?", (key,)).fetchone()
        return None if row is None else bytes(row[0])

    def finish(self, key: str, answer: bytes) -> None:
        """Keep the answer of a step.

        Args:
            key: Its key, which holds all that the answer depends on.
        """
        with self._file:
            self._file.execute("INSERT OR REPLACE INTO steps (key, answer) VALUES (?, ?)", (key, answer))

    def _count(self, statement: str) -> int:
        (count,) = self._file.execute(statement, (self._listing,)).fetchone()
        return int(count)


@contextmanager
def opened(path: Path) -> Iterator[Archive]:
    """Open an archive for a block.

    Yields:
        The archive.

    Raises:
        ProvisioningError: The file cannot be used.
    """
    archive = Archive(path)
    try:
        yield archive
    finally:
        archive.close()
