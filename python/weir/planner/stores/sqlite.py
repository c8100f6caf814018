"""The default store: one SQLite file, with a write-ahead log beside it."""

import fcntl
import os
from pathlib import Path
from typing import Any

import sqlalchemy as sql
from sqlalchemy.dialects.sqlite import insert

from weir.planner.errors import PlannerError
from weir.planner.stores.contract import CALL_SECONDS_MAX
from weir.planner.stores.tables import TableStore
from weir.ways import check_closed


class SqliteStore(TableStore):
    """A store in a file of this machine. See `Store`."""

    def __init__(self, file: Path) -> None:
        """Open the file, which is made where it is missing.

        Args:
            file: The file. Its folder has to exist.

        Raises:
            PlannerError: The file cannot be used, or another planner uses it.
        """
        self._lock = _locked(file)
        engine = sql.create_engine(
            sql.URL.create("sqlite", database=str(file.absolute())),
            connect_args={"timeout": CALL_SECONDS_MAX, "check_same_thread": False},
            poolclass=sql.pool.StaticPool,
        )
        sql.event.listen(engine, "connect", _prepare)
        try:
            super().__init__(engine, insert, str(file))
        except PlannerError:
            self.close()
            raise

    def close(self) -> None:
        """See `Store`."""
        super().close()
        os.close(self._lock)


def _prepare(connection: Any, _: object) -> None:
    """A commit is on the disk when it returns, and readers do not wait for it."""
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")


def _locked(file: Path) -> int:
    """The claim to the file: the kernel gives it back however this process ends."""
    check_closed(file.parent)
    try:
        # SQLite gives its files the mode of the database, which holds every user's plans.
        os.close(os.open(file, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
        lock = os.open(f"{file}.lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise PlannerError(
            f"the database {file} cannot be opened: {error.strerror}", hint="see `state`", code="failed"
        ) from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(lock)
        raise PlannerError(
            f"another planner uses {file}", hint="end it, or name another `database`", code="failed"
        ) from error
    return lock
