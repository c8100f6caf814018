"""The predictions of the control API: how much each job is slowed by others, and by whom.

These are types of `crates/server`, as those of `weir.store.answers` are.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from weir.store.answers import WaitedFor

PROBABLE = 0.5
"""Probability from which a predicted class counts."""
AHEAD = 1
"""Windows ahead that count: whoever acts on a prediction does so before the next window is over."""
MEASURED = "measured"
"""Basis where the store measured a greater slowdown than a model says, or no model knows the job."""
NOT_KNOWN = "not known"
"""Basis, and class, where nothing is known."""
_CLASS = re.compile(r"(?:from )?(?P<least>\d{1,6}(?:\.\d{1,6})?)(?: to .*)?")


@dataclass(frozen=True, slots=True)
class PredictedDriver:
    """A feature that speaks for a prediction."""

    feature: str
    """Name of the feature."""
    server: str | None
    """Device that has most of it; none where no device has any."""


@dataclass(frozen=True, slots=True)
class PredictedHorizon:
    """The predicted slowdown in one window."""

    ahead: int
    """0 for the window itself, 1 for the next one, and so on."""
    slowdown: str
    """Class of slowdown, such as `below 2` or `2 to 5`, in the window itself never below what the store measured; `not
    known` for an unfamiliar job with too few windows, and for the windows ahead where the basis is `measured`."""
    probability: float
    """Calibrated probability of this class; 1 where it is measured, and 0 in the windows ahead of that."""
    probabilities: tuple[float, ...]
    """Probability of each class, from the least slowdown on; empty for the windows ahead of a measured one."""


@dataclass(frozen=True, slots=True)
class JobPrediction:
    """The predictions of a job."""

    job: str
    """Name of the job."""
    user: str
    """User whom the job is accounted to."""
    uid: int
    """Number of the job's user."""
    basis: str
    """`measured` where the store measured a greater slowdown than the model says, or the model does not know the job;
    else `trees` for a job of the training, `ratio trees` or `above quiet`, as the model says, for one that is compared
    with its own quiet windows, or `not known`."""
    horizons: tuple[PredictedHorizon, ...]
    """The window itself, and the next ones."""
    driven_by: tuple[PredictedDriver, ...]
    """Features that speak most for the class of the window itself, the strongest first."""
    device_seconds: float
    """Device time that the job received in the window, on all servers."""
    waited_seconds: float
    """Device time that others received while the job had requests queued."""
    waited_ratio: float | None
    """`waited_seconds` over `device_seconds`: measured, not predicted; none where the job received nothing."""
    responsible: tuple[WaitedFor, ...]
    """Jobs that the job waited for in the window, the longest first."""


@dataclass(frozen=True, slots=True)
class Predictions:
    """The predictions of the last window that was predicted; without jobs where nobody predicts."""

    window: int
    """Number of the window since 1970, as in `/v1/windows`; 0 where nobody has predicted for ten windows."""
    window_seconds: float
    """Length of a window."""
    missing: tuple[int, ...]
    """Numbers of the servers whose windows are missing from the predictions."""
    jobs: tuple[JobPrediction, ...]
    """The jobs that did something in the window; those of the caller's own user unless the caller knows the site's
    key."""


@dataclass(frozen=True, slots=True)
class ToldPredictions:
    """Predictions that were told."""

    window: int
    """Number of their window."""


def least_of(name: str) -> float | None:
    """Read the least slowdown of a class.

    Args:
        name: Name of the class: `below 2`, `2 to 5`, `from 5`, or `not known`.

    Returns:
        The least slowdown, at least 1; None where it is not known.
    """
    if name.startswith("below "):
        return 1.0
    found = _CLASS.fullmatch(name)
    return None if found is None else max(float(found["least"]), 1.0)


def likely_slowdown(horizons: Iterable[PredictedHorizon]) -> float | None:
    """Reduce the predictions of a job to one slowdown.

    Returns:
        The largest likely slowdown of the window and the next one; None where nothing is known.
    """
    known = [least_of(each.slowdown) for each in horizons if each.ahead <= AHEAD and each.probability >= PROBABLE]
    return max((each for each in known if each is not None), default=None)
