"""The outcomes of look-ups in an interaction database, as the preload library reports them."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from weir.errors import WeirError

VERSION = 1
"""Version of the report's lines."""
NAMES_MAX = 64
"""Number of missed names in a report: enough to see their pattern."""


class ReportError(WeirError):
    """A report that cannot be read."""


@dataclass(slots=True)
class Lookups:
    """Counts of look-ups, over all processes that reported."""

    placed: int = 0
    """Files made with the database's layout."""
    present: int = 0
    """Files in the database that existed already."""
    refused: int = 0
    """Files in the database whose layout the file system refused."""
    missed: int = 0
    """Files that are not in the database."""
    names: list[str] = field(default_factory=list)
    """Some names of missed or refused files."""

    @property
    def total(self) -> int:
        """Number of creations that were looked up; an existing file is no creation."""
        return self.placed + self.refused + self.missed

    @property
    def not_found(self) -> int:
        """Creations that did not get a layout from the database."""
        return self.missed + self.refused


def report_of(database: Path) -> Path:
    """Find the report of programs under `weir run --placement`, unless WEIR_PLACEMENT_REPORT names another.

    Args:
        database: The interaction database.

    Returns:
        Path of the report, beside the database.
    """
    return database.with_name(f"{database.name}.report")


def read_report(file: Path, *, begin: int = 0) -> Lookups:
    """Add up a report.

    Args:
        file: The report; without it there were no look-ups.
        begin: Byte from which the report is read: the end of a line.

    Returns:
        The counts of all processes.

    Raises:
        ReportError: The file is no report, or has another version.
    """
    lookups = Lookups()
    if not file.exists():
        return lookups
    try:
        with file.open("rb") as content:
            content.seek(begin)
            lines = content.read().decode(errors="replace").splitlines()
        for line in lines:
            _add(lookups, json.loads(line))
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        reason = error.strerror if isinstance(error, OSError) else f"a line is no report: {error}"
        raise ReportError(
            f"cannot use {file}: {reason}", hint="remove it: it only counts the look-ups of the last runs"
        ) from error
    return lookups


def _add(lookups: Lookups, entry: Mapping[str, object]) -> None:
    if entry["version"] != VERSION:
        raise ValueError(f"version {entry['version']}")
    for name in ("placed", "present", "refused", "missed"):
        count = entry[name]
        if not isinstance(count, int) or count < 0:
            raise ValueError(f"{name} is {count!r}")
        setattr(lookups, name, getattr(lookups, name) + count)
    names = entry["names"]
    if not isinstance(names, list):
        raise ValueError("names are no list")
    lookups.names += [str(name) for name in names[: NAMES_MAX - len(lookups.names)]]
