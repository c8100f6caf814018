"""Forecasts that take no fitting: what came last, and the middle of what came."""

from weir.prediction.bandwidth.history import Steps
from weir.prediction.bandwidth.method import Method


class LastValue(Method):
    """As the last step that did I/O."""

    name = "last-value"

    def predict(self, steps: Steps, time: float) -> float | None:
        """See `Method`."""
        return float(steps.values[-1])


class Mean(Method):
    """The mean of the window."""

    name = "mean"

    def __init__(self, window: int) -> None:
        """Of `window` steps that did I/O."""
        self._window = window

    def predict(self, steps: Steps, time: float) -> float | None:
        """See `Method`."""
        return float(steps.values[-self._window :].mean())


class Median(Method):
    """The median of the window."""

    name = "median"

    def __init__(self, window: int) -> None:
        """Of `window` steps that did I/O."""
        self._window = window

    def predict(self, steps: Steps, time: float) -> float | None:
        """See `Method`."""
        import numpy

        return float(numpy.median(steps.values[-self._window :]))
