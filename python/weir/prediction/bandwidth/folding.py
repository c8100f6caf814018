"""Search for periods of a series: it is folded at each period, and the common part of its phases is measured.

Epoch folding, as astronomers look for pulsars: unlike a sine it sees a short pulse in a long period, and it takes steps
at any times.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from weir.prediction.bandwidth.history import Array

_BINS = (8, 16)
"""Numbers of phases: for pulses of an eighth and a sixteenth of the period."""
_BIN_DOUBT = 1.0
"""Assumed steps of value 0 in each phase."""
_PERIODS_MAX = 4000
"""Most periods tried, which bounds a forecast's time and memory."""


def trial_periods(times: "Array", spacing_seconds: float, *, longest_steps: float, is_even: bool) -> "Array":
    """Periods in seconds, so close that a pulse stays within its phase over the whole time.

    Even steps cannot tell a period below two spacings from a longer one; uneven ones can, down to one half of it.
    """
    import numpy

    span = float(times[-1] - times[0])
    longest = min(span / 2.5, longest_steps * spacing_seconds)
    shortest = spacing_seconds * (2.02 if is_even else 0.5)
    if longest <= shortest:
        return numpy.empty(0)
    step = max(0.12 / span, (1 / shortest - 1 / longest) / _PERIODS_MAX)
    return 1 / numpy.arange(1 / longest, 1 / shortest, step)


def explained(times: "Array", values: "Array", periods: "Array") -> "Array":
    """How well each period explains `values`, whose mean is 0: larger is better, by generalised cross-validation."""
    import numpy

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


def peaks(scores: "Array", periods: "Array", count: int) -> list[float]:
    """The best periods, none of them within 1 % of a better one."""
    import numpy

    chosen: list[float] = []
    for place in numpy.argsort(-scores):
        period = float(periods[place])
        if all(abs(period - other) > 0.01 * other for other in chosen):
            chosen.append(period)
            if len(chosen) == count:
                break
    return chosen
