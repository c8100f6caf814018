"""One method as a forecaster."""

from dataclasses import dataclass

from weir.prediction.bandwidth.calibration import Calibration
from weir.prediction.bandwidth.forecast import Forecast
from weir.prediction.bandwidth.history import History, Steps
from weir.prediction.bandwidth.learner import Learner
from weir.prediction.bandwidth.method import Method, Prediction
from weir.prediction.bandwidth.nyquist import Sampling


@dataclass(frozen=True, slots=True)
class SingleOutlook:
    """One method's forecast after some steps. See `Outlook`."""

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
        """Forecast without an interval.

        Args:
            time: Time of a step in seconds, after the last step.

        Returns:
            The forecast, in the unit of the observations.

        Raises:
            ValueError: The time is not after the last step.
        """
        self.steps.refuse(time)
        # Before a method has enough steps, the last value is its best forecast.
        return float(self.steps.values[-1]) if self.prediction is None else max(self.prediction(time), 0.0)


class Single(Learner[SingleOutlook]):
    """Forecasts by one method, uncorrected; the interval comes from its past errors. See `Forecaster`."""

    def __init__(self, method: Method, *, history: History, sampling: Sampling, coverage: float) -> None:
        """See `weir.prediction.bandwidth.make`."""
        super().__init__(history)
        self._method = method
        self._sampling = sampling
        self._coverage = coverage
        self._calibration = Calibration()

    def _judge(self, before: SingleOutlook, time: float, value: float) -> None:
        self._calibration = self._calibration.after(before.expected(time), value)

    def _fitted(self, steps: Steps) -> SingleOutlook:
        warning = self._sampling.warning(steps)
        fitted = self._method.fit(steps)
        return SingleOutlook(self._method.name, steps, fitted, self._calibration, self._coverage, warning)
