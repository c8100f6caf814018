"""Forecasts without a fit: the last value, the mean and the median."""

from weir.prediction.bandwidth.history import Steps
from weir.prediction.bandwidth.method import Method, Prediction


class LastValue(Method):
    """The bandwidth of the last step with I/O."""

    name = "last-value"

    def fit(self, steps: Steps) -> Prediction | None:
        """See `Method`."""
        return _always(float(steps.values[-1]))


class Mean(Method):
    """The mean of the window."""

    name = "mean"

    def __init__(self, window: int) -> None:
        """Choose a window.

        Args:
            window: Number of last steps with I/O in the mean.
        """
        self._window = window

    def fit(self, steps: Steps) -> Prediction | None:
        """See `Method`."""
        return _always(float(steps.values[-self._window :].mean()))


class Median(Method):
    """The median of the window."""

    name = "median"

    def __init__(self, window: int) -> None:
        """Choose a window.

        Args:
            window: Number of last steps with I/O in the median.
        """
        self._window = window

    def fit(self, steps: Steps) -> Prediction | None:
        """See `Method`."""
        import numpy

        return _always(float(numpy.median(steps.values[-self._window :])))


def _always(value: float) -> Prediction:
    return lambda time: value
