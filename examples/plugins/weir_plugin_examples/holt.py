"""Exponential smoothing with a trend (Holt, 1957)."""

from collections.abc import Callable
from itertools import product

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_PARTS = (0.1, 0.3, 0.5, 0.7, 0.9)
"""Parts of a new value in the level, and of a new step in the trend, that are tried."""
_VALUES_MIN = 4


class Holt:
    """Exponential smoothing of a level and a trend, whose parts fit the past best."""

    def fit(self, times: Floats, values: Floats) -> Callable[[float], float] | None:
        if len(values) < _VALUES_MIN:
            return None
        fits = [_smoothed(values, alpha, beta) for alpha, beta in product(_PARTS, _PARTS)]
        _, level, trend = min(fits)
        spacing, last = float(np.median(np.diff(times))), float(times[-1])
        return lambda time: level + trend * max((time - last) / spacing, 0.0)


def _smoothed(values: Floats, alpha: float, beta: float) -> tuple[float, float, float]:
    """Sum of squared errors of forecasts one step ahead, and the last level and trend."""
    level, trend = float(values[0]), float(values[1] - values[0])
    error = 0.0
    for value in values[1:]:
        expected = level + trend
        error += float(value - expected) ** 2
        before, level = level, expected + alpha * float(value - expected)
        trend += beta * (level - before - trend)
    return error, level, trend
