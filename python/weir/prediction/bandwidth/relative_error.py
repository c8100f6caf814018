"""The relative error of a forecast, |forecast - value| / value (the paper's figure 15), and its best forecast."""

import numpy

from weir.prediction.bandwidth.history import Array

_FLOOR = 1e-3
"""Least value as a part of the forecast: a step that got nothing is no infinite error."""


def relative_error(forecast: float, value: float) -> float:
    """Compute the relative error of a forecast.

    Args:
        value: The real value.

    Returns:
        |forecast - value| / value, finite for every value.
    """
    return abs(forecast - value) / max(value, _FLOOR * abs(forecast), 1e-300)


def quantile(values: Array, weights: Array, part: float) -> float:
    """Compute a weighted quantile.

    Args:
        values: Values, of shape (values,).
        weights: Weight of each value, of the same shape.
        part: Part of the weight, from 0 to 1.

    Returns:
        The smallest of the values with at least this part of the weight at or below it.
    """
    order = numpy.argsort(values)
    sums = numpy.cumsum(weights[order])
    place = int(numpy.searchsorted(sums, part * sums[-1] * (1 - 1e-12)))
    return float(values[order][min(place, len(values) - 1)])


def least_relative_error(values: Array, weights: Array | None = None) -> float:
    """Find the forecast of the least expected relative error, if one of some values will be the next value.

    It is the median of the values, each weighed by its inverse: too high a forecast costs more than too low a one.

    Args:
        values: Possible values, of shape (values,).
        weights: Weight of each value, of the same shape; None weighs all alike.
    """
    inverse = 1 / numpy.maximum(values, _FLOOR * values.max())
    return quantile(values, inverse if weights is None else weights * inverse, 0.5)
