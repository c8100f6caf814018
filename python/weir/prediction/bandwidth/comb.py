"""Several periodic disturbances at once, each of any shape and any period.

A device that is shared fairly gives 1/(1 + n) of itself where n others are busy, so disturbances add up in the inverse
of the bandwidth, and each is a comb there: pulses, one a period. A sum of combs is a Gaussian process whose covariance
is a sum of periodic kernels. The periods are found one by one, each by folding the residual of the others, and kept if
the period lowers the error on steps left out of the fit.
"""

import numpy

from weir.prediction.bandwidth.folding import explained, peaks, trial_periods
from weir.prediction.bandwidth.history import Array, Steps
from weir.prediction.bandwidth.inverse import inverse_of
from weir.prediction.bandwidth.method import Method, Prediction
from weir.prediction.bandwidth.refit import Refit
from weir.prediction.bandwidth.relative_error import least_relative_error

_STEPS_MIN = 12
_COMBS_MAX = 5
_CANDIDATES = 4
_NUDGES = (-0.08, -0.04, 0.04, 0.08)
"""Shifts of the best candidate, as parts of the shift that moves the last pulse by a whole period."""
_GAIN_MIN = 0.06
"""A further comb lowers the mean square error by this part at least."""
_SEARCH = (0.12, 0.15)
"""Shape of the combs while periods are looked for; see `_SHAPES`."""
_SHAPES = tuple((pulse, noise) for pulse in (0.05, 0.12, 0.25) for noise in (0.05, 0.15, 0.5))
"""Pairs: the correlation length of a pulse, as a part of the period, and the variance that a comb leaves unexplained.
The pair with the least error on steps left out of the fit is taken."""
_LONGEST_STEPS = 16.0
"""Longest period, in steps; longer ones are seasons (see seasonal.py)."""
_QUANTILE_IDLE = 0.95
"""Quantile of the steps' bandwidths that is the bandwidth of an idle device."""
_UNEVEN = 0.05
"""Variation of spacings above which steps distinguish periods that even spacings confuse."""


class Comb(Method):
    """Forecasts by a sum of combs, each of one period."""

    name = "comb"

    def __init__(self, memory_steps: int) -> None:
        """Begin without periods.

        Args:
            memory_steps: Number of last steps with I/O that a fit uses.
        """
        self._memory = memory_steps
        self._periods: list[float] = []
        self._shape = _SEARCH
        self._refit = Refit()

    @property
    def periods_seconds(self) -> list[float]:
        """Periods of the last fit in seconds, the most significant first."""
        return list(self._periods)

    def fit(self, steps: Steps) -> Prediction | None:
        """See `Method`."""
        # Times count from the newest step: the rounding of a large origin would move pulses.
        times, values = steps.times[-self._memory :] - steps.times[-1], steps.values[-self._memory :]
        if len(values) < _STEPS_MIN:
            return None
        idle = float(numpy.quantile(values, _QUANTILE_IDLE))
        load = idle / values - 1
        centred = load - load.mean()
        newest, last = float(steps.times[-1]), float(values[-1])
        if float(centred @ centred) < 1e-12 * len(values):
            return lambda time: last
        self._find(times, centred, steps)
        periods, pulse = list(self._periods), self._shape[0]
        left, weights = _fit(times, centred, periods, self._shape)
        usual, least = load.mean() + left, float(load.min())

        def predict(time: float) -> float:
            ahead = float(_covariance(time - newest - times, periods, pulse) @ weights)
            return least_relative_error(idle / (1 + numpy.maximum(usual + ahead, least)))

        return predict

    def _find(self, times: Array, load: Array, steps: Steps) -> None:
        if self._refit.is_due(steps):
            with self._refit.timed():
                self._search(times, load, steps)

    def _search(self, times: Array, load: Array, steps: Steps) -> None:
        spacings = numpy.diff(steps.all_times)
        # A missing step is two even ones.
        is_even = float(numpy.abs(spacings / steps.spacing_seconds - 1).mean()) < _UNEVEN
        trial = trial_periods(times, steps.spacing_seconds, longest_steps=_LONGEST_STEPS, is_even=is_even)
        self._periods = _chosen(times, load, trial) if len(trial) else []
        self._shape = min(_SHAPES, key=lambda shape: _square(_fit(times, load, self._periods, shape)[0]))


def _chosen(times: Array, load: Array, trial: Array) -> list[float]:
    """Find periods one by one."""
    span = float(times[-1] - times[0])
    chosen: list[float] = []
    left = load
    error = _square(load)
    for _ in range(_COMBS_MAX):
        candidates = peaks(explained(times, left, trial), trial, _CANDIDATES)
        found = min(_with(times, load, chosen, candidate) for candidate in candidates)
        nudged = [found[1] * (1 + nudge * found[1] / span) for nudge in _NUDGES]
        found = min(found, *(_with(times, load, chosen, period) for period in nudged))
        if found[0] > (1 - _GAIN_MIN) * error:
            break
        error = found[0]
        chosen.append(found[1])
        left, _ = _fit(times, load, chosen, _SEARCH)
        left = left - left.mean()
    return chosen


def _with(times: Array, load: Array, chosen: list[float], period: float) -> tuple[float, float]:
    """The mean square error with `period` beside the chosen periods, and the period."""
    return _square(_fit(times, load, [*chosen, period], _SEARCH)[0]), period


def _square(values: Array) -> float:
    return float((values**2).mean())


def _fit(times: Array, load: Array, periods: list[float], shape: tuple[float, float]) -> tuple[Array, Array]:
    """The error of each step in a fit to all other steps, and the weights of each step's pulses in the fit to all."""
    if not periods:
        return load, numpy.zeros_like(load)
    pulse, noise = shape
    covariance = _covariance(numpy.abs(times[:, None] - times[None, :]), periods, pulse)
    covariance[numpy.diag_indices(len(times))] += noise * len(periods)
    inverse = inverse_of(covariance)
    weights = inverse @ load
    return weights / inverse.diagonal(), weights


def _covariance(distances: Array, periods: list[float], pulse: float) -> Array:
    total = numpy.zeros_like(distances)
    for period in periods:
        phases = distances / period
        phases -= numpy.rint(phases)
        total += numpy.exp(numpy.abs(phases) / -pulse)
    return total
