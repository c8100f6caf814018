"""All methods together, weighted by their recent accuracy."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from weir.prediction.bandwidth.calibration import Calibration
from weir.prediction.bandwidth.comb import Comb
from weir.prediction.bandwidth.forecast import Forecast
from weir.prediction.bandwidth.history import History, Steps
from weir.prediction.bandwidth.learner import Learner
from weir.prediction.bandwidth.method import Method, Prediction
from weir.prediction.bandwidth.nyquist import Sampling, is_foreseen, unexplained
from weir.prediction.bandwidth.relative_error import least_relative_error, relative_error
from weir.prediction.bandwidth.score import Score

_POWER = 10
"""Exponent of the scores: a method with twice another's score weighs 2 to this power less, which is nearly a choice,
but a mean of equal methods."""
_WEIGHT_MIN = 0.01
"""Least weight of a method, so that many poor methods do not add up."""


@dataclass(frozen=True, slots=True)
class OnlineOutlook:
    """The methods' forecasts after some steps, and the methods' weights. See `Outlook`."""

    steps: Steps
    predictions: Mapping[str, Prediction]
    scores: Mapping[str, float]
    calibration: Calibration
    coverage: float
    warning: str | None

    def forecast(self, time: float) -> Forecast:
        """See `Forecaster`."""
        said = self.said(time)
        together = self.together(said)
        low, high = self.calibration.interval(together, self.coverage)
        value = min(max(self.calibration.corrected(together), low), high)
        best = min(said, key=lambda name: self.scores[name])
        return Forecast(value, low, high, f"online ({best})", self.warning)

    def said(self, time: float) -> dict[str, float]:
        """Collect the forecasts of all methods with enough steps.

        Args:
            time: Time of a step in seconds, after the last step.

        Returns:
            The forecasts by the names of the methods, in the unit of the observations.

        Raises:
            ValueError: The time is not after the last step.
        """
        self.steps.refuse(time)
        said = {name: prediction(time) for name, prediction in self.predictions.items()}
        return {name: value for name, value in said.items() if value > 0}

    def together(self, said: Mapping[str, float]) -> float:
        """Weigh the forecasts of the methods.

        Args:
            said: Forecasts by the names of the methods.

        Returns:
            The common forecast.
        """
        least = min(self.scores[name] for name in said)
        weights = {name: (least / self.scores[name]) ** _POWER for name in said}
        limit = _WEIGHT_MIN * sum(weights.values())
        kept = {name: weight for name, weight in weights.items() if weight >= limit}
        return sum(kept.values()) / sum(weight / said[name] for name, weight in kept.items())


class Online(Learner[OnlineOutlook]):
    """Weighs methods by their discounted recent errors, and corrects their common forecast. See `Forecaster`.

    Every method forecasts every step, so each is scored on all steps. A method that is right after a change of
    regime takes over within a few steps. The inverses of bandwidths are averaged, as times are.
    """

    def __init__(self, methods: Sequence[Method], *, history: History, sampling: Sampling, coverage: float) -> None:
        """See `weir.prediction.bandwidth.make`; without a history no method forecasts."""
        super().__init__(history)
        self._methods = tuple(methods)
        self._sampling = sampling
        self._coverage = coverage
        self._scores = {method.name: Score() for method in methods}
        self._constant = Score()
        """Mean relative error of the best constant forecast: the reference for seeing a period."""
        self._calibration = Calibration()

    def said(self, time: float) -> dict[str, float]:
        """Collect the forecasts of all methods with enough steps.

        Args:
            time: Time of a step in seconds, after the last step.

        Returns:
            The forecasts by the names of the methods, in the unit of the observations.

        Raises:
            ValueError: Nothing was observed yet, or the time is not after the last step.
        """
        return self._known(time).said(time)

    def scores(self) -> dict[str, float]:
        """Tell the scores of the methods.

        Returns:
            Discounted mean relative error by the names of the methods; the smallest weighs most.
        """
        return {name: score.value for name, score in self._scores.items()}

    def _judge(self, before: OnlineOutlook, time: float, value: float) -> None:
        said = before.said(time)
        self._constant.record(relative_error(least_relative_error(before.steps.values), value))
        self._calibration = self._calibration.after(before.together(said), value)
        for name, each in said.items():
            self._scores[name].record(relative_error(each, value))

    def _fitted(self, steps: Steps) -> OnlineOutlook:
        fitted = {method.name: method.fit(steps) for method in self._methods}
        known = {name: prediction for name, prediction in fitted.items() if prediction is not None}
        warning = self._warning(steps)
        return OnlineOutlook(steps, known, self.scores(), self._calibration, self._coverage, warning)

    def _warning(self, steps: Steps) -> str | None:
        known = self._sampling.warning(steps)
        if known is not None:
            return known
        constant = self._constant.lasting
        for method in self._methods:
            # A period that is found in noise forecasts nothing.
            error = self._scores[method.name].lasting
            if isinstance(method, Comb) and method.periods_seconds and is_foreseen(steps, error, constant):
                seen = self._sampling.warning_of(steps, method.periods_seconds[0])
                if seen is not None:
                    return seen
        best = min(score.lasting for score in self._scores.values())
        return unexplained(steps, best, constant)
