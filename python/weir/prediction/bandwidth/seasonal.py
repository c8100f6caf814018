"""Seasonal forecasts: the steps one season ago, two seasons ago and so on. The season is the lag with the most similar
steps.
"""

import numpy

from weir.prediction.bandwidth.history import Array, Steps
from weir.prediction.bandwidth.method import Method, Prediction

_PAIRS_DOUBT = 2.0
"""A similarity of this many pairs of steps counts half."""
_PAIRS_MIN = 3
_LIKENESS_MIN = 0.15
_SEASON_DISCOUNT = 0.8


class Seasonal(Method):
    """Seasonal naive: the mean of the same step in past seasons, recent ones counting more.

    The season is the lag of the largest autocorrelation, in the form 1 - E(x(t) - x(t-lag))^2 / 2 E(x - mean)^2 and
    weighed by its number of pairs of steps.
    """

    name = "seasonal"

    def fit(self, steps: Steps) -> Prediction | None:
        """See `Method`."""
        slowness = 1 / steps.even_values
        lag = _season(slowness)
        if lag is None:
            return None

        def predict(time: float) -> float:
            ahead = (steps.steps_until(time) - 1) % lag
            alike = slowness[::-1][lag - 1 - ahead :: lag]
            return float(1 / numpy.average(alike, weights=_SEASON_DISCOUNT ** numpy.arange(len(alike))))

        return predict


def _season(values: Array) -> int | None:
    count = len(values)
    if count < _PAIRS_MIN + 2:
        return None
    centred = values - values.mean()
    variance = float(centred @ centred) / count
    if variance <= (1e-9 * values.mean()) ** 2:
        return 1
    lags = numpy.arange(1, count - _PAIRS_MIN + 1)
    pairs = count - lags
    # The sum of squared differences, for all lags at once: squares of the later ones and of the earlier ones, less
    # twice their products.
    squares = numpy.concatenate([[0.0], numpy.cumsum(centred**2)])
    products = numpy.correlate(centred, centred, "full")[count - 1 :]
    difference = (squares[-1] - squares[lags] + squares[pairs] - 2 * products[lags]) / pairs
    likeness = (1 - difference / (2 * variance)) * pairs / (pairs + _PAIRS_DOUBT)
    best = int(likeness.argmax())
    return int(lags[best]) if likeness[best] >= _LIKENESS_MIN else None
