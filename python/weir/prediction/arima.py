"""Forecasts of one series by an autoregressive integrated moving average (Box and Jenkins; the paper's section 5.5.1).

A constant series, and a series that is constant after one or two differences or a season, is a model without noise:
ARIMA(0,0,0), (0,1,0) and (0,2,0) with drift, or (0,0,0)(0,1,0)s. These models are solved here. For any other series the
order is chosen by the corrected Akaike criterion and fitted by statsmodels, which is imported only then.
"""

import math
import warnings
from collections.abc import Sequence
from itertools import pairwise

_LENGTH_MIN = 8
"""With fewer values no order can be chosen, and the last value is the forecast."""
_LENGTH_MAX = 256
"""Older values do not change a forecast of so low an order, but take time."""
_ORDERS = (((0, 1, 0), "t"), ((1, 0, 0), "c"), ((0, 1, 1), "n"), ((1, 1, 0), "t"))
"""Orders (p, d, q) and their trend: a constant, a drift, or none."""
_SAME = 1e-9
"""Relative difference up to which two values count as one."""


def forecast(values: Sequence[float], count: int) -> list[float]:
    """Forecast the next values of a series.

    Args:
        values: The series, oldest first, of one value at least.
        count: Number of values to forecast.

    Returns:
        The next values, in the unit of the series.
    """
    if count < 1:
        return []
    exact = _without_noise(values, count)
    if exact is not None:
        return exact
    if len(values) < _LENGTH_MIN:
        return [values[-1]] * count
    return _fitted(values[-_LENGTH_MAX:], count)


def _without_noise(values: Sequence[float], count: int) -> list[float] | None:
    scale = max(abs(value) for value in values) or 1.0
    if _is_constant(values, scale):
        return [values[-1]] * count
    first = _differences(values)
    if len(first) >= 2 and _is_constant(first, scale):
        return [values[-1] + first[-1] * (step + 1) for step in range(count)]
    second = _differences(first)
    if len(second) >= 3 and _is_constant(second, scale):
        answer, value, slope = [], values[-1], first[-1]
        for _ in range(count):
            slope += second[-1]
            value += slope
            answer.append(value)
        return answer
    for season in range(2, len(values) // 2 + 1):
        if _is_constant([values[at] - values[at - season] for at in range(season, len(values))], scale, to=0.0):
            return [values[len(values) - season + step % season] for step in range(count)]
    return None


def _is_constant(values: Sequence[float], scale: float, to: float | None = None) -> bool:
    goal = values[0] if to is None else to
    return all(abs(value - goal) <= _SAME * scale for value in values)


def _differences(values: Sequence[float]) -> list[float]:
    return [after - before for before, after in pairwise(values)]


def _fitted(values: Sequence[float], count: int) -> list[float]:
    import numpy
    from statsmodels.tsa.arima.model import ARIMA

    series = numpy.asarray(values, dtype=float)
    centre, scale = float(series.mean()), float(series.std()) or 1.0
    best, answer = math.inf, [values[-1]] * count
    for order, trend in _ORDERS:
        with warnings.catch_warnings():
            # statsmodels warns of starting values that it replaces itself and of fits that AICc then rejects.
            warnings.simplefilter("ignore")
            try:
                result = ARIMA((series - centre) / scale, order=order, trend=trend).fit()
            except (ValueError, ArithmeticError, numpy.linalg.LinAlgError):
                continue
        criterion = float(result.aicc)
        forecasts = [centre + scale * float(value) for value in result.forecast(count)]
        if math.isfinite(criterion) and criterion < best and all(math.isfinite(value) for value in forecasts):
            best, answer = criterion, forecasts
    return answer
