"""Search for periods of a series: it is folded at each period, and the common part of its phases is measured.

This is epoch folding, as astronomers look for pulsars: unlike a sine it sees a short pulse in a long period, and it
takes steps at any times.
"""

import numpy

from weir.prediction.bandwidth.history import Array

_BINS = (8, 16)
"""Numbers of phases: for pulses of an eighth and a sixteenth of the period."""
_BIN_DOUBT = 1.0
"""Assumed steps of value 0 in each phase."""
_PERIODS_MAX = 4000
"""Most periods tried, which bounds a forecast's time and memory."""


def trial_periods(times: Array, spacing_seconds: float, *, longest_steps: float, is_even: bool) -> Array:
    """Choose the periods to try, so close that a pulse stays within its phase over the whole time.

    Even steps cannot tell a period below two spacings from a longer one; uneven ones can, down to half a spacing.

    Args:
        times: Times of the steps in seconds, ascending, of shape (steps,).
        spacing_seconds: Usual time between two steps.
        longest_steps: Longest period, in spacings.
        is_even: Whether the steps are even.

    Returns:
        Periods in seconds, falling, of shape (periods,); empty where the steps are too few.
    """
    span = float(times[-1] - times[0])
    longest = min(span / 2.5, longest_steps * spacing_seconds)
    shortest = spacing_seconds * (2.02 if is_even else 0.5)
    if longest <= shortest:
        return numpy.empty(0)
    step = max(0.12 / span, (1 / shortest - 1 / longest) / _PERIODS_MAX)
    return 1 / numpy.arange(1 / longest, 1 / shortest, step)


def explained(times: Array, values: Array, periods: Array) -> Array:
    """Measure how well each period explains a series, by generalised cross-validation.

    Args:
        times: Times of the steps in seconds, of shape (steps,).
        values: Values with mean 0, of shape (steps,).
        periods: Periods in seconds, of shape (periods,).

    Returns:
        Score of each period, of shape (periods,); a larger one is better.
    """
    count = len(values)
    phases = (times[None, :] / periods[:, None]) % 1.0
    rows = numpy.arange(len(periods))[:, None]
    total = float(values @ values) + 1e-18
    weights = numpy.broadcast_to(values, phases.shape).ravel()
    best = numpy.full(len(periods), -numpy.inf)
    for bins in _BINS:
        for offset in (0.0, 0.5 / bins):
            numbers = numpy.minimum((((phases + offset) % 1.0) * bins).astype(numpy.int64), bins - 1)
            places = (numbers + rows * bins).ravel()
            size = len(periods) * bins
            counts = numpy.bincount(places, minlength=size).reshape(-1, bins)
            sums = numpy.bincount(places, weights, size).reshape(-1, bins)
            left = numpy.maximum(total - (sums**2 / (counts + _BIN_DOUBT)).sum(axis=1), 1e-9 * total)
            free = numpy.maximum(count - (counts / (counts + _BIN_DOUBT)).sum(axis=1), 1.0)
            best = numpy.maximum(best, 2 * numpy.log(free) - numpy.log(left))
    return best


def peaks(scores: Array, periods: Array, count: int) -> list[float]:
    """Choose the best periods, none of them within 1 % of a better one.

    Args:
        scores: Score of each period, of shape (periods,).
        periods: Periods in seconds, of shape (periods,).
        count: Most periods to choose.

    Returns:
        The periods in seconds, the best first.
    """
    chosen: list[float] = []
    for place in numpy.argsort(-scores):
        period = float(periods[place])
        if all(abs(period - other) > 0.01 * other for other in chosen):
            chosen.append(period)
            if len(chosen) == count:
                break
    return chosen
