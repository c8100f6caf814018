"""The tables of a history: which columns are added up, and of which the greatest or the last value counts.

Each row belongs to a bucket: a level of `levels` and the bucket's begin in Unix milliseconds. Rows of several buckets
fold into one of the next level. Amounts are whole numbers, so that sums stay exact: bytes, counts and microseconds.
"""

from collections.abc import Iterator
from dataclasses import dataclass

LINES_MAX = 512
"""Rows of a bucket in a coarser level, which bounds the space of a history. Rows with less weight than these are added
up in one row, whose keys are `FURTHER`."""
FURTHER = 0
"""Number of no job and no device: it stands for all that have no rows of their own."""


@dataclass(frozen=True, slots=True)
class Table:
    """A table whose rows fold.

    Attributes:
        name: Its name.
        keys: Columns that tell rows of a bucket apart.
        sums: Columns that are added up.
        maxima: Columns of which the greatest value counts.
        lasts: Columns of which the last value counts; a table with these has no maxima.
        weight: Column by which rows are kept where there are too many; None keeps all.
    """

    name: str
    keys: tuple[str, ...]
    sums: tuple[str, ...] = ()
    maxima: tuple[str, ...] = ()
    lasts: tuple[str, ...] = ()
    weight: str | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of a row, in order."""
        return ("level", "begin", *self.keys, *self.sums, *self.maxima, *self.lasts)

    def creation(self) -> str:
        """The statement that makes the table where it is missing."""
        columns = ", ".join(f"{name} INTEGER{'' if name in self.lasts else ' NOT NULL'}" for name in self.columns)
        keys = ", ".join(("level", "begin", *self.keys))
        return f"CREATE TABLE IF NOT EXISTS {self.name} ({columns}, PRIMARY KEY ({keys})) WITHOUT ROWID"

    def insertion(self) -> str:
        """The statement that adds a row, or adds its values to those of the row with its keys."""
        places = ", ".join("?" * len(self.columns))
        return f"INSERT INTO {self.name} VALUES ({places}) {self._merging()}"

    def folding(self) -> str:
        """The statement that adds the rows of some buckets to those of the next level.

        Its parameters are `level`, `up`, `first`, `end` and `width`, the last three in milliseconds.
        """
        keys = self.keys
        bucket = "begin - begin % :width AS bucket"
        grouped = ", ".join(
            [bucket, *keys]
            + [f"sum({name}) AS {name}" for name in self.sums]
            + [f"max({name}) AS {name}" for name in self.maxima]
            + [*self.lasts]
            + ([f"row_number() OVER {self._order()} AS place"] if self.weight else ["0 AS place"])
            + (["max(begin)"] if self.lasts else [])
        )
        chosen = ", ".join(
            [":up", "bucket"]
            + [f"iif(place <= {LINES_MAX}, {name}, {FURTHER}) AS own_{name}" if self.weight else name for name in keys]
            + [f"sum({name})" for name in self.sums]
            + [f"max({name})" for name in self.maxima]
            + [*self.lasts]
        )
        own = [f"own_{name}" if self.weight else name for name in keys]
        return (
            f"INSERT INTO {self.name} SELECT {chosen} FROM (SELECT {grouped} FROM {self.name}"
            f" WHERE level = :level AND begin >= :first AND begin < :end GROUP BY {', '.join(['bucket', *keys])})"
            f" WHERE true GROUP BY {', '.join(['bucket', *own])} {self._merging()}"
        )

    def removal(self) -> str:
        """The statement that removes the rows of some buckets; its parameters are `level`, `first` and `end`."""
        return f"DELETE FROM {self.name} WHERE level = :level AND begin >= :first AND begin < :end"

    def _order(self) -> str:
        return f"(PARTITION BY begin - begin % :width ORDER BY sum({self.weight}) DESC, {', '.join(self.keys)})"

    def _merging(self) -> str:
        return f"ON CONFLICT DO UPDATE SET {', '.join(self._merged())}"

    def _merged(self) -> Iterator[str]:
        yield from (f"{name} = {name} + excluded.{name}" for name in self.sums)
        yield from (f"{name} = max({name}, excluded.{name})" for name in self.maxima)
        yield from (f"{name} = excluded.{name}" for name in self.lasts)


OPERATIONS = (
    "reads",
    "writes",
    "read_bytes",
    "written_bytes",
    "stats",
    "opens",
    "closes",
    "lists",
    "makes",
    "removes",
    "renames",
    "changes",
)
"""Counts of a job at a device, by the names of `weir.store.observations.ObservedJob`."""
COST = ("read_fixed_ns", "read_rate", "write_fixed_ns", "write_rate")
"""Expected cost of a device's requests: nanoseconds of each, and bytes a second; null where bytes cost nothing."""

KNOWN = Table("known", ("server",), sums=("known_ms",))
"""Time of each bucket that a server told. What no row covers is a gap, and no work in what one covers is idleness."""
WORK = Table(
    "work",
    ("job", "device"),
    sums=(*OPERATIONS, "request_us", "device_us", "waited_us"),
    maxima=("bytes_max", "request_us_max", "device_us_max", "waited_us_max", "under_way_max"),
    weight="request_us",
)
"""Work of jobs at devices, and device time that others received while a job had requests queued. Maxima are those of
one window, `under_way_max` that of requests at once."""
WAITS = Table("waits", ("job", "culprit"), sums=("waited_us",), maxima=("waited_us_max",), weight="waited_us")
"""The jobs that a job waited for, on all devices; `FURTHER` stands for those that the servers did not name."""
PROMISES = Table(
    "promises",
    ("job",),
    sums=("operations", "contended_us", "owing_us", "owed_us", "received_us", "charged_us", "queued_us"),
    weight="received_us",
)
"""Shares owed and received, by the accounts of the servers (`weir.store.answers.Job`). A bucket has the account that
was read within it, of the time since the reading before."""
DEVICES = Table(
    "devices",
    ("device",),
    sums=("reads", "writes", "read_bytes", "written_bytes", "read_us", "write_us", "busy_us", "queued_us"),
    maxima=("busy_us_max", "queued_us_max"),
    weight="busy_us",
)
"""Work of devices."""
STATES = Table("states", ("device",), lasts=("used_bytes", "capacity_bytes", "slow_since", "is_failed", *COST))
"""States of devices; metadata services have no bytes."""

PREDICTIONS = Table(
    "predictions",
    ("job", "culprit", "basis"),
    sums=("windows", "slowed"),
    maxima=("slowdown_milli_max",),
    weight="windows",
)
"""Windows of a job with a predicted slowdown, and those in which one of `SLOWED` or more was likely, by the job that
was responsible most (`FURTHER` where none was) and by the basis, a place in `BASES`. Histories of older programs have
no such table."""
BASES = ("", "measured", "trees", "ratio trees", "above quiet", "not known")
"""Bases of predictions (`weir.store.predictions`); the first stands for all others."""
SLOWED = 2.0
"""Likely slowdown from which a window counts as slowed."""

FOLDING = (KNOWN, WORK, WAITS, PROMISES, DEVICES, STATES, PREDICTIONS)
"""The tables whose rows fold."""
OTHERS = (
    "CREATE TABLE IF NOT EXISTS facts (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID",
    "CREATE TABLE IF NOT EXISTS servers (server INTEGER PRIMARY KEY, window INTEGER NOT NULL)",
    "CREATE TABLE IF NOT EXISTS jobs (number INTEGER PRIMARY KEY, job TEXT NOT NULL, uid INTEGER NOT NULL,"
    " user TEXT NOT NULL, grouping TEXT, nodes INTEGER, priority INTEGER, last INTEGER NOT NULL, UNIQUE (job, uid))",
    "CREATE TABLE IF NOT EXISTS device_names (number INTEGER PRIMARY KEY, device TEXT NOT NULL UNIQUE)",
    "CREATE TABLE IF NOT EXISTS decisions (number INTEGER PRIMARY KEY, at INTEGER NOT NULL, server INTEGER,"
    " subject TEXT NOT NULL, value TEXT)",
)
"""The other tables: facts about the history, the last window of each server, names, and decisions in their order."""
