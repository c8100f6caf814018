"""Forecasters: the next values of a series, such as the bandwidths that an analysis perceived."""

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from weir.plugins.errors import wrong_answer
from weir.plugins.plugin import Plugin

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray

    Floats = NDArray[numpy.float64]

Prediction = Callable[[float], float]
"""The value at a time after the series."""


class Forecaster(Protocol):
    """Forecasts a series. It may keep results from fit to fit; each reader and each series has an object of its own."""

    def fit(self, times: "Floats", values: "Floats") -> Prediction | None:
        """Learn a series.

        Args:
            times: Times of the values in seconds, ascending, shape (values,). Runs of a program are counted 0, 1, 2.
            values: The values, at least 0, shape (values,), one at least; the oldest are left out of a long series.

        Returns:
            The prediction of the value at a time after the last one; None where the values are too few. It is called
            from other threads, and must not change.
        """


ForecasterLike = str | Callable[[], Forecaster]
"""The name of a forecaster, its place `module:attribute`, or a class or a function that makes one."""


class CheckedForecaster:
    """A forecaster whose faults name it, and whose values are finite. See `Forecaster`."""

    def __init__(self, plugin: Plugin) -> None:
        """Make the forecaster.

        Raises:
            PluginError: The plug-in cannot be loaded or made.
        """
        self.plugin = plugin
        self._made = plugin.make()

    def fit(self, times: "Floats", values: "Floats") -> Prediction | None:
        """See `Forecaster`.

        Raises:
            PluginError: The plug-in fails, or answers no function. The prediction raises it where the plug-in's fails,
                or answers no finite number.
        """
        # The plug-in gets arrays of its own: those of the history are shared with other methods.
        found = self.plugin.call("fit", self._made.fit, times.copy(), values.copy())
        if found is None:
            return None
        if not callable(found):
            raise wrong_answer(self.plugin, "fit", f"{found!r} is no function of a time, and not None")
        return lambda time: self._value(found, time)

    def _value(self, predict: Callable[[float], Any], time: float) -> float:
        found = self.plugin.call("the prediction", predict, time)
        try:
            value = float(found)
        except (TypeError, ValueError):
            value = math.nan
        if not math.isfinite(value):
            raise wrong_answer(self.plugin, "the prediction", f"{found!r} at {time:g} s is no finite number")
        return value
