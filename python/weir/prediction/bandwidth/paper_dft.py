"""The interference paper's forecast: a thresholded Fourier transform of a window (its section III-C)."""

import math

import numpy

from weir.prediction.bandwidth.history import Array, Steps
from weir.prediction.bandwidth.method import Method, Prediction

_STEPS_MIN = 4


class PaperDft(Method):
    """The transform of the last N steps without its small amplitudes, and back: the window then repeats itself.

    Steps without I/O take their predicted value. Steps are assumed to be even, as in the paper. A forecast for a time
    several usual steps ahead goes that far into the repeated window.

    A known limit: a period that does not divide the window's length leaks into all frequencies.
    """

    name = "paper-dft"

    def __init__(self, window: int, threshold: float) -> None:
        """See `weir.prediction.bandwidth.make`."""
        self._window = window
        self._threshold = threshold
        self._predicted: dict[float, float] = {}
        """Predicted values of steps without I/O, by their times."""

    def fit(self, steps: Steps) -> Prediction | None:
        """See `Method`."""
        values = self._filled(steps)
        if len(values) < _STEPS_MIN:
            return None
        window = values[-self._window :]
        repeated, least = self._repeated(window), float(window.min())
        return lambda time: max(float(repeated[(steps.steps_until(time) - 1) % len(repeated)]), least)

    def _filled(self, steps: Steps) -> Array:
        times, values = steps.all_times, steps.all_values.copy()
        self._predicted = {time: value for time, value in self._predicted.items() if time >= times[0]}
        for place in numpy.flatnonzero(numpy.isnan(values)):
            time = float(times[place])
            if time not in self._predicted and place:
                self._predicted[time] = float(self._repeated(values[max(place - self._window, 0) : place])[0])
            values[place] = self._predicted.get(time, math.nan)
        return values[~numpy.isnan(values)]

    def _repeated(self, window: Array) -> Array:
        """The window without its small amplitudes, which is also the forecast of the next window."""
        window = window[~numpy.isnan(window)]
        if not len(window):
            return numpy.array([math.nan])
        spectrum = numpy.fft.rfft(window)
        amplitudes = numpy.abs(spectrum[1:])
        if len(amplitudes):
            spectrum[1:][amplitudes < self._threshold * amplitudes.max()] = 0
        return numpy.asarray(numpy.fft.irfft(spectrum, len(window)))
