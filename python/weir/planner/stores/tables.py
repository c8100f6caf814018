"""Tables of the planner, and their statements, which SQLite and PostgreSQL share through SQLAlchemy."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec
import sqlalchemy as sql

from weir.planner.errors import PlannerError
from weir.planner.records import Fault, KnownJob, Record
from weir.planner.stores.contract import KNOWN_BYTES_MAX, KNOWN_MAX, OUTCOMES_MAX, SCHEMA_VERSION, Pruning
from weir.provisioning.outcomes.outcome import Outcome

_METADATA = sql.MetaData()
_NUMBER = sql.BigInteger
_ABOUT = sql.Table(
    "weir_planner",
    _METADATA,
    sql.Column("name", sql.Text, primary_key=True),
    sql.Column("value", sql.Text, nullable=False),
)
_DEPLOYMENTS = sql.Table(
    "weir_planner_deployments",
    _METADATA,
    sql.Column("uid", _NUMBER, primary_key=True, autoincrement=False),
    sql.Column("name", sql.Text, primary_key=True),
    sql.Column("document", sql.LargeBinary, nullable=False),
)
_JOBS = sql.Table(
    "weir_planner_jobs",
    _METADATA,
    sql.Column("uid", _NUMBER, primary_key=True, autoincrement=False),
    sql.Column("key", sql.Text, primary_key=True),
    sql.Column("used", sql.Double, nullable=False),
    sql.Column("document", sql.LargeBinary, nullable=False),
    sql.Index("weir_planner_jobs_used", "uid", "used"),
)
_OUTCOMES = sql.Table(
    "weir_planner_outcomes",
    _METADATA,
    sql.Column("uid", _NUMBER, primary_key=True, autoincrement=False),
    sql.Column("number", _NUMBER, primary_key=True, autoincrement=False),
    sql.Column("document", sql.LargeBinary, nullable=False),
)
_FAULTS = sql.Table(
    "weir_planner_faults",
    _METADATA,
    sql.Column("node", sql.Text, primary_key=True),
    sql.Column("uid", _NUMBER, primary_key=True, autoincrement=False),
    sql.Column("document", sql.LargeBinary, nullable=False),
)


class TableStore:
    """A store of tables. See `Store`."""

    def __init__(self, engine: sql.Engine, insert: Any, place: str) -> None:
        """Make the tables that are missing.

        Args:
            engine: Connections to the database.
            insert: The dialect's function of statements that insert or replace.
            place: Place of the database, without a password, for messages.

        Raises:
            PlannerError: The database cannot be used, or a later version made its tables.
        """
        self._engine = engine
        self._insert = insert
        self._place = place
        self._pruning = Pruning()
        with self._told(), engine.begin() as connection:
            _METADATA.create_all(connection)
            connection.execute(insert(_ABOUT).values(name="schema", value=str(SCHEMA_VERSION)).on_conflict_do_nothing())
            found = connection.execute(sql.select(_ABOUT.c.value).where(_ABOUT.c.name == "schema")).scalar_one()
        if found != str(SCHEMA_VERSION):
            raise PlannerError(
                f"the tables in {place} have version {found:.20}, and this planner knows {SCHEMA_VERSION}",
                hint="upgrade Weir on this machine, or name another database",
                code="failed",
            )

    def records(self) -> list[Record]:
        """See `Store`."""
        with self._told(), self._engine.connect() as connection:
            rows = connection.execute(sql.select(_DEPLOYMENTS.c.document)).scalars().all()
            return [msgspec.json.decode(row, type=Record) for row in rows]

    def save(self, records: Sequence[Record]) -> None:
        """See `Store`."""
        if not records:
            return
        rows = [{"uid": each.uid, "name": each.name, "document": msgspec.json.encode(each)} for each in records]
        with self._told(), self._engine.begin() as connection:
            connection.execute(self._replacing(_DEPLOYMENTS, "uid", "name"), rows)

    def forget(self, keys: Sequence[tuple[int, str]]) -> None:
        """See `Store`."""
        with self._told(), self._engine.begin() as connection:
            for uid, name in keys:
                connection.execute(
                    sql.delete(_DEPLOYMENTS).where(_DEPLOYMENTS.c.uid == uid, _DEPLOYMENTS.c.name == name)
                )

    def known(self, uid: int, key: str) -> KnownJob | None:
        """See `Store`."""
        with self._told(), self._engine.connect() as connection:
            row = connection.execute(
                sql.select(_JOBS.c.document).where(_JOBS.c.uid == uid, _JOBS.c.key == key)
            ).scalar_one_or_none()
        return None if row is None else msgspec.json.decode(row, type=KnownJob)

    def remember(self, uid: int, key: str, job: KnownJob) -> None:
        """See `Store`."""
        row = {"uid": uid, "key": key, "used": time.time(), "document": msgspec.json.encode(job)}
        with self._told(), self._engine.begin() as connection:
            connection.execute(self._replacing(_JOBS, "uid", "key"), [row])
            if self._pruning.is_due(uid):
                connection.execute(_pruned(uid))

    def outcomes(self, uid: int) -> list[Outcome]:
        """See `Store`."""
        wanted = sql.select(_OUTCOMES.c.document).where(_OUTCOMES.c.uid == uid).order_by(_OUTCOMES.c.number)
        with self._told(), self._engine.connect() as connection:
            rows = connection.execute(wanted).scalars().all()
            return [msgspec.json.decode(row, type=Outcome) for row in rows]

    def keep_outcome(self, uid: int, outcome: Outcome) -> None:
        """See `Store`."""
        last = sql.select(sql.func.max(_OUTCOMES.c.number)).where(_OUTCOMES.c.uid == uid)
        with self._told(), self._engine.begin() as connection:
            number = (connection.execute(last).scalar() or 0) + 1
            row = {"uid": uid, "number": number, "document": msgspec.json.encode(outcome)}
            connection.execute(self._insert(_OUTCOMES), [row])
            old = sql.and_(_OUTCOMES.c.uid == uid, _OUTCOMES.c.number <= number - OUTCOMES_MAX)
            connection.execute(sql.delete(_OUTCOMES).where(old))

    def faults(self) -> list[Fault]:
        """See `Store`."""
        with self._told(), self._engine.connect() as connection:
            rows = connection.execute(sql.select(_FAULTS.c.document)).scalars().all()
            return [msgspec.json.decode(row, type=Fault) for row in rows]

    def blame(self, fault: Fault) -> None:
        """See `Store`."""
        row = {"node": fault.node, "uid": fault.uid, "document": msgspec.json.encode(fault)}
        with self._told(), self._engine.begin() as connection:
            connection.execute(self._replacing(_FAULTS, "node", "uid"), [row])

    def pardon(self, node: str) -> None:
        """See `Store`."""
        with self._told(), self._engine.begin() as connection:
            connection.execute(sql.delete(_FAULTS).where(_FAULTS.c.node == node))

    def keep_claim(self) -> None:
        """See `Store`."""

    def close(self) -> None:
        """See `Store`."""
        self._engine.dispose()

    def _replacing(self, table: sql.Table, *keys: str) -> Any:
        made = self._insert(table)
        others = {column.name: made.excluded[column.name] for column in table.columns if column.name not in keys}
        return made.on_conflict_do_update(index_elements=list(keys), set_=others)

    @contextmanager
    def _told(self) -> Iterator[None]:
        """Errors of the database in one line, without the statement and its values."""
        try:
            yield
        except sql.exc.SQLAlchemyError as error:
            cause = getattr(error, "orig", None) or error
            raise PlannerError(
                f"the database in {self._place} failed: {' '.join(str(cause).split())[:400]}",
                hint="is it running, and is there room?",
                code="failed",
            ) from error
        except msgspec.MsgspecError as error:
            raise PlannerError(
                f"the database in {self._place} has a document that cannot be read: {error}",
                hint="another program, or a later version of Weir, wrote it",
                code="failed",
            ) from error


def _pruned(uid: int) -> sql.Delete:
    """The statement that forgets the known jobs of a user beyond the bounds, those that were used longest ago."""
    latest_first = (_JOBS.c.used.desc(), _JOBS.c.key)
    counted = (
        sql.select(
            _JOBS.c.key,
            sql.func.row_number().over(order_by=latest_first).label("number"),
            sql.func.sum(sql.func.length(_JOBS.c.document)).over(order_by=latest_first).label("bytes"),
        )
        .where(_JOBS.c.uid == uid)
        .subquery()
    )
    beyond = sql.or_(counted.c.number > KNOWN_MAX, counted.c.bytes > KNOWN_BYTES_MAX)
    return sql.delete(_JOBS).where(_JOBS.c.uid == uid, _JOBS.c.key.in_(sql.select(counted.c.key).where(beyond)))
