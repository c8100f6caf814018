"""The common part of all forecasters: learning from steps."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Generic, TypeVar

from weir.prediction.bandwidth.forecast import Forecast, NothingObservedError, Outlook
from weir.prediction.bandwidth.history import History, Steps

Seen = TypeVar("Seen", bound=Outlook)


class Learner(ABC, Generic[Seen]):
    """Judges its forecast of each step, and makes a new outlook. See `Forecaster`."""

    def __init__(self, history: History) -> None:
        """Begin with a history.

        Args:
            history: Steps to begin with, usually none.
        """
        self._history = history
        self._outlook: Seen | None = None

    @property
    def outlook(self) -> Seen | None:
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
                    self._judge(before, time, value)
        finally:
            if self._history.steps is not None:
                self._outlook = self._fitted(self._history.steps)

    def forecast(self, time: float) -> Forecast:
        """See `Forecaster`."""
        return self._known(time).forecast(time)

    def _known(self, time: float) -> Seen:
        """The outlook for a step at `time`."""
        self._history.refuse(time)
        if self._outlook is None:
            raise NothingObservedError
        return self._outlook

    @abstractmethod
    def _judge(self, before: Seen, time: float, value: float) -> None:
        """Learn from the error of an earlier forecast of a step."""

    @abstractmethod
    def _fitted(self, steps: Steps) -> Seen:
        """The outlook after these steps."""
