"""Logistic regressions as numbers, and the one that makes probabilities calibrated."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from weir.interference.windows import Floats

if TYPE_CHECKING:
    from sklearn.linear_model import LogisticRegression

    from weir.interference.estimators import Classes


class Logistic(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A logistic regression as numbers."""

    mean: list[float]
    deviation: list[float]
    weights: list[list[float]]
    """The weights of each class, one for each input; with two classes, those of the second one alone."""
    offsets: list[float]
    classes: list[int]


def calibration(found: "Sequence[tuple[Floats, Classes]]") -> "LogisticRegression | None":
    """Learn from probabilities of windows that the model did not see.

    Args:
        found: Probabilities of the windows of each part, shape (windows, classes), and their classes.

    Returns:
        The regression on `logarithms`; none where fewer than two classes are there.
    """
    from sklearn.linear_model import LogisticRegression

    if not found or len(np.unique(np.concatenate([classes for _, classes in found]))) < 2:
        return None
    inputs = np.concatenate([logarithms(probabilities) for probabilities, _ in found])
    return LogisticRegression(max_iter=1000).fit(inputs, np.concatenate([classes for _, classes in found]))


def numbers(model: "LogisticRegression", count: int) -> Logistic:
    """A calibration as numbers.

    Args:
        count: Number of classes.
    """
    return Logistic(
        mean=[0.0] * count,
        deviation=[1.0] * count,
        weights=model.coef_.tolist(),
        offsets=model.intercept_.tolist(),
        classes=model.classes_.tolist(),
    )


def logarithms(probabilities: Floats) -> Floats:
    """The inputs of a calibration.

    Args:
        probabilities: Probabilities of classes.

    Returns:
        Their logarithms, none far below the others.
    """
    made: Floats = np.log(np.clip(probabilities, 1e-6, 1.0))
    return made
