"""What came where something like this was forecast: how far it was off, and how far to each side.

Ratios of what came to what was forecast are kept. Those of forecasts near the one at hand count most, and recent ones
more than old ones; their quantiles are the interval, as in conformal prediction, and correct a bias.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from weir.prediction.bandwidth.history import RATE_LEAST
from weir.prediction.bandwidth.relative import least_relative_error, quantile

if TYPE_CHECKING:
    from weir.prediction.bandwidth.history import Array

_STEPS_MIN = 8
_STEPS_MAX = 192
_DISCOUNT = 0.98
"""Of a forecast for each that is newer."""
_NEAR = 0.05
"""Forecasts this much apart, as a logarithm, are still alike."""
_TRUST = 2.0
"""So many forecasts that were exactly right are taken to have been, against a correction that rests on few."""
_GUESS = 2.0
"""Factor to each side before anything is known."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """Pairs of a forecast and what came, the oldest first."""

    forecasts: tuple[float, ...] = ()
    came: tuple[float, ...] = ()

    def after(self, forecast: float, value: float) -> "Calibration":
        """With one more pair."""
        forecasts, came = (*self.forecasts, max(forecast, RATE_LEAST)), (*self.came, value)
        return Calibration(forecasts[-_STEPS_MAX:], came[-_STEPS_MAX:])

    def corrected(self, forecast: float) -> float:
        """The forecast of the least expected relative error where `forecast` is what a method says."""
        import numpy

        if len(self.came) < _STEPS_MIN:
            return forecast
        ratios, weights = self._near(forecast)
        return forecast * least_relative_error(numpy.append(ratios, 1.0), numpy.append(weights, _TRUST))

    def interval(self, forecast: float, coverage: float) -> tuple[float, float]:
        """Low and high: what comes lies between them with a probability of about `coverage`."""
        if len(self.came) < _STEPS_MIN:
            known = [*self.came, forecast]
            return min(known) / _GUESS, max(known) * _GUESS
        ratios, weights = self._near(forecast)
        # As many as these weigh: what comes is one more, of which nothing is known yet.
        count = float(weights.sum() ** 2 / (weights**2).sum())
        part = min((1 - coverage) / 2 * max(1 - 2 / (count + 1), 0.0), 0.5)
        low, high = quantile(ratios, weights, part), -quantile(-ratios, weights, part)
        return forecast * min(low, 1.0), forecast * max(high, 1.0)

    def _near(self, forecast: float) -> tuple["Array", "Array"]:
        """Ratios of what came to what was forecast, and what each weighs."""
        import numpy

        forecasts, came = numpy.array(self.forecasts), numpy.array(self.came)
        forecast = max(forecast, RATE_LEAST)
        ages = numpy.arange(len(came) - 1, -1, -1)
        distances = numpy.abs(numpy.log(forecasts / forecast)) / _NEAR
        # Where nothing like it was forecast yet, the nearest count.
        weights = _DISCOUNT**ages * numpy.exp(distances.min() - distances)
        return numpy.asarray(came / forecasts), numpy.asarray(weights)
