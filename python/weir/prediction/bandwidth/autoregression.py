"""Autoregression: a step as a linear function of the steps before it."""

import math

import numpy

from weir.prediction.bandwidth.history import Array, Steps
from weir.prediction.bandwidth.method import Method, Prediction

_STEPS_MIN = 8
_ORDERS = (1, 2, 4, 8, 16)
_RIDGE = 0.02
"""Part of the variance that keeps coefficients small where steps hardly vary."""


class Autoregression(Method):
    """Least squares on the logarithms; the order has the smallest corrected Akaike criterion."""

    name = "autoregression"

    def fit(self, steps: Steps) -> Prediction | None:
        """See `Method`."""
        logarithms = numpy.log(steps.even_values)
        if len(logarithms) < _STEPS_MIN:
            return None
        mean = float(logarithms.mean())
        centred = logarithms - mean
        coefficients = _fitted(centred)
        newest = [float(value) for value in centred[-len(coefficients) :]]
        least, most = float(centred.min()), float(centred.max())

        def predict(time: float) -> float:
            past = list(newest)
            # A stationary model has long forgotten its beginning by then.
            for _ in range(min(steps.steps_until(time), 4 * len(centred))):
                past.append(float(numpy.dot(coefficients, past[: -len(coefficients) - 1 : -1])))
            return math.exp(mean + min(max(past[-1], least), most))

        return predict


def _fitted(values: Array) -> Array:
    """The coefficients of earlier steps, the latest step first."""
    best = numpy.inf
    chosen: Array = numpy.zeros(1)
    first = max(order for order in _ORDERS if 3 * order < len(values) or order == 1)
    goal = values[first:]
    for order in _ORDERS:
        if order > first:
            break
        rows = numpy.stack([values[first - lag : len(values) - lag] for lag in range(1, order + 1)], axis=1)
        penalty = (_RIDGE * len(goal) * float(values.var()) + 1e-18) * numpy.eye(order)
        coefficients = numpy.linalg.solve(rows.T @ rows + penalty, rows.T @ goal)
        spread = float(((goal - rows @ coefficients) ** 2).mean()) + 1e-18
        free = order + 1
        criterion = len(goal) * numpy.log(spread) + 2 * free + 2 * free * (free + 1) / max(len(goal) - free - 1, 0.5)
        if criterion < best:
            best, chosen = criterion, numpy.asarray(coefficients, dtype=float)
    return chosen
