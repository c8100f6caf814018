"""Evaluation of all estimators by all splits."""

from collections.abc import Sequence
from typing import Literal

import msgspec
import numpy as np

from weir.interference.errors import InterferenceError
from weir.interference.estimators import Classes, estimators, prepare
from weir.interference.splits import SPLITS
from weir.interference.windows import Windows

Part = tuple[Classes, Classes]
"""Classes of the windows of a part, as they are and as they were guessed."""
BASELINES = ("majority", "last window")


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
    classes = np.searchsorted(np.asarray(bins, float), windows.slowdowns, side="right").astype(np.int64)
    if len(np.unique(classes)) < 2:
        raise InterferenceError(
            f"all {len(windows)} windows are in one class of slowdown",
            hint="choose other bins, or collect windows with and without interferers",
        )
    return classes


def evaluate(windows: Windows, bins: Sequence[float] = (2.0,), names: Sequence[str] = ()) -> Evaluation:
    """Train and test every estimator by every split.

    Args:
        windows: The windows; those without a label are left out.
        bins: Slowdowns at which a class begins.
        names: Estimators to evaluate; none for all.

    Returns:
        The scores.

    Raises:
        InterferenceError: As for `classes_of`, or there is no split because all windows are of one run.
    """
    labelled = windows.labelled()
    classes = classes_of(labelled, bins)
    count = len(bins) + 1
    data = prepare(labelled)
    makers = estimators(tuple(bins))
    scores = []
    for split, parts in SPLITS.items():
        found: dict[str, list[Part]] = {}
        for training, test in parts(labelled):
            if len(np.unique(classes[training])) < 2:
                continue
            for name in names or makers:
                estimator = makers[name]()
                estimator.fit(data.take(training), classes[training], count)
                guessed = estimator.probabilities(data.take(test)).argmax(1)
                found.setdefault(name, []).append((classes[test], guessed))
        scores += [_score(split, name, each, count) for name, each in found.items()]
    shares = np.bincount(classes, minlength=count) / len(classes)
    return Evaluation(windows=len(labelled), bins=tuple(bins), shares=tuple(shares.tolist()), scores=tuple(scores))


def _score(split: str, name: str, parts: Sequence[Part], count: int) -> Score:
    each = _each_f1(parts, count)
    together = (np.concatenate([part[0] for part in parts]), np.concatenate([part[1] for part in parts]))
    return Score(split=split, estimator=name, f1=float(np.mean(each)), least=min(each), overall=_f1(together, count))


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
