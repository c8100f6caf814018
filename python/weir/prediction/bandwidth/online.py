"""All methods together, each trusted as far as it was right of late."""

from collections.abc import Sequence

from weir.prediction.bandwidth.calibration import Calibration
from weir.prediction.bandwidth.comb import Comb
from weir.prediction.bandwidth.forecast import Forecast, NothingObservedError
from weir.prediction.bandwidth.history import History, Steps
from weir.prediction.bandwidth.method import Method
from weir.prediction.bandwidth.nyquist import Sampling, unexplained
from weir.prediction.bandwidth.relative import least_relative_error, relative_error
from weir.prediction.bandwidth.score import Score

_POWER = 10
"""A method whose score is twice another's weighs 2 to this power less: nearly a choice, but for equals a mean."""
_WEIGHT_MIN = 0.01
"""What weighs less is left out, so that many poor methods do not add up."""


class Online:
    """Weighs methods by their discounted recent errors, and corrects what they say together. See `Forecaster`.

    Every method forecasts every step, so each is scored on all of them; a method that is right after a change of
    regime takes over within a few steps. Bandwidths are averaged by their inverses, as times are.
    """

    def __init__(self, methods: Sequence[Method], *, history: History, sampling: Sampling, coverage: float) -> None:
        """See `weir.prediction.bandwidth.make`; without a history all methods say nothing."""
        self._methods = tuple(methods)
        self._history = history
        self._sampling = sampling
        self._coverage = coverage
        self._scores = {method.name: Score() for method in methods}
        self._constant = Score()
        """Of the best forecast that is the same for every step: what seeing a period is held against."""
        self._calibration = Calibration()
        self._said: tuple[float, dict[str, float]] | None = None
        """What the methods say of a time, until the next step is observed."""

    def observe(self, time: float, value: float | None) -> None:
        """See `Forecaster`."""
        steps = self._history.steps
        self._history.refuse(time)
        said = self._all(steps, time) if steps is not None and value is not None else {}
        together = self._together(said) if said else 0.0
        self._history.append(time, value)
        self._said = None
        if steps is None or value is None or not said:
            return
        self._constant.record(relative_error(least_relative_error(steps.values), value))
        self._calibration.record(together, value)
        for name, each in said.items():
            self._scores[name].record(relative_error(each, value))

    def forecast(self, time: float) -> Forecast:
        """See `Forecaster`."""
        self._history.refuse(time)
        steps = self._history.steps
        if steps is None:
            raise NothingObservedError
        said = self._all(steps, time)
        together = self._together(said)
        low, high = self._calibration.interval(together, self._coverage)
        value = min(max(self._calibration.corrected(together), low), high)
        best = min(said, key=lambda name: self._scores[name].value)
        return Forecast(value, low, high, f"online ({best})", self._warning(steps))

    def said(self, time: float) -> dict[str, float]:
        """What each method that knows enough says of a step at `time`; see `forecast`."""
        self._history.refuse(time)
        if self._history.steps is None:
            raise NothingObservedError
        return dict(self._all(self._history.steps, time))

    def scores(self) -> dict[str, float]:
        """Discounted mean relative error of each method; the smallest weighs most."""
        return {name: score.value for name, score in self._scores.items()}

    def _all(self, steps: Steps, time: float) -> dict[str, float]:
        if self._said is not None and self._said[0] == time:
            return self._said[1]
        said = {method.name: method.predict(steps, time) for method in self._methods}
        known = {name: value for name, value in said.items() if value is not None and value > 0}
        self._said = time, known
        return known

    def _together(self, said: dict[str, float]) -> float:
        scores = {name: self._scores[name].value for name in said}
        least = min(scores.values())
        weights = {name: (least / score) ** _POWER for name, score in scores.items()}
        limit = _WEIGHT_MIN * sum(weights.values())
        kept = {name: weight for name, weight in weights.items() if weight >= limit}
        return sum(kept.values()) / sum(weight / said[name] for name, weight in kept.items())

    def _warning(self, steps: Steps) -> str | None:
        known = self._sampling.warning(steps)
        if known is not None:
            return known
        for method in self._methods:
            if isinstance(method, Comb) and method.periods_seconds:
                seen = self._sampling.warning_of(steps, method.periods_seconds[0])
                if seen is not None:
                    return seen
        best = min(score.lasting for score in self._scores.values())
        return unexplained(steps, best, self._constant.lasting)
