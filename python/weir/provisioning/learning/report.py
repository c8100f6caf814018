"""The report of a build: the errors of each model on held-out runs, the best model, and the classes."""

import math
from collections.abc import Iterable
from typing import Literal

import msgspec

from weir.provisioning.learning.clustering import Point
from weir.provisioning.learning.evaluation import APPLICATIONS, MONTHS, Score
from weir.provisioning.learning.intervals import LEVEL


class SplitScore(Score, frozen=True, kw_only=True):
    """The errors of a model on the held-out runs of a split."""

    target: Literal["read", "write", "metadata"]
    held_out: Literal["random", "months", "applications"]


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """A predicted time: the choice of features and hyper-parameters."""

    name: Literal["read", "write", "metadata"]
    runs: int
    """Runs with such a time."""
    features: tuple[str, ...]
    """Features in use, the most important first."""
    settings: dict[str, int | float | str]
    default_errors: tuple[float, float]
    """Errors of the ensemble with the defaults, with known and with unknown programs, on the runs of the search."""
    tuned_errors: tuple[float, float]


class Best(msgspec.Struct, frozen=True, kw_only=True):
    """The model of the least mean absolute percentage error on a split."""

    target: Literal["read", "write", "metadata"]
    held_out: Literal["random", "months", "applications"]
    model: str
    mape: float


class Expected(msgspec.Struct, frozen=True, kw_only=True):
    """A predicted time with its interval, all processes together."""

    low_seconds: float
    seconds: float
    high_seconds: float


class ClassReport(msgspec.Struct, frozen=True, kw_only=True):
    """A class of the table."""

    name: str
    runs: int
    is_opened: bool
    """Whether the class was opened for runs that were far from every cluster."""
    expected: dict[str, Expected]
    """Times of the run in the middle of the class, as the best model predicts them, by target."""


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """The report of a build."""

    version: Literal[1] = 1
    """Version of this document."""
    logs: int
    unreadable: int
    runs: int
    """Runs that were learned from."""
    programs: int
    months: tuple[str, str] | None
    """First and last month of the runs; None where their begin is not known."""
    later_months: tuple[str, ...]
    """Months that were held out."""
    interval_level: float = LEVEL
    """Part of the times that is to lie in the intervals."""
    targets: tuple[Target, ...]
    scores: tuple[SplitScore, ...]
    best: tuple[Best, ...]
    best_model: str | None
    """The model of the least error over held-out months and applications; None where neither could be held out."""
    clusters: tuple[Point, ...]
    """Numbers of classes that were tried."""
    elbow: int
    chosen: int
    """Number of clusters."""
    agreement: float
    """Part of the runs whose best class by fitness is that of their cluster."""
    classes: tuple[ClassReport, ...]
    notes: tuple[str, ...]
    """Things that could not be measured or read, in words."""


def bests(scores: Iterable[SplitScore]) -> tuple[Best, ...]:
    """Find the best model of each split.

    Args:
        scores: Errors of all models.

    Returns:
        The models with the least mean absolute percentage errors over all held-out runs.
    """
    found: dict[tuple[str, str], SplitScore] = {}
    for score in scores:
        place = (score.target, score.held_out)
        if score.program is None and (place not in found or score.mape < found[place].mape):
            found[place] = score
    return tuple(
        Best(target=each.target, held_out=each.held_out, model=each.model, mape=each.mape) for each in found.values()
    )


def best_model(scores: Iterable[SplitScore]) -> str | None:
    """Find the best model over held-out months and applications, and never over random runs.

    Args:
        scores: Errors of all models.

    Returns:
        The model with the least geometric mean of the errors over targets and both ways of holding out.
    """
    by_model: dict[str, list[float]] = {}
    for score in scores:
        if score.program is None and score.held_out in (MONTHS, APPLICATIONS):
            by_model.setdefault(score.model, []).append(math.log(max(score.mape, 1e-9)))
    if not by_model:
        return None
    return min(by_model, key=lambda model: math.fsum(by_model[model]) / len(by_model[model]))
