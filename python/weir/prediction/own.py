"""A forecaster of one's own for the files of the next run: a plug-in of the kind `forecaster`."""

from collections.abc import Sequence
from functools import cached_property

from weir.plugins.forecaster import CheckedForecaster
from weir.plugins.plugin import Plugin
from weir.prediction.context import Context
from weir.prediction.forecasters import Arima
from weir.prediction.laws import Observation


class Own(Arima):
    """Forecasts bytes and counts by a plug-in, from run to run and from step to step; counters begin as by `Arima`.

    The series are those of `Arima`: of each writer, with runs and steps counted 0, 1, 2.
    """

    def __init__(self, plugin: Plugin) -> None:
        """Begin with a plug-in, which is made when the first series comes."""
        self._plugin = plugin

    @cached_property
    def _forecaster(self) -> CheckedForecaster:
        return CheckedForecaster(self._plugin)

    def quantity(
        self, seen: Sequence[Observation], coming: Context, *, is_shared: bool = False, is_count: bool = False
    ) -> float:
        """See `Forecaster`."""
        values = [one.value / (one.context.ranks if is_shared else 1) for one in seen]
        return self.series(values, 1)[0] * (coming.ranks if is_shared else 1)

    def series(self, values: Sequence[float], count: int) -> list[float]:
        """See `Forecaster`."""
        import numpy

        found = self._forecaster.fit(numpy.arange(len(values), dtype=float), numpy.array(values, dtype=float))
        if found is None:
            # Before a forecaster has enough values, the last one is the best forecast.
            return [values[-1]] * count
        return [max(found(float(len(values) + step)), 0.0) for step in range(count)]
