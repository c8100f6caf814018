"""What all forecasters do with the steps that they are told."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Generic, TypeVar

from weir.prediction.bandwidth.forecast import Forecast, NothingObservedError, Outlook
from weir.prediction.bandwidth.history import History, Steps

Seen = TypeVar("Seen", bound=Outlook)


class Learner(ABC, Generic[Seen]):
    """Judges what it said of each step, and looks ahead anew. See `Forecaster`."""

    def __init__(self, history: History) -> None:
        """Begin with what `history` holds, mostly nothing."""
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
        """Learn from how far off what was said before of a step is."""

    @abstractmethod
    def _fitted(self, steps: Steps) -> Seen:
        """What can be said after these steps."""
