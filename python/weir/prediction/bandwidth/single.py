"""One method as a forecaster."""

from weir.prediction.bandwidth.calibration import Calibration
from weir.prediction.bandwidth.forecast import Forecast, NothingObservedError
from weir.prediction.bandwidth.history import History
from weir.prediction.bandwidth.method import Method
from weir.prediction.bandwidth.nyquist import Sampling


class Single:
    """Forecasts by one method, as it is; the interval is from how it did before. See `Forecaster`."""

    def __init__(self, method: Method, *, history: History, sampling: Sampling, coverage: float) -> None:
        """See `weir.prediction.bandwidth.make`."""
        self._method = method
        self._history = history
        self._sampling = sampling
        self._coverage = coverage
        self._calibration = Calibration()

    def observe(self, time: float, value: float | None) -> None:
        """See `Forecaster`."""
        if value is not None and self._history.steps is not None:
            self._history.refuse(time)
            expected = self._expected(time)
            self._history.append(time, value)
            self._calibration.record(expected, value)
        else:
            self._history.append(time, value)

    def forecast(self, time: float) -> Forecast:
        """See `Forecaster`."""
        self._history.refuse(time)
        value = self._expected(time)
        low, high = self._calibration.interval(value, self._coverage)
        return Forecast(value, low, high, self._method.name, self._sampling.warning(self._history.steps))

    def _expected(self, time: float) -> float:
        steps = self._history.steps
        if steps is None:
            raise NothingObservedError
        value = self._method.predict(steps, time)
        # Before a method knows enough there is nothing better to say for it than the last value.
        return float(steps.values[-1]) if value is None else value
