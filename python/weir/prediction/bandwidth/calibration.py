"""Calibration: the errors of similar forecasts in the past, and their spread to each side.

The ratios of real values to forecasts are kept. Ratios of similar forecasts count most, and recent ratios more than
old ones. The quantiles of the ratios are the interval, as in conformal prediction, and correct a bias.
"""

from dataclasses import dataclass

import numpy

from weir.prediction.bandwidth.history import RATE_LEAST, Array
from weir.prediction.bandwidth.relative_error import least_relative_error, quantile

_STEPS_MIN = 8
_STEPS_MAX = 192
_DISCOUNT = 0.98
"""Factor of a forecast's weight for each newer forecast."""
_NEAR = 0.05
"""Distance of two similar forecasts, as a logarithm."""
_TRUST = 2.0
"""Exactly right forecasts assumed in advance, so that few forecasts do not make a correction."""
_GUESS = 2.0
"""Factor of the interval to each side before any forecast."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """Pairs of a forecast and the real value, the oldest first."""

    forecasts: tuple[float, ...] = ()
    """Forecasts, the oldest first."""
    came: tuple[float, ...] = ()
    """The real value behind each forecast."""

    def after(self, forecast: float, value: float) -> "Calibration":
        """Add a pair.

        Args:
            value: The real value.
        """
        forecasts, came = (*self.forecasts, max(forecast, RATE_LEAST)), (*self.came, value)
        return Calibration(forecasts[-_STEPS_MAX:], came[-_STEPS_MAX:])

    def corrected(self, forecast: float) -> float:
        """Correct the bias of a method.

        Args:
            forecast: The method's forecast.

        Returns:
            The forecast of the least expected relative error.
        """
        if len(self.came) < _STEPS_MIN:
            return forecast
        ratios, weights = self._near(forecast)
        return forecast * least_relative_error(numpy.append(ratios, 1.0), numpy.append(weights, _TRUST))

    def interval(self, forecast: float, coverage: float) -> tuple[float, float]:
        """Compute the interval of a forecast.

        Args:
            coverage: Probability that the next value lies in the interval.

        Returns:
            Lower and upper end, in the unit of the forecast.
        """
        if len(self.came) < _STEPS_MIN:
            known = [*self.came, forecast]
            return min(known) / _GUESS, max(known) * _GUESS
        ratios, weights = self._near(forecast)
        # The effective number of ratios. The next ratio is one more, and nothing is known of it yet.
        count = float(weights.sum() ** 2 / (weights**2).sum())
        part = min((1 - coverage) / 2 * max(1 - 2 / (count + 1), 0.0), 0.5)
        low, high = quantile(ratios, weights, part), -quantile(-ratios, weights, part)
        return forecast * min(low, 1.0), forecast * max(high, 1.0)

    def _near(self, forecast: float) -> tuple[Array, Array]:
        """Ratios of real values to forecasts, and their weights."""
        forecasts, came = numpy.array(self.forecasts), numpy.array(self.came)
        forecast = max(forecast, RATE_LEAST)
        ages = numpy.arange(len(came) - 1, -1, -1)
        distances = numpy.abs(numpy.log(forecasts / forecast)) / _NEAR
        # Without any similar forecast, the nearest ones count.
        weights = _DISCOUNT**ages * numpy.exp(distances.min() - distances)
        return numpy.asarray(came / forecasts), numpy.asarray(weights)
