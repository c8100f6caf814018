"""Amounts to read without a tuned plot: solved from a time budget, or from an accepted variance."""

import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from weir.adaptive.errors import AdaptiveError

if TYPE_CHECKING:
    from weir.prediction.bandwidth import Forecast

_OVERRUN = 2.0
"""Multiple of its budget after which a read under way is given up, unless the budget names a time."""
_WINDOW_STEPS = 192
"""Steps in an estimate of the variance: with fewer, the solution wavers so much that it adds to the variance."""
_STEPS_MIN = 4
"""Least steps for an estimate: fewer tell less of the variance than the forecast's interval does."""
_INTERVAL_DEVIATIONS = 2 * 1.2816
"""Standard deviations between the ends of an interval that holds four of five values."""
_SPREAD_MIN = 0.02
"""Least relative deviation assumed of a forecast."""
_HALVINGS = 30
"""Steps of the bisection, which ends within a billionth: far closer than a variance is known."""


@dataclass(frozen=True, kw_only=True)
class Budget:
    """The allowed cost of a step's augmentation: one of `seconds` and `variance`.

    Attributes:
        seconds: Time to read the augmentation. No read begins later, so a wrong forecast costs little.
        seconds_max: Time in seconds after which reads under way are given up; by default twice `seconds`.
        variance: Variance of the reading time over the steps, in seconds squared.
        caution: Part of the way from the forecast bandwidth (0) to the lower end of its interval (1) that a plan goes.
    """

    seconds: float | None = None
    seconds_max: float | None = None
    variance: float | None = None
    caution: float = 0.0

    def __post_init__(self) -> None:
        """Check the budget.

        Raises:
            AdaptiveError: Neither or both of `seconds` and `variance` are given, or a value is out of its range.
        """
        if (self.seconds is None) == (self.variance is None):
            raise AdaptiveError("a budget is either seconds or a variance", hint="give one of the two")
        amount = self.seconds if self.seconds is not None else self.variance
        if amount is None or not 0.0 < amount < math.inf:
            raise AdaptiveError(f"a budget of {amount} cannot be kept", hint="it is a positive number")
        if self.seconds_max is not None and not (self.seconds is not None and self.seconds_max >= self.seconds):
            raise AdaptiveError(f"reads cannot end after {self.seconds_max:g} s", hint="seconds_max is seconds or more")
        if not 0.0 <= self.caution <= 1.0:
            raise AdaptiveError(f"a caution of {self.caution:g} is not between 0 and 1")

    @property
    def limits(self) -> tuple[float, float]:
        """Seconds after which no read begins, and seconds after which reads under way are given up; infinite for a
        variance.
        """
        if self.seconds is None:
            return math.inf, math.inf
        return self.seconds, self.seconds_max if self.seconds_max is not None else _OVERRUN * self.seconds


@dataclass(frozen=True, slots=True)
class _Past:
    bandwidth: float
    """Bandwidth of the plan, in bytes per second."""
    ratio: float
    """Ratio of a read's seconds to its planned seconds."""


class Solver:
    """Solves for the amounts to read from one tier, by the tier's own past."""

    def __init__(self, budget: Budget) -> None:
        """Begin without a past.

        Args:
            budget: The budget of each step.
        """
        self.budget = budget
        self._past: deque[_Past] = deque(maxlen=_WINDOW_STEPS)

    def amount(self, forecast: "Forecast", available_bytes: int) -> int:
        """Choose the amount of the next step.

        Args:
            forecast: Forecast of the tier's bandwidth, in bytes per second.
            available_bytes: Useful bytes on the tier.

        Returns:
            Bytes to read, at most `available_bytes`.
        """
        wanted = self.seconds(forecast, available_bytes) * self._planned(forecast)
        return int(min(max(wanted, 0.0), available_bytes))

    def seconds(self, forecast: "Forecast", available_bytes: int) -> float:
        """Choose the time budget of the next step.

        Args:
            forecast: Forecast of the tier's bandwidth, in bytes per second.
            available_bytes: Useful bytes on the tier.

        Returns:
            The given time in seconds, or the longest time with an accepted variance.
        """
        if self.budget.seconds is not None:
            return self.budget.seconds
        assert self.budget.variance is not None
        if len(self._past) < _STEPS_MIN:
            return math.sqrt(self.budget.variance) / _relative_spread(forecast)
        past = list(self._past)

        def times(seconds: float) -> list[float]:
            return [min(seconds, available_bytes / step.bandwidth) * step.ratio for step in past]

        longest = max(available_bytes / step.bandwidth for step in past)
        return _largest(longest, lambda seconds: _variance(times(seconds)), self.budget.variance)

    def record(self, forecast: "Forecast | None", read_bytes: int, seconds: float) -> None:
        """Learn from a step.

        Args:
            forecast: Forecast by which the step was planned; None where there was none.
            read_bytes: Bytes that were read; 0 where the tier was left alone, from which nothing is learned.
            seconds: Time of the reads.
        """
        if forecast is None or not read_bytes or seconds <= 0.0:
            return
        bandwidth = self._planned(forecast)
        if bandwidth > 0.0:
            self._past.append(_Past(bandwidth, seconds * bandwidth / read_bytes))

    def _planned(self, forecast: "Forecast") -> float:
        low = min(max(forecast.low, 0.0), forecast.value) if math.isfinite(forecast.low) else forecast.value
        return max(forecast.value - self.budget.caution * (forecast.value - low), 0.0)


def _variance(values: list[float]) -> float:
    # `statistics.pvariance` is exact, and a thousand times slower.
    mean = math.fsum(values) / len(values)
    return math.fsum((value - mean) ** 2 for value in values) / len(values)


def _relative_spread(forecast: "Forecast") -> float:
    """Standard deviation of 1 / bandwidth, relative to its mean, for a log-normal bandwidth with this interval."""
    low, high = max(forecast.low, forecast.value * 1e-3), max(forecast.high, forecast.value)
    if not (math.isfinite(low) and math.isfinite(high) and 0.0 < low < high):
        return _SPREAD_MIN
    deviation = math.log(high / low) / _INTERVAL_DEVIATIONS
    return max(math.sqrt(math.expm1(deviation * deviation)), _SPREAD_MIN)


def _largest(limit: float, cost: Callable[[float], float], accepted: float) -> float:
    """The largest argument up to `limit` with an accepted cost. The cost grows with its argument, from 0 at 0."""
    if cost(limit) <= accepted:
        return limit
    below, above = 0.0, limit
    for _ in range(_HALVINGS):
        middle = (below + above) / 2
        if cost(middle) <= accepted:
            below = middle
        else:
            above = middle
    return below
