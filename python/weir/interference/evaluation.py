"""Evaluation of all estimators by all splits."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import msgspec
import numpy as np

from weir.interference.errors import InterferenceError
from weir.interference.estimators import Classes, Prepared, estimator_named, estimators, prepare
from weir.interference.splits import SPLITS, Split
from weir.interference.windows import Windows

Part = tuple[Classes, Classes]
"""Classes of the windows of a part, as they are and as they were guessed."""
BASELINES = ("majority", "last window")
STRANGERS = "other workloads"
"""The split whose tests have workloads that no window of the training has."""
OWN_ADDITIONAL = "other workloads, own additional"
"""The same split, where additional windows of the workload that is kept aside are in the training."""


class Score(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The score of an estimator by a split."""

    split: str
    estimator: str
    f1: float
    """F1 of slowed windows for two classes, macro-F1 for more; the mean over the parts of the split. With two classes,
    a part without slowed windows has no F1."""
    least: float
    """The same for the part of the split where it is least."""
    overall: float
    """The same over the windows of all parts together, also of those without slowed windows."""
    confusion: tuple[tuple[int, ...], ...]
    """Windows of all parts by their class, and within it by the class that was guessed (the paper's figures 3 to 5)."""


class Evaluation(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The worth of estimators on a data set."""

    version: Literal[1] = 1
    """Version of this document."""
    windows: int
    """Windows with labels."""
    bins: tuple[float, ...]
    """Slowdowns at which a class begins."""
    shares: tuple[float, ...]
    """Part of the windows in each class."""
    scores: tuple[Score, ...]
    additional_windows: int = 0
    """Windows with labels that were additional training data."""
    with_additional: tuple[Score, ...] = ()
    """The scores of the same tests after a training with the additional windows, and those of `OWN_ADDITIONAL`."""


@dataclass(frozen=True)
class _Classed:
    """Windows with their features and classes."""

    data: Prepared
    classes: Classes

    def take(self, chosen: Classes) -> "_Classed":
        return _Classed(self.data.take(chosen), self.classes[chosen])

    def with_more(self, more: "_Classed") -> "_Classed":
        return _Classed(self.data.with_more(more.data), np.concatenate([self.classes, more.classes]))


def classes_of(windows: Windows, bins: Sequence[float]) -> Classes:
    """Put labels into classes.

    Args:
        windows: Labelled windows.
        bins: Slowdowns at which a class begins, ascending.

    Returns:
        Numbers from 0 to the number of bins.

    Raises:
        InterferenceError: The bins do not ascend, or all windows are in one class.
    """
    if list(bins) != sorted(set(bins)) or not bins or min(bins) <= 0:
        raise InterferenceError(f"the bins {', '.join(f'{each:g}' for each in bins)} do not ascend from above 0")
    classes = _numbers(windows, bins)
    if len(np.unique(classes)) < 2:
        raise InterferenceError(
            f"all {len(windows)} windows are in one class of slowdown",
            hint="choose other bins, or collect windows with and without interferers",
        )
    return classes


def _numbers(windows: Windows, bins: Sequence[float]) -> Classes:
    return np.searchsorted(np.asarray(bins, float), windows.slowdowns, side="right").astype(np.int64)


def evaluate(
    windows: Windows, bins: Sequence[float] = (2.0,), names: Sequence[str] = (), additional: Windows | None = None
) -> Evaluation:
    """Train and test every estimator by every split.

    Args:
        windows: The windows; those without a label are left out.
        bins: Slowdowns at which a class begins.
        names: Estimators to evaluate, plug-ins among them; none for all of Weir's.
        additional: Windows for a second training of each estimator, beside those of the first; no test has any. A
            workload that a split keeps aside is left out of them, too.

    Raises:
        InterferenceError: As for `classes_of`, or there is no split because all windows are of one run.
        PluginError: There is no such estimator, or a plug-in fails.
    """
    labelled = windows.labelled()
    own = _Classed(prepare(labelled), classes_of(labelled, bins))
    more = None
    if additional is not None:
        further = additional.labelled()
        more = _Classed(prepare(further), _numbers(further, bins))
    count = len(bins) + 1
    scores: list[Score] = []
    with_additional: list[Score] = []
    for split, parts in SPLITS.items():
        alone: dict[str, list[Part]] = {}
        helped: dict[str, dict[str, list[Part]]] = {}
        for training, test in _usable(parts(labelled), own.classes):
            learned, tested = own.take(training), own.take(test)
            _try_all(alone, (learned, tested), bins, names)
            for name, wider in _wider(split, learned, tested, more).items():
                _try_all(helped.setdefault(name, {}), (wider, tested), bins, names)
        scores += [_score(split, name, each, count) for name, each in alone.items()]
        with_additional += [_score(of, name, each, count) for of in helped for name, each in helped[of].items()]
    shares = np.bincount(own.classes, minlength=count) / len(labelled)
    return Evaluation(
        windows=len(labelled),
        bins=tuple(bins),
        shares=tuple(shares.tolist()),
        scores=tuple(scores),
        additional_windows=0 if more is None else len(more.classes),
        with_additional=tuple(with_additional),
    )


def _usable(parts: Iterator[Split], classes: Classes) -> Iterator[Split]:
    """The parts of a split in whose training there are at least two classes."""
    return ((training, test) for training, test in parts if len(np.unique(classes[training])) > 1)


def _try_all(
    found: dict[str, list[Part]], split: tuple[_Classed, _Classed], bins: Sequence[float], names: Sequence[str]
) -> None:
    """Train the estimators with the first windows, test them with the second, and keep the guesses by estimator."""
    learned, tested = split
    for name in names or estimators(tuple(bins)):
        estimator = estimator_named(name, tuple(bins))
        estimator.fit(learned.data, learned.classes, len(bins) + 1)
        guessed = estimator.probabilities(tested.data).argmax(1)
        found.setdefault(name, []).append((tested.classes, guessed))


def _wider(split: str, learned: _Classed, tested: _Classed, more: _Classed | None) -> Mapping[str, _Classed]:
    """The trainings with additional windows, by the names of their scores."""
    if more is None:
        return {}
    kept_aside = np.setdiff1d(tested.data.windows.workloads, learned.data.windows.workloads)
    is_strange = np.isin(more.data.windows.workloads, kept_aside)
    made = {split: learned.with_more(more.take(np.flatnonzero(~is_strange)))}
    if split == STRANGERS:
        made[OWN_ADDITIONAL] = learned.with_more(more)
    return made


def _score(split: str, name: str, parts: Sequence[Part], count: int) -> Score:
    each = _each_f1(parts, count)
    together = (np.concatenate([part[0] for part in parts]), np.concatenate([part[1] for part in parts]))
    return Score(
        split=split,
        estimator=name,
        f1=float(np.mean(each)),
        least=min(each),
        overall=_f1(together, count),
        confusion=confusion(together, count),
    )


def confusion(part: Part, count: int) -> tuple[tuple[int, ...], ...]:
    """Count windows by their class and the class that was guessed.

    Args:
        part: Classes of windows, as they are and as they were guessed.
        count: Number of classes.

    Returns:
        A row for each class as it is, a column for each class as it was guessed.
    """
    counts = np.bincount(part[0] * count + part[1], minlength=count * count).reshape(count, count)
    return tuple(tuple(row) for row in counts.tolist())


def mean_f1(parts: Sequence[Part], count: int) -> float:
    """The mean F1 over the parts of a split, as in `Score`.

    Args:
        parts: Classes of the windows of each part, as they are and as they were guessed.
        count: Number of classes.

    Returns:
        The mean, from 0 to 1.
    """
    return float(np.mean(_each_f1(parts, count)))


def _each_f1(parts: Sequence[Part], count: int) -> list[float]:
    return [_f1(part, count) for part in parts if count > 2 or part[0].any()] or [0.0]


def _f1(part: Part, count: int) -> float:
    from sklearn.metrics import f1_score

    return float(f1_score(*part, average="binary" if count == 2 else "macro", zero_division=0.0))
