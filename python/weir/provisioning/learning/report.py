"""The report of a build: the errors of each model on held-out runs, the best model, and the classes."""

import math
from collections.abc import Iterable
from typing import Literal

import msgspec

from weir.provisioning.behaviour.classes import ClassTime, TimeName
from weir.provisioning.learning.clustering import Point
from weir.provisioning.learning.evaluation import APPLICATIONS, MONTHS, Score
from weir.provisioning.learning.intervals import LEVEL
from weir.provisioning.learning.usefulness import split_refusal


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
    is_useful: bool
    """Whether its intervals are narrow and hold, by enough held-out runs, or programs where those were held out."""
    refusal: str = ""
    """The reason why they are of no use."""


class ClassReport(msgspec.Struct, frozen=True, kw_only=True):
    """A class of the table."""

    name: str
    runs: int
    is_opened: bool
    """Whether the class was opened for runs that were far from every cluster."""
    times: dict[TimeName, ClassTime]
    """The times whose predictions are useful."""
    refused: dict[TimeName, str]
    """The reason why the prediction of each other time is of no use."""
    middle_seconds: dict[TimeName, float]
    """The predicted times of the run in the middle of the class; those alone that are useful."""


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
    interval_max: float
    """Greatest ratio between the end of an interval and its prediction for which a prediction is useful."""
    agreement: float
    """Part of the runs whose best class by fitness is that of their cluster."""
    classes: tuple[ClassReport, ...]
    notes: tuple[str, ...]
    """Things that could not be measured or read, in words."""


def bests(scores: Iterable[SplitScore], interval_max: float) -> tuple[Best, ...]:
    """Find the best model of each split.

    Args:
        scores: Errors of all models.
        interval_max: Greatest ratio between the end of an interval and its prediction that is of use.

    Returns:
        The models with the least mean absolute percentage errors over all held-out runs.
    """
    found: dict[tuple[str, str], SplitScore] = {}
    programs: dict[tuple[str, str], set[str]] = {}
    for score in scores:
        if score.program is not None:
            programs.setdefault((score.target, score.held_out), set()).add(score.program)
        place = (score.target, score.held_out)
        if score.program is None and (place not in found or score.mape < found[place].mape):
            found[place] = score
    return tuple(_best(each, len(programs.get(place, ())), interval_max) for place, each in found.items())


def _best(score: SplitScore, programs: int, interval_max: float) -> Best:
    is_of_programs = score.held_out == APPLICATIONS
    groups, what = (programs, "program") if is_of_programs else (score.runs, "run")
    reason = split_refusal(score.coverage, score.factor, groups, interval_max, what)
    return Best(
        target=score.target,
        held_out=score.held_out,
        model=score.model,
        mape=score.mape,
        is_useful=not reason,
        refusal=reason,
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
