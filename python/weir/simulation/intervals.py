"""Means over seeds, with the intervals in which the mean over all seeds lies."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

LEVEL = 0.95
"""Part of such intervals that hold the mean over all seeds."""
METHOD = "Student's t over seeds"
_PREFIXES = ("", "k", "M", "G", "T", "P", "E")
"""Decimal prefixes: each is a thousand times the one before."""
_PLAIN_MAX = 1e4
"""Numbers below it have no prefix."""
ROUNDING = 1e-12
"""Differences below this part of a figure, or below this part of 1, come from the rounding of sums alone."""


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean over seeds."""

    mean: float
    """Mean of the values."""
    low: float | None
    """Lower end of the interval; None with one value."""
    high: float | None
    """Upper end of the interval; None with one value."""


def spelled(found: Interval | None) -> str:
    """Spell a mean with the half width of its interval.

    Args:
        found: The mean; None where there is none.

    Returns:
        Text such as `1.316 ± 0.12`, `7.974 ± 0.31 G` with a decimal prefix for both, or a dash. Numbers that only the
        rounding of sums keeps from zero are zero.
    """
    if found is None:
        return "-"
    size = abs(found.mean)
    power = 0 if size < _PLAIN_MAX else min(int(math.log10(size) // 3), len(_PREFIXES) - 1)
    scale, prefix = 1000.0**power, f" {_PREFIXES[power]}".rstrip()
    mean = f"{_unless_rounding(found.mean, 1.0) / scale:.4g}"
    if found.high is None:
        return mean + prefix
    return f"{mean} ± {_unless_rounding(found.high - found.mean, size) / scale:.2g}{prefix}"


def rounded(found: Interval) -> tuple[float, float | None, float | None]:
    """Take the numbers of a mean for a table.

    Returns:
        The mean, and the lower and the upper end of its interval; zero where only the rounding of sums keeps them from
        zero.
    """
    ends = [None if end is None else _unless_rounding(end, 1.0) for end in (found.low, found.high)]
    return _unless_rounding(found.mean, 1.0), ends[0], ends[1]


def _unless_rounding(value: float, scale: float) -> float:
    return 0.0 if abs(value) <= ROUNDING * max(scale, 1.0) else value


def interval_of(values: Sequence[float]) -> Interval | None:
    """Estimate a mean.

    Args:
        values: One value for each seed.

    Returns:
        The mean with Student's t interval at `LEVEL`; None without values.
    """
    if not values:
        return None
    mean = math.fsum(values) / len(values)
    if len(values) == 1:
        return Interval(mean, None, None)
    from scipy import stats

    deviation = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1))
    half = float(stats.t.ppf((1 + LEVEL) / 2, len(values) - 1)) * deviation / math.sqrt(len(values))
    return Interval(mean, mean - half, mean + half)


def ratio_of(values: Sequence[float], references: Sequence[float]) -> Interval | None:
    """Estimate by which factor values differ from references of the same seeds.

    The interval is that of the mean logarithm of the ratios, so what all settings share in a seed cancels out.

    Args:
        values: One value for each seed.

    Returns:
        The geometric mean of the ratios with its interval; None without values, or where one of them is not positive.
    """
    if not values or any(value <= 0 for value in (*values, *references)):
        return None
    found = interval_of([math.log(value / reference) for value, reference in zip(values, references, strict=True)])
    if found is None or found.low is None or found.high is None:
        return found and Interval(math.exp(found.mean), None, None)
    return Interval(math.exp(found.mean), math.exp(found.low), math.exp(found.high))
