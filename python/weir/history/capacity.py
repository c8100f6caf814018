"""The trend of the room on targets, and the day on which each will be full if it goes on."""

from dataclasses import dataclass
from statistics import linear_regression

from weir.history.levels import DAY, HOUR, MINUTE
from weir.history.reading import Fill, History

LOOKED_BACK = 14 * DAY
"""Milliseconds before the moment that count."""
SPAN_MIN = HOUR
"""Milliseconds that must be known: a shorter time says nothing about days."""
_POINTS_MIN = 6
_AHEAD_DAYS_MAX = 3650
"""A target that is full later is not said to be full ever."""


@dataclass(frozen=True, slots=True)
class Trend:
    """The room on a target."""

    target: str
    used_bytes: int
    capacity_bytes: int
    bytes_per_day: float | None
    """Slope of the line of least squares through the bytes on the target; None where too little is known."""
    full_at: int | None
    """Unix time in milliseconds at which the line reaches the capacity; None where it does not within ten years."""


def trends(history: History, at: int) -> list[Trend]:
    """Find the trend of each target.

    Args:
        at: Unix time in milliseconds; what came later does not count.

    Returns:
        The trends, that of the target that is full first coming first.
    """
    first, _ = history.span() or (at, at)
    width = 10 * MINUTE if at - first > DAY else MINUTE
    by_target: dict[str, list[Fill]] = {}
    for fill in history.fills(at - LOOKED_BACK, at, width):
        by_target.setdefault(fill.device, []).append(fill)
    found = [_trend(target, fills, at) for target, fills in by_target.items()]
    return sorted(found, key=lambda each: (each.full_at is None, each.full_at or 0, each.target))


def _trend(target: str, fills: list[Fill], at: int) -> Trend:
    last = fills[-1]
    if len(fills) < _POINTS_MIN or last.begin - fills[0].begin < SPAN_MIN:
        return Trend(target, last.used_bytes, last.capacity_bytes, None, None)
    days = [(fill.begin - at) / DAY for fill in fills]
    slope, _ = linear_regression(days, [float(fill.used_bytes) for fill in fills])
    left = (last.capacity_bytes - last.used_bytes) / slope if slope > 0 else None
    is_near = left is not None and left <= _AHEAD_DAYS_MAX
    full_at = last.begin + round((left or 0.0) * DAY) if is_near else None
    return Trend(target, last.used_bytes, last.capacity_bytes, slope, full_at)
