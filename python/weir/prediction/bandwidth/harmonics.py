"""Sines of any frequency, fitted by least squares to steps at any times."""

import numpy

from weir.prediction.bandwidth.history import Array, Steps
from weir.prediction.bandwidth.method import Method, Prediction
from weir.prediction.bandwidth.refit import Refit

_STEPS_MIN = 12
_SINES_MAX = 8
_STEPS_MAX = 96
_OVERSAMPLING = 4
"""Frequencies tried for each that the time span distinguishes."""
_FREQUENCIES_MAX = 1000
"""Most frequencies tried: a pause of weeks between steps must not cost time or memory."""
_RIDGE = 0.5
"""Assumed steps of amplitude 0."""


class Harmonics(Method):
    """Sines added one by one, each with the frequency that explains most of the residual (Lomb and Scargle's way).

    After each sine all amplitudes are fitted again. The Bayesian criterion decides the number of sines. Frequencies end
    at half of the usual sampling rate.
    """

    name = "harmonics"

    def __init__(self) -> None:
        """Begin without frequencies."""
        self._refit = Refit()
        self._frequencies: list[float] = []

    def fit(self, steps: Steps) -> Prediction | None:
        """See `Method`."""
        times, values = steps.times[-_STEPS_MAX:], steps.values[-_STEPS_MAX:]
        if len(values) < _STEPS_MIN:
            return None
        mean = float(values.mean())
        since = times - times[-1]
        if self._refit.is_due(steps):
            with self._refit.timed():
                self._frequencies = _chosen(since, values - mean, steps.spacing_seconds)
        frequencies = list(self._frequencies)
        if not frequencies:
            return lambda time: mean
        amplitudes = _amplitudes(since, values - mean, frequencies)
        newest, least, most = float(times[-1]), float(values.min()), float(values.max())

        def predict(time: float) -> float:
            there = float((_columns(numpy.array([time - newest]), frequencies) @ amplitudes)[0])
            return min(max(mean + there, least), most)

        return predict


def _chosen(times: Array, values: Array, spacing_seconds: float) -> list[float]:
    """Frequencies in hertz, found one by one."""
    count = len(values)
    span = float(times[-1] - times[0])
    largest = max(0.5 / spacing_seconds, 2 / span)
    trial = numpy.arange(1 / span, largest, max(1 / (_OVERSAMPLING * span), largest / _FREQUENCIES_MAX))
    angles = 2 * numpy.pi * numpy.outer(trial, times)
    cosines, sines = numpy.cos(angles), numpy.sin(angles)
    chosen: list[float] = []
    kept: list[float] = []
    left = values
    best = count * numpy.log(float((values**2).mean()) + 1e-18)
    for _ in range(min(_SINES_MAX, count // 6)):
        chosen.append(float(trial[int(((cosines @ left) ** 2 + (sines @ left) ** 2).argmax())]))
        left = values - _columns(times, chosen) @ _amplitudes(times, values, chosen)
        criterion = count * numpy.log(float((left**2).mean()) + 1e-18) + 3 * len(chosen) * numpy.log(count)
        if criterion < best:
            best, kept = criterion, list(chosen)
    return kept


def _columns(times: Array, frequencies: list[float]) -> Array:
    angles = 2 * numpy.pi * numpy.outer(times, frequencies)
    return numpy.concatenate([numpy.cos(angles), numpy.sin(angles)], axis=1)


def _amplitudes(times: Array, values: Array, frequencies: list[float]) -> Array:
    columns = _columns(times, frequencies)
    return numpy.asarray(
        numpy.linalg.solve(columns.T @ columns + _RIDGE * numpy.eye(columns.shape[1]), columns.T @ values)
    )
