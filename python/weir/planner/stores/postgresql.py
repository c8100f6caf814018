"""A store in PostgreSQL."""

import contextlib
from urllib.parse import urlsplit

import sqlalchemy as sql
from sqlalchemy.dialects.postgresql import insert

from weir.planner.errors import PlannerError
from weir.planner.stores.contract import CALL_SECONDS_MAX
from weir.planner.stores.tables import TableStore

_CLAIM = 0x5745_4952
"""Number of the advisory lock that stands for the planner of a database."""


class PostgresqlStore(TableStore):
    """A store in a database of PostgreSQL. See `Store`."""

    def __init__(self, url: str) -> None:
        """Connect to the database.

        Args:
            url: The URL, `postgresql://USER@HOST:PORT/NAME`. A password may stand in the file of `PGPASSFILE`.

        Raises:
            PlannerError: The database cannot be reached or used, or another planner uses it.
        """
        parts = urlsplit(url)
        milliseconds = int(CALL_SECONDS_MAX * 1000)
        engine = sql.create_engine(
            sql.make_url(url).set(drivername="postgresql+psycopg"),
            connect_args={
                "connect_timeout": int(CALL_SECONDS_MAX),
                # A host that is gone acknowledges nothing, and ends no call by itself.
                "tcp_user_timeout": milliseconds,
                "options": f"-c statement_timeout={milliseconds} -c lock_timeout={milliseconds}",
                "application_name": "weir planner",
                # A server that keeps bytes as they are (SQL_ASCII) would answer with bytes in place of text.
                "client_encoding": "utf8",
            },
            pool_size=2,
            max_overflow=0,
            pool_timeout=CALL_SECONDS_MAX,
            pool_pre_ping=True,
        )
        self._claim: sql.Connection | None = None
        self._place = f"PostgreSQL {parts.hostname or ''}{parts.path}"
        self._engine = engine
        try:
            self.keep_claim()
            super().__init__(engine, insert, self._place)
        except PlannerError:
            self.close()
            raise

    def keep_claim(self) -> None:
        """See `Store`."""
        with self._told():
            if self._claim is not None:
                try:
                    self._claim.execute(sql.text("SELECT 1"))
                    return
                except sql.exc.DBAPIError:
                    # The server ended the session, and with it the lock.
                    self._claim.invalidate()
                    self._claim.close()
                    self._claim = None
            connection = self._engine.connect().execution_options(isolation_level="AUTOCOMMIT")
            if connection.execute(sql.text(f"SELECT pg_try_advisory_lock({_CLAIM})")).scalar_one():
                self._claim = connection
                return
            connection.close()
        raise PlannerError(
            f"another planner uses {self._place}", hint="end it, or name another `database`", code="failed"
        )

    def close(self) -> None:
        """See `Store`."""
        if self._claim is not None:
            # The server ends a session some time after its connection: the next planner need not wait for that.
            with contextlib.suppress(sql.exc.DBAPIError):
                self._claim.execute(sql.text(f"SELECT pg_advisory_unlock({_CLAIM})"))
            self._claim.invalidate()
            self._claim.close()
            self._claim = None
        super().close()
