"""One method as a forecaster."""

from collections.abc import Sequence
from dataclasses import dataclass

from weir.prediction.bandwidth.calibration import Calibration
from weir.prediction.bandwidth.forecast import Forecast, NothingObservedError
from weir.prediction.bandwidth.history import History, Steps
from weir.prediction.bandwidth.method import Method, Prediction
from weir.prediction.bandwidth.nyquist import Sampling


@dataclass(frozen=True, slots=True)
class SingleOutlook:
    """What one method says of the time after some steps. See `Outlook`."""

    name: str
    steps: Steps
    prediction: Prediction | None
    calibration: Calibration
    coverage: float
    warning: str | None

    def forecast(self, time: float) -> Forecast:
        """See `Forecaster`."""
        value = self.expected(time)
        low, high = self.calibration.interval(value, self.coverage)
        return Forecast(value, low, high, self.name, self.warning)

    def expected(self, time: float) -> float:
        """The forecast alone."""
        self.steps.refuse(time)
        # Before a method knows enough there is nothing better to say for it than the last value.
        return float(self.steps.values[-1]) if self.prediction is None else self.prediction(time)


class Single:
    """Forecasts by one method, as it is; the interval is from how it did before. See `Forecaster`."""

    def __init__(self, method: Method, *, history: History, sampling: Sampling, coverage: float) -> None:
        """See `weir.prediction.bandwidth.make`."""
        self._method = method
        self._history = history
        self._sampling = sampling
        self._coverage = coverage
        self._calibration = Calibration()
        self._outlook: SingleOutlook | None = None

    @property
    def outlook(self) -> SingleOutlook | None:
        """See `Forecaster`."""
        return self._outlook

    def observe(self, time: float, value: float | None) -> None:
        """See `Forecaster`."""
        self.observe_all([(time, value)])

    def observe_all(self, steps: Sequence[tuple[float, float | None]]) -> None:
        """See `Forecaster`."""
        before = self._outlook
        try:
            for time, value in steps:
                self._history.append(time, value)
                if before is not None and value is not None:
                    self._calibration = self._calibration.after(before.expected(time), value)
        finally:
            self._fit()

    def _fit(self) -> None:
        steps = self._history.steps
        if steps is not None:
            warning = self._sampling.warning(steps)
            fitted = self._method.fit(steps)
            self._outlook = SingleOutlook(self._method.name, steps, fitted, self._calibration, self._coverage, warning)

    def forecast(self, time: float) -> Forecast:
        """See `Forecaster`."""
        self._history.refuse(time)
        if self._outlook is None:
            raise NothingObservedError
        return self._outlook.forecast(time)
