"""Errors of the models on runs that they were not fitted on: random ones, later months, and applications held out."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec
import numpy
from numpy.typing import NDArray

from weir.provisioning.learning.dataset import Dataset
from weir.provisioning.learning.intervals import COVERAGE_TOLERANCE, LEVEL, half_width
from weir.provisioning.learning.models import MODELS, Fitted, Settings, fit
from weir.provisioning.learning.usefulness import FACTOR_TOLD_MAX, Width

RANDOM, MONTHS, APPLICATIONS = "random", "months", "applications"
HELD_OUT = (RANDOM, MONTHS, APPLICATIONS)
RUNS_MIN = 20
"""Fewest runs with a time from which the time is learned."""
_PART = 0.2
"""Part of the runs, or of the months, that is held out, as in the paper."""
_NORMAL_95 = 1.96
"""Standard deviations within which 95 % of a normal distribution lie."""
RUNS_ENOUGH = math.ceil(LEVEL * (1 - LEVEL) * (_NORMAL_95 / COVERAGE_TOLERANCE) ** 2 / _PART)
"""Runs from which the errors mean something: the held-out part then tells, 95 times of 100, whether as many runs as
should lie in their intervals, within the tolerance of the report (normal approximation of a binomial proportion)."""
ERROR_MAX = 1e3
"""Largest relative error that is told, 100,000 %: a model that is farther off knows nothing of the run, and one such
run would hide all others in a mean."""
_FOLDS_MAX = 5
"""Most parts into which applications are put."""
_PROGRAMS_MAX = 20
"""Most applications that are told one by one: those of most runs."""
TESTED_MAX = 5000
"""Most held-out runs of a split."""


class Score(msgspec.Struct, frozen=True, kw_only=True):
    """The errors of a model on held-out runs."""

    program: str | None
    """Name of the program whose runs they are; None for all."""
    model: str
    runs: int
    mape: float
    """Mean absolute percentage error, as a fraction; each run's counts as 1,000 at most."""
    median_error: float
    """Median of the absolute percentage errors, as a fraction."""
    coverage: float
    """Part of the runs whose time lay in its interval."""
    factor: float
    """Median of the ratio between the upper end of the interval and the prediction."""


class Scores(msgspec.Struct, frozen=True):
    """The errors of all models on one split."""

    scores: list[Score]


class Predicted(msgspec.Struct, frozen=True):
    """Predictions of all models for the runs in the middles of classes."""

    seconds: dict[str, list[float]]
    """Prediction for each middle, by model."""
    widths: dict[str, list[Width]]
    """Interval of each class, by model."""


class Split(NamedTuple):
    """Runs to learn from and runs that are held out."""

    held_out: str
    """One of `HELD_OUT`."""
    number: int
    learned: NDArray[Any]
    tested: NDArray[Any]


@dataclass(frozen=True)
class FitTask:
    """Models that are fitted on some runs, and used on others."""

    key: str
    learned: Dataset
    tested: Dataset
    target: int
    columns: NDArray[Any]
    settings: Settings
    seed: int

    def fitted(self) -> Fitted:
        """Fit the models."""
        return fit(self.learned, self.target, self.columns, self.settings, self.seed)


@dataclass(frozen=True)
class MiddlesTask(FitTask):
    """Models that are fitted on all runs, and used on the runs in the middles of classes, which are `tested`."""

    classes: NDArray[Any]
    """Number of the class of each learned run."""


def later_months(runs: Dataset) -> NDArray[Any]:
    """Name the months that are held out: the last fifth of those with runs, and one at least.

    Returns:
        The months; none where all runs with a known begin are of one month.
    """
    months = numpy.unique(runs.months[runs.months >= 0])
    if len(months) < 2:
        return months[:0]
    return months[-max(round(_PART * len(months)), 1) :]


def splits(runs: Dataset, target: int, seed: int) -> Iterator[Split]:
    """Split the runs in the three ways, where there are enough.

    Args:
        target: Place of the predicted time in `TARGETS`.
        seed: Seed of the draw.

    Yields:
        The splits.
    """
    from sklearn.model_selection import GroupKFold

    (rows,) = numpy.nonzero(runs.seconds[:, target] > 0)
    if len(rows) < RUNS_MIN:
        return
    shuffled = numpy.random.default_rng(seed).permutation(rows)
    count = round(_PART * len(rows))
    yield Split(RANDOM, 0, shuffled[count:], shuffled[:count])
    is_later = numpy.isin(runs.months[rows], later_months(runs))
    if is_later.any() and (~is_later).sum() >= RUNS_MIN // 2:
        yield Split(MONTHS, 0, rows[~is_later], rows[is_later])
    programs = runs.programs[rows]
    folds = min(len(numpy.unique(programs)), _FOLDS_MAX)
    if folds > 1:
        for number, (learned, tested) in enumerate(GroupKFold(folds).split(rows, groups=programs)):
            if len(learned) >= RUNS_MIN // 2:
                yield Split(APPLICATIONS, number, rows[learned], rows[tested])


def sample(rows: NDArray[Any], most: int, seed: int) -> NDArray[Any]:
    """Draw rows, where there are too many.

    Args:
        most: Most rows to keep.

    Returns:
        The rows in their order.
    """
    if len(rows) <= most:
        return rows
    return numpy.sort(numpy.random.default_rng(seed).choice(rows, most, replace=False))


def evaluated(task: FitTask, is_wanted: Callable[[], bool]) -> Scores:
    """Fit models and measure their errors.

    Args:
        task: The runs and settings.
        is_wanted: Whether the answer is still wanted.

    Returns:
        The errors of each model, over all held-out runs and for each program.
    """
    fitted = task.fitted()
    told = fitted.predict(task.tested)
    seconds = task.tested.seconds[:, task.target]
    programs, counts = numpy.unique(task.tested.programs, return_counts=True)
    named = programs[numpy.argsort(-counts, kind="stable")][:_PROGRAMS_MAX]
    everything = numpy.ones(len(seconds), dtype=bool)
    parts: list[tuple[str | None, NDArray[Any]]] = [(None, everything)]
    parts += [(task.tested.program_names[int(each)], task.tested.programs == each) for each in named]
    scores = []
    for model in MODELS:
        with numpy.errstate(over="ignore"):
            errors = numpy.minimum(numpy.abs(numpy.exp(told[model]) - seconds) / seconds, ERROR_MAX)
        widths = fitted.half_widths(task.tested, model)
        is_covered = numpy.abs(told[model] - numpy.log(seconds)) <= widths
        scores += [
            Score(
                program=program,
                model=model,
                runs=int(rows.sum()),
                mape=float(errors[rows].mean()),
                median_error=float(numpy.median(errors[rows])),
                coverage=float(is_covered[rows].mean()),
                factor=_exp(float(numpy.median(widths[rows]))),
            )
            for program, rows in parts
        ]
    return Scores(scores)


def predicted(task: MiddlesTask, is_wanted: Callable[[], bool]) -> Predicted:
    """Fit models and predict the times of the middles of classes, with the interval of each class.

    Args:
        task: The runs and settings.
        is_wanted: Whether the answer is still wanted.
    """
    fitted = task.fitted()
    seconds = {name: [_exp(float(each)) for each in told] for name, told in fitted.predict(task.tested).items()}
    widths = {
        name: [_width(errors[task.classes == number]) for number in range(len(task.tested))]
        for name, errors in fitted.errors.items()
    }
    return Predicted(seconds, widths)


def _width(errors: NDArray[Any]) -> Width:
    return Width(len(errors), min(half_width(errors), math.log(FACTOR_TOLD_MAX)))


def pooled(parts: list[Scores]) -> list[Score]:
    """Put the errors on several parts together; each run counts alike, and a median is the mean of the parts'.

    Args:
        parts: Errors of all models on each part.

    Returns:
        The errors of each model over all parts, and for each program.
    """
    by_name: dict[tuple[str | None, str], list[Score]] = {}
    for part in parts:
        for score in part.scores:
            by_name.setdefault((score.program, score.model), []).append(score)
    return [_mean(each) for each in by_name.values()]


def _mean(scores: list[Score]) -> Score:
    runs = sum(each.runs for each in scores)

    def mean(name: str) -> float:
        return math.fsum(getattr(each, name) * each.runs for each in scores) / runs

    numbers = {name: mean(name) for name in ("mape", "median_error", "coverage", "factor")}
    return msgspec.structs.replace(scores[0], runs=runs, **numbers)


def _exp(logarithm: float) -> float:
    """A factor that JSON can carry: an interval without an end gets one that no run reaches."""
    return math.exp(min(max(logarithm, -50.0), 50.0))
