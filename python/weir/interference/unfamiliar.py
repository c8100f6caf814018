"""The models for jobs that no training had: those that are best where one workload after the other is left out."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from weir.interference import capacity, features
from weir.interference.estimators import AboveQuiet, Classes, Estimator, Prepared, Trees
from weir.interference.evaluation import mean_f1
from weir.interference.logistic import Logistic, calibration, logarithms, numbers
from weir.interference.windows import Floats

FOLDS_MAX = 20
"""Of more workloads, several are left out together: the time of a training is bounded."""
Mask = NDArray[np.bool_]
HeldOut = tuple[Floats, Classes]
"""Probabilities of windows of workloads that were left out, and their classes."""


class Choice(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The models for unfamiliar jobs, and the reason."""

    by: Literal["ratio trees", "above quiet"]
    above_quiet_f1: float | None
    """F1 of the comparison with quiet windows, the mean over workloads that were left out; none where there is one
    workload alone."""
    ratio_trees_f1: float | None
    """The same of trees on ratios, with costs of requests that the other workloads' windows tell."""


class RatioTrees(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Trees on ratios."""

    trees: str
    """LightGBM's text form."""
    calibration: Logistic
    """From the logarithms of the trees' probabilities to calibrated ones."""


@dataclass(frozen=True)
class Fold:
    """Workloads that are left out, and the ratios of all windows with costs that the other workloads tell."""

    is_out: Mask
    ratios: Floats


def folds(data: Prepared) -> tuple[Fold, ...]:
    """Leave one workload after the other out.

    Args:
        data: Windows with their features.

    Returns:
        A fold for each workload; none where there is one workload alone.
    """
    workloads, place = np.unique(data.windows.workloads, return_inverse=True)
    if len(workloads) < 2:
        return ()
    made = []
    for number in range(min(len(workloads), FOLDS_MAX)):
        is_out = place % FOLDS_MAX == number
        known = capacity.costs(data.windows.take(~is_out))
        made.append(Fold(is_out, features.of_windows(data.windows, known)[2]))
    return tuple(made)


def choose(
    data: Prepared,
    parts: Sequence[Fold],
    chosen: Mask,
    classes: Classes,
    count: int,
    seed: int,
    *,
    is_general: bool = False,
) -> Choice:
    """Choose the models.

    Args:
        data: Windows with their features.
        chosen: The windows that have a label.
        classes: Classes of the chosen windows.
        count: Number of classes.
        seed: Seed of the trees.
        is_general: Whether the models are for other devices, too, whose requests have other costs.

    Returns:
        The choice; `above quiet` where there is nothing to compare, and for any devices.
    """
    quiet = [(wanted, made.argmax(1)) for made, wanted in held_out(AboveQuiet, data, parts, chosen, classes, count)]
    if is_general and quiet:
        return Choice(by="above quiet", above_quiet_f1=mean_f1(quiet, count), ratio_trees_f1=None)
    trees = _calibrated(held_out(lambda: Trees(seed, "ratios"), data, parts, chosen, classes, count))
    if not trees or not quiet:
        return Choice(by="above quiet", above_quiet_f1=None, ratio_trees_f1=None)
    of_trees, of_quiet = mean_f1(trees, count), mean_f1(quiet, count)
    better: Literal["ratio trees", "above quiet"] = "ratio trees" if of_trees > of_quiet else "above quiet"
    return Choice(by=better, above_quiet_f1=of_quiet, ratio_trees_f1=of_trees)


def held_out(
    make: Callable[[], Estimator],
    data: Prepared,
    parts: Sequence[Fold],
    chosen: Mask,
    classes: Classes,
    count: int,
) -> list[HeldOut]:
    """Predict each workload by a model of the others.

    Args:
        data: Windows with their features.
        chosen: The windows that have a label.
        classes: Classes of the chosen windows.
        count: Number of classes.

    Returns:
        What was predicted of each fold whose training has windows of two classes; windows of a workload with too few
        of them to know what is quiet are left out.
    """
    found = []
    is_comparable = _comparable(data, chosen)
    for part in parts:
        of_part = replace(data, ratios=part.ratios).take(chosen)
        is_out = part.is_out[chosen]
        training, test = ~is_out & is_comparable, is_out & is_comparable
        if not test.any() or len(np.unique(classes[training])) < 2:
            continue
        model = make()
        model.fit(of_part.take(training), classes[training], count)
        found.append((model.probabilities(of_part.take(test)), classes[test]))
    return found


def _calibrated(found: Sequence[HeldOut]) -> list[tuple[Classes, Classes]]:
    """Classes as they are, and as they are guessed after a calibration by the other folds."""
    made = []
    for place, (probabilities, classes) in enumerate(found):
        model: Any = calibration([each for other, each in enumerate(found) if other != place])
        guessed = probabilities.argmax(1) if model is None else model.predict(logarithms(probabilities))
        made.append((classes, guessed))
    return made


def ratio_trees(
    data: Prepared, parts: Sequence[Fold], chosen: Mask, classes: Classes, count: int, seed: int
) -> RatioTrees | None:
    """Train the trees.

    Args:
        data: Windows with their features.
        chosen: The windows that have a label.
        classes: Classes of the chosen windows.
        count: Number of classes.

    Returns:
        The trees, calibrated by workloads that were left out; none where these have windows of one class alone.
    """
    regression = calibration(held_out(lambda: Trees(seed, "ratios"), data, parts, chosen, classes, count))
    if regression is None:
        return None
    is_comparable = _comparable(data, chosen)
    trees = Trees(seed, "ratios")
    trees.fit(data.take(chosen).take(is_comparable), classes[is_comparable], count)
    return RatioTrees(trees.text(), numbers(regression, count))


def _comparable(data: Prepared, chosen: Mask) -> Mask:
    """The chosen windows of workloads with enough windows to know what is quiet."""
    is_comparable: Mask = np.asarray(~np.isnan(data.relative[chosen]).any(1))
    return is_comparable
