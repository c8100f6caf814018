"""The interference paper's forecast: a thresholded Fourier transform of a window (its section III-C)."""

import math
from typing import TYPE_CHECKING

from weir.prediction.bandwidth.history import Steps
from weir.prediction.bandwidth.method import Method

if TYPE_CHECKING:
    from weir.prediction.bandwidth.history import Array

_STEPS_MIN = 4


class PaperDft(Method):
    """The transform of the last N steps without its small amplitudes, and back: the window then repeats itself.

    Steps without I/O take the value that was predicted for them. Steps are taken for even, as in the paper; where a
    forecast is for a time several usual steps ahead it goes that far into the repeated window.

    What this cannot do is known: a period that does not divide the window's length leaks into all frequencies.
    """

    name = "paper-dft"

    def __init__(self, window: int, threshold: float) -> None:
        """See `weir.prediction.bandwidth.make`."""
        self._window = window
        self._threshold = threshold
        self._predicted: dict[float, float] = {}
        """What steps without I/O took, by their times."""

    def predict(self, steps: Steps, time: float) -> float | None:
        """See `Method`."""
        values = self._filled(steps)
        if len(values) < _STEPS_MIN:
            return None
        window = values[-self._window :]
        return max(self._repeated(window, steps.steps_until(time)), float(window.min()))

    def _filled(self, steps: Steps) -> "Array":
        import numpy

        times, values = steps.all_times, steps.all_values.copy()
        self._predicted = {time: value for time, value in self._predicted.items() if time >= times[0]}
        for place in numpy.flatnonzero(numpy.isnan(values)):
            time = float(times[place])
            if time not in self._predicted and place:
                self._predicted[time] = self._repeated(values[max(place - self._window, 0) : place], 1)
            values[place] = self._predicted.get(time, math.nan)
        return values[~numpy.isnan(values)]

    def _repeated(self, window: "Array", ahead: int) -> float:
        """The window without its small amplitudes, so many steps after its end."""
        import numpy

        window = window[~numpy.isnan(window)]
        if not len(window):
            return math.nan
        spectrum = numpy.fft.rfft(window)
        amplitudes = numpy.abs(spectrum[1:])
        if len(amplitudes):
            spectrum[1:][amplitudes < self._threshold * amplitudes.max()] = 0
        return float(numpy.fft.irfft(spectrum, len(window))[(ahead - 1) % len(window)])
