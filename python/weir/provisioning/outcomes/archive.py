"""The archive of a user's outcomes: one SQLite file of bounded length, which several commands may use at once."""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import msgspec

from weir.provisioning.errors import ProvisioningError
from weir.provisioning.outcomes.outcome import Outcome
from weir.ways import check_closed, make_folders

FILE = "outcomes.sqlite"
RUNS_MAX = 64
"""Runs of one job that are kept, the latest: estimates take fewer, and the others tell of the past."""
OUTCOMES_MAX = 10_000
"""Outcomes that are kept of all jobs, the latest: some 20 MB."""
OUTCOME_BYTES_MAX = 64 << 10
"""A longer outcome is not kept: an outcome of 100 neighbours takes a quarter."""
_FORMAT = 1
_WAIT_SECONDS = 5.0
"""Longest wait for another command that writes."""
_TABLE = """
CREATE TABLE IF NOT EXISTS outcomes (
    number INTEGER PRIMARY KEY AUTOINCREMENT, job TEXT NOT NULL, begun REAL NOT NULL, document BLOB NOT NULL
);
CREATE INDEX IF NOT EXISTS outcomes_of_job ON outcomes (job, number);
"""


def file_of(jobs: Path) -> Path:
    """Name the archive of a user.

    Args:
        jobs: Folder of the user's jobs.
    """
    return jobs / FILE


def keep(file: Path, outcome: Outcome) -> None:
    """Keep an outcome; the oldest of the job, and of all, make way.

    Raises:
        ProvisioningError: The archive cannot be used.
        WayError: Another user could change it.
        OSError: Its folder cannot be made.
    """
    document = msgspec.json.encode(outcome)
    if len(document) > OUTCOME_BYTES_MAX:
        raise ProvisioningError(
            f"the outcome of {outcome.job} has {len(document)} bytes, and {OUTCOME_BYTES_MAX} are kept",
            hint="nothing is learned from this run",
        )
    make_folders(file.parent, 0o700)
    check_closed(file)
    with _opened(file, is_made=True) as base, base:
        base.execute(
            "INSERT INTO outcomes (job, begun, document) VALUES (?, ?, ?)", (outcome.job, outcome.begun, document)
        )
        base.execute(
            "DELETE FROM outcomes WHERE job = ?1 AND number NOT IN "
            "(SELECT number FROM outcomes WHERE job = ?1 ORDER BY number DESC LIMIT ?2)",
            (outcome.job, RUNS_MAX),
        )
        base.execute(
            "DELETE FROM outcomes WHERE number <= (SELECT number FROM outcomes ORDER BY number DESC LIMIT 1 OFFSET ?)",
            (OUTCOMES_MAX,),
        )


def read(file: Path) -> tuple[Outcome, ...]:
    """Read all outcomes.

    Returns:
        The outcomes, the latest last; none where there is no archive.

    Raises:
        ProvisioningError: The archive cannot be used.
        WayError: Another user could change it.
    """
    if not file.exists():
        return ()
    check_closed(file)
    decoder = msgspec.json.Decoder(Outcome)
    with _opened(file, is_made=False) as base:
        rows = base.execute("SELECT document FROM outcomes ORDER BY number").fetchall()
        try:
            return tuple(decoder.decode(row) for (row,) in rows)
        except (msgspec.MsgspecError, TypeError, RecursionError) as error:
            raise _unusable(file, str(error)) from error


def forget(file: Path, job: str = "") -> int:
    """Forget outcomes.

    Args:
        job: Key of the job; empty for all jobs.

    Returns:
        The number of outcomes that are gone.

    Raises:
        ProvisioningError: The archive cannot be used.
        WayError: Another user could change it.
    """
    if not file.exists():
        return 0
    check_closed(file)
    with _opened(file, is_made=False) as base, base:
        return base.execute("DELETE FROM outcomes WHERE ?1 = '' OR job = ?1", (job,)).rowcount


@contextmanager
def _opened(file: Path, *, is_made: bool) -> Iterator[sqlite3.Connection]:
    try:
        if is_made:
            # SQLite gives its other files the mode of this one.
            os.close(os.open(file, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
        with closing(sqlite3.connect(file, timeout=_WAIT_SECONDS)) as base:
            (found,) = base.execute("PRAGMA user_version").fetchone()
            if found not in (0, _FORMAT):
                raise _unusable(file, f"it has version {found}, and {_FORMAT} is known")
            if not found:
                # A commit is on the disk when it returns, and readers do not wait for it.
                base.execute("PRAGMA journal_mode = WAL")
                base.executescript(f"BEGIN IMMEDIATE; {_TABLE} PRAGMA user_version = {_FORMAT}; COMMIT;")
            base.execute("PRAGMA synchronous = FULL")
            yield base
    except (sqlite3.Error, UnicodeDecodeError, OSError) as error:
        raise _unusable(file, str(error)) from error


def _unusable(file: Path, reason: str) -> ProvisioningError:
    return ProvisioningError(
        f"the archive of outcomes {file} cannot be used: {reason}",
        hint="plans are made without it; move the file away, and the next job begins a new one",
    )
