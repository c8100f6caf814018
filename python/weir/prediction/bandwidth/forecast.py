"""What a forecast is, and what gives one."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Forecast:
    """The bandwidth expected at one step, in the unit of what was observed."""

    value: float
    low: float
    """What comes lies below with half of the probability that the interval leaves out."""
    high: float
    method: str
    """Which method it is from."""
    warning: str | None = None
    """What stands against trusting it: the analysis is too slow to see the period of what disturbs it."""


class Outlook(Protocol):
    """What is forecast from the steps up to some moment. It never changes, so threads may share it."""

    def forecast(self, time: float) -> Forecast:
        """See `Forecaster.forecast`."""


class Forecaster(Protocol):
    """Learns from one step of an analysis after another.

    To observe a step is what takes time, the forecasts then take next to none. Not for several threads at once: see
    `Background` for one that fits while a program goes on.
    """

    def observe(self, time: float, value: float | None) -> None:
        """Tell of a step.

        Args:
            time: When it began, in seconds from any origin; later than the one before.
            value: The bandwidth that it perceived; None where it did no I/O.

        Raises:
            ValueError: The time is not later, or the value is not a finite number of at least 0.
        """

    def observe_all(self, steps: Sequence[tuple[float, float | None]]) -> None:
        """Tell of several steps, time and value each, of which what was known before the first is held against all.

        Raises:
            ValueError: As `observe`; steps before the one that is refused are learnt from.
        """

    @property
    def outlook(self) -> Outlook | None:
        """What is forecast from the steps so far; None where none of them had a bandwidth."""

    def forecast(self, time: float) -> Forecast:
        """What a step at `time` will perceive.

        Args:
            time: In seconds; after the last step that was observed.

        Raises:
            ValueError: Nothing was observed yet, or the time is not after it.
        """


class NothingObservedError(ValueError):
    """A forecast was asked for before any step had a bandwidth."""

    def __init__(self) -> None:
        """The message is always the same."""
        super().__init__("no bandwidth was observed yet; read the first step without a forecast, and observe it")
