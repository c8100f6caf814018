"""Adaptive reading: as accurate as shared storage allows in the given time.

Steps of arrays are refactored into a base on a fast tier and augmentations on slower, shared ones (`write`); a reader
forecasts each tier's bandwidth from its own past and reads as much as fits (`open`). After Qiao et al., Taming I/O
Variation on QoS-Less HPC Storage.
"""

from weir.adaptive.budget import Budget
from weir.adaptive.errors import AdaptiveError, AdaptiveWarning, DeadlineError, NoAnswerError, StepError
from weir.adaptive.plot import Plot
from weir.adaptive.policy import Accuracy
from weir.adaptive.reader import Reader, Step
from weir.adaptive.reader import Reader as open  # noqa: A004, N813 - as `gzip.open` and others are called
from weir.adaptive.slowdowns import store_slowdowns
from weir.adaptive.tiers import Tier, Zone
from weir.adaptive.writer import Writer, write

__all__ = [
    "Accuracy",
    "AdaptiveError",
    "AdaptiveWarning",
    "Budget",
    "DeadlineError",
    "NoAnswerError",
    "Plot",
    "Reader",
    "Step",
    "StepError",
    "Tier",
    "Writer",
    "Zone",
    "open",
    "store_slowdowns",
    "write",
]


def __dir__() -> list[str]:
    """List the names that this package offers."""
    return sorted(__all__)
