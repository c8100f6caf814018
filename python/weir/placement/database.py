"""The interaction database: the layout of each file of the next run, looked up at the file's creation.

The database is one SQLite file on the client (Tarazu, section 5.5.3), and is always replaced as a whole. So a program
with the old file open goes on with it, and finds the new file by its new inode.
"""

import contextlib
import os
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from pathlib import Path

from weir.errors import WeirError
from weir.tracing.records import TemporaryName
from weir.ways import write_whole

APPLICATION_ID = 0x57656972
"""`PRAGMA application_id` of an interaction database: "Weir"."""
PLAIN_VERSION = 1
"""`PRAGMA user_version` of a database without temporary names, which earlier programs read, too."""
VERSION = 2
"""`PRAGMA user_version` of a database with temporary names."""
PATTERNS_MAX = 64
"""Most patterns of temporary names, as the look-up reads them: it compares a name that is not foreseen with each."""
END_OF_FILE = -1
"""`extent_end` of a component that reaches to the end of the file."""

_SCHEMA = """
CREATE TABLE placement (
    path TEXT NOT NULL,
    component INTEGER NOT NULL,
    extent_start INTEGER NOT NULL,
    extent_end INTEGER NOT NULL,
    stripe_bytes INTEGER NOT NULL,
    stripe_count INTEGER NOT NULL,
    size_bytes INTEGER NOT NULL,
    rank INTEGER NOT NULL,
    targets TEXT NOT NULL,
    PRIMARY KEY (path, component)
) WITHOUT ROWID
"""
_TEMPORARY_SCHEMA = """
CREATE TABLE temporary (
    name TEXT NOT NULL,
    rank INTEGER NOT NULL,
    turn INTEGER NOT NULL,
    path TEXT NOT NULL,
    PRIMARY KEY (name, rank, turn)
) WITHOUT ROWID
"""
_PATTERN_SCHEMA = "CREATE TABLE pattern (pattern TEXT NOT NULL PRIMARY KEY) WITHOUT ROWID"
_COLUMNS = "path, component, extent_start, extent_end, stripe_bytes, stripe_count, size_bytes, rank, targets"
# To Linux a path is bytes, and to SQLite a text that holds any bytes.
_INSERT = f"INSERT INTO placement ({_COLUMNS}) VALUES (CAST(? AS TEXT), ?, ?, ?, ?, ?, ?, ?, ?)"
_INSERT_TEMPORARY = "INSERT OR IGNORE INTO temporary VALUES (CAST(? AS TEXT), ?, ?, CAST(? AS TEXT))"
_INSERT_PATTERN = "INSERT INTO pattern VALUES (CAST(? AS TEXT))"


class DatabaseError(WeirError):
    """An interaction database that cannot be used, or rows that make no database."""


@dataclass(frozen=True, slots=True)
class Component:
    """One component of one file of the next run: a row of the database."""

    path: str
    """Absolute path, as the program will open it."""
    component: int
    """Number of the component within the file, from 1 (the paper's extent id)."""
    extent_start: int
    """First byte of the component in the file."""
    extent_end: int
    """One past the component's last byte, or `END_OF_FILE`."""
    stripe_bytes: int
    """Stripe size."""
    stripe_count: int
    """Number of stripes side by side, each on its own target."""
    size_bytes: int
    """Predicted size of the whole file."""
    rank: int
    """Rank that will make the file; -1 where several ranks do."""
    targets: tuple[str, ...] = ()
    """One target for each stripe, in stripe order: `3.1` on a Weir store, `14` on Lustre; empty before allocation."""


def write(
    file: Path,
    components: Iterable[Component],
    *,
    names: Sequence[TemporaryName] = (),
    patterns: Iterable[str] = (),
) -> int:
    """Replace the database by one with other components.

    Args:
        file: The database; its folder must exist.
        components: Components of all files, in any order.
        names: The temporary names of files. A name that two programs use leads to the first one's file.
        patterns: The patterns of temporary names with random parts.

    Returns:
        Number of files in the new database.

    Raises:
        DatabaseError: The components are no layouts, or the file cannot be written.
    """
    rows = sorted(components, key=attrgetter("path", "component"))
    files = 0
    for path, parts in groupby(rows, key=attrgetter("path")):
        _check(path, list(parts))
        files += 1
    patterns = sorted(set(patterns))
    if len(patterns) > PATTERNS_MAX:
        raise DatabaseError(
            f"{len(patterns)} patterns of temporary names, and a database has at most {PATTERNS_MAX}",
            hint="place fewer programs at once",
        )
    try:
        with contextlib.closing(sqlite3.connect(":memory:")) as connection:
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version = {VERSION if names else PLAIN_VERSION}")
            with connection:
                connection.execute(_SCHEMA)
                connection.executemany(_INSERT, map(_row, rows))
                if names:
                    connection.execute(_TEMPORARY_SCHEMA)
                    connection.execute(_PATTERN_SCHEMA)
                    connection.executemany(_INSERT_TEMPORARY, map(_temporary_row, names))
                    connection.executemany(_INSERT_PATTERN, ((os.fsencode(pattern),) for pattern in patterns))
            write_whole(file, connection.serialize(), mode=None)
    except (sqlite3.Error, OSError, OverflowError) as error:
        raise DatabaseError(
            f"cannot write the interaction database {file}: {error}",
            hint="is its folder there and writable, with room?",
        ) from error
    return files


def read(file: Path, path: str | None = None) -> list[Component]:
    """Read the components of a database.

    Args:
        file: The database.
        path: Path of the wanted file; None wants all files.

    Returns:
        The components, ordered by path and number.

    Raises:
        DatabaseError: The file cannot be read, or is no interaction database of a known version.
    """
    condition, values = ("", ()) if path is None else ("WHERE path = CAST(? AS TEXT)", (os.fsencode(path),))
    with _opened(file) as (connection, _):
        rows = connection.execute(f"SELECT {_COLUMNS} FROM placement {condition} ORDER BY path, component", values)
        return [_component(row) for row in rows]


@contextlib.contextmanager
def _opened(file: Path) -> Iterator[tuple[sqlite3.Connection, int]]:
    """A database for reading, and its version."""
    if not file.is_file():
        raise DatabaseError(f"there is no interaction database {file}", hint="make one with `weir place`")
    try:
        with contextlib.closing(sqlite3.connect(f"{file.absolute().as_uri()}?mode=ro", uri=True)) as connection:
            connection.text_factory = os.fsdecode
            yield connection, _checked_version(file, connection)
    except (sqlite3.Error, TypeError, UnicodeDecodeError) as error:
        raise DatabaseError(
            f"cannot read the interaction database {file}: {error}", hint="write it anew with `weir place`"
        ) from error


def read_temporaries(file: Path) -> list[TemporaryName]:
    """Read the temporary names of a database.

    Args:
        file: The database.

    Returns:
        The names that lead to a file, ordered by name, rank and turn; none for a database without.

    Raises:
        DatabaseError: The file cannot be read, or is no interaction database of a known version.
    """
    with _opened(file) as (connection, version):
        if version == PLAIN_VERSION:
            return []
        rows = connection.execute(
            "SELECT name, rank, turn, path FROM temporary WHERE path <> '' ORDER BY name, rank, turn"
        )
        return [_temporary(row) for row in rows]


def check(file: Path) -> None:
    """Check whether a file is an interaction database, without reading its rows.

    Raises:
        DatabaseError: The file cannot be read, or is no interaction database of a known version.
    """
    read(file, "")


def _component(row: tuple[object, ...]) -> Component:
    path, *numbers, targets = row
    if not isinstance(path, str) or not isinstance(targets, str):
        raise TypeError("a path or its targets are not text")
    whole = [number for number in numbers if isinstance(number, int)]
    if len(whole) != len(numbers):
        raise TypeError(f"{path}: a number is no whole number")
    component, start, end, stripe_bytes, stripe_count, size_bytes, rank = whole
    places = tuple(targets.split())
    return Component(path, component, start, end, stripe_bytes, stripe_count, size_bytes, rank, places)


def _temporary(row: tuple[object, ...]) -> TemporaryName:
    match row:
        case (str(name), int(rank), int(turn), str(path)):
            return TemporaryName(name, rank, turn, path)
    raise TypeError("a temporary name, its rank, its turn or its path has another type")


def _temporary_row(one: TemporaryName) -> tuple[object, ...]:
    return (os.fsencode(one.name), one.rank, one.turn, os.fsencode(one.path))


def _row(component: Component) -> tuple[object, ...]:
    return (
        os.fsencode(component.path),
        component.component,
        component.extent_start,
        component.extent_end,
        component.stripe_bytes,
        component.stripe_count,
        component.size_bytes,
        component.rank,
        " ".join(component.targets),
    )


def _checked_version(file: Path, connection: sqlite3.Connection) -> int:
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if application != APPLICATION_ID:
        raise DatabaseError(f"{file} is not an interaction database", hint="make one with `weir place`")
    if version not in (PLAIN_VERSION, VERSION):
        raise DatabaseError(
            f"{file} is an interaction database of version {version}, and "
            f"this program reads versions {PLAIN_VERSION} and {VERSION}",
            hint="write it anew with `weir place` of this version",
        )
    return int(version)


def _check(path: str, parts: list[Component]) -> None:
    """Refuse components with which no file can be created.

    Raises:
        DatabaseError: A relative path, a gap, an overlap, no stripes, or a target twice in one component.
    """
    if not path.startswith("/") or "\0" in path:
        raise DatabaseError(f"{path!r} is not an absolute path", hint="name files as the program opens them")
    at = 0
    for number, part in enumerate(parts, start=1):
        told = f"{path}: component {part.component}"
        if part.component != number:
            raise DatabaseError(f"{told} stands where {number} is due", hint="number components from 1, without gaps")
        if part.extent_start != at or at == END_OF_FILE:
            raise DatabaseError(
                f"{told} starts at {part.extent_start}, and the one before it ends at {at}",
                hint="components follow each other from 0 without gap or overlap",
            )
        if part.extent_end != END_OF_FILE and part.extent_end <= part.extent_start:
            raise DatabaseError(
                f"{told} ends at {part.extent_end}, not after it starts", hint="give each a positive extent"
            )
        if part.stripe_count < 1 or part.stripe_bytes < 1 or part.size_bytes < 0:
            raise DatabaseError(f"{told} has no stripes", hint="a component has a stripe count and a stripe size")
        _check_targets(told, part)
        at = part.extent_end


def _check_targets(told: str, part: Component) -> None:
    if not part.targets:
        return
    if len(part.targets) != part.stripe_count:
        raise DatabaseError(
            f"{told} has {part.stripe_count} stripes and {len(part.targets)} targets",
            hint="give a target for each stripe",
        )
    if len(set(part.targets)) != len(part.targets):
        raise DatabaseError(f"{told} names a target twice", hint="each stripe of a component has its own target")
