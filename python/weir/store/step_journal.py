"""The journals of readers of adaptive streams: a line for each step that a program was handed. Readers write them in a
folder of the home, which the control room reads.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from weir.store.home import Home
from weir.store.line_journal import LineJournal
from weir.store.settings import ADAPTIVE_JOURNAL

NAME_MAX = 256
"""Most characters of a stream's or a tier's name; of a longer one the end is kept."""
OFF = "off"
"""Value of the variable with which nothing is noted."""


@dataclass(frozen=True, slots=True)
class TierEntry:
    """The reads of a step from one tier; bandwidths are in bytes per second, and null where nothing is known."""

    name: str
    """URL of the tier, without a password."""
    forecast: float | None
    low: float | None
    """Lower end of the forecast's interval, which holds four of five bandwidths."""
    high: float | None
    bandwidth: float | None
    """Achieved bandwidth."""


@dataclass(frozen=True, slots=True)
class StepEntry:
    """A step of a stream as it was handed to a program."""

    at: float
    """Unix time in seconds."""
    job: str
    """Name of the job; empty outside of a job."""
    user: str
    host: str
    pid: int
    stream: str
    """URL of the first tier, without a password."""
    step: int
    rmse: float | None
    max_error: float | None
    """Bound of the largest error, in units of the data; null where there is none."""
    read_bytes: int
    whole_bytes: int
    """Bytes of the whole step, of which a reader of a region needs a part alone."""
    augmentation: float
    """Part of the useful bytes behind the base that was read, 0 to 1."""
    seconds: float
    waited_seconds: float
    deadline_seconds: float | None
    is_late: bool
    tiers: tuple[TierEntry, ...]


def variables(home: Home, present: Mapping[str, str]) -> dict[str, str]:
    """Choose the folder in which programs of the home's owner note their steps.

    Args:
        present: Variables by their names; one that names a folder, or `off`, stays.

    Returns:
        `WEIR_ADAPTIVE_JOURNAL` alone.
    """
    name = ADAPTIVE_JOURNAL.environment
    return {name: present.get(name) or str(home.step_journals)}


JOURNAL = LineJournal(StepEntry, ".steps", is_of_process=True)
