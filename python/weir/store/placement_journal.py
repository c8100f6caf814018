"""The journals of placement: what became of the creations of runs under predictions, and how far moves of stripes are.
Commands of the store's owner write them in a folder of the home, which the control room reads.
"""

from contextlib import suppress
from dataclasses import dataclass

from weir.errors import WeirError
from weir.store.home import Home
from weir.store.line_journal import Entry, LineJournal

NAMES_MAX = 8
"""Most names of files that were not predicted; reports have more."""
TEXT_MAX = 256
"""Most characters of a name or a path; of a longer one the end is kept."""
MOVE_SECONDS = 5.0
"""Time between two entries of a move that goes on."""


@dataclass(frozen=True, slots=True)
class PlacedRun:
    """The creations of a run under an interaction database, counted as `weir.placement.lookups.Lookups` counts them."""

    at: float
    """End of the run in Unix time."""
    host: str
    pid: int
    job: str
    """Name of the job; empty where the run used no store."""
    user: str
    program: str
    database: str
    """Path of the interaction database."""
    placed: int
    present: int
    refused: int
    missed: int
    names: tuple[str, ...]
    """Some names of missed or refused files."""


@dataclass(frozen=True, slots=True)
class Move:
    """A move of stripes at a moment, by `weir rebalance` or a command that empties targets."""

    at: float
    """The moment in Unix time."""
    begun: float
    host: str
    pid: int
    user: str
    what: str
    """`rebalance`, or `drain` with the names of the targets."""
    planned_bytes: int
    """Bytes that are to move, by the plan that the mover has now."""
    moved_bytes: int
    moved_objects: int
    left_objects: int
    """Objects that stay where they are, as they could not be moved."""
    is_over: bool


PLACED_RUNS = LineJournal(PlacedRun, ".placed")
MOVES = LineJournal(Move, ".moves")


def note(home: Home, journal: LineJournal[Entry], entry: Entry) -> None:
    """Note an entry in a home of this user. Another one, and a home that cannot be written, keep nothing of it."""
    with suppress(WeirError, OSError):
        home.check_owner()
        journal.add(home.placement_journals, entry)


def shortened(text: str) -> str:
    """Keep the end of a name or a path."""
    return text[-TEXT_MAX:]
