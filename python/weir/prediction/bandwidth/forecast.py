"""Forecasts and forecasters."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from weir.errors import Picklable


@dataclass(frozen=True, slots=True)
class Forecast:
    """The bandwidth expected at one step, in the unit of the observations."""

    value: float
    """The value with the least expected relative error."""
    low: float
    """Lower end of the interval: the next value lies below it with probability (1 - coverage) / 2."""
    high: float
    """Upper end of the interval."""
    method: str
    """Name of the forecast's method."""
    warning: str | None = None
    """Reason not to trust the forecast: the analysis is too slow to see the period of its disturbance."""


class Outlook(Protocol):
    """Forecasts from the steps up to some moment. An outlook never changes, so threads may share it."""

    def forecast(self, time: float) -> Forecast:
        """See `Forecaster.forecast`."""


class Forecaster(Protocol):
    """Learns from one step of an analysis after another.

    Observing a step takes time; the forecasts then take next to none. Threads may not share a forecaster. `Background`
    fits while a program goes on.
    """

    def observe(self, time: float, value: float | None) -> None:
        """Learn from a step.

        Args:
            time: Begin of the step, in seconds from any origin; later than the step before.
            value: The bandwidth that the step perceived; None where it did no I/O.

        Raises:
            ValueError: The time is not later, or the value is not a finite number of at least 0.
        """

    def observe_all(self, steps: Sequence[tuple[float, float | None]]) -> None:
        """Learn from several steps. All are compared with the forecast before the first.

        Args:
            steps: Time and value of each step, as for `observe`.

        Raises:
            ValueError: As for `observe`; steps before the refused one are learnt.
        """

    @property
    def outlook(self) -> Outlook | None:
        """The outlook from the steps so far; None where none of them had a bandwidth."""

    def forecast(self, time: float) -> Forecast:
        """Forecast the bandwidth that a step will perceive.

        Args:
            time: Time of the step in seconds, after the last observed step.

        Returns:
            The forecast, in the unit of the observations.

        Raises:
            ValueError: Nothing was observed yet, or the time is not after the last step.
        """


class NothingObservedError(Picklable, ValueError):
    """A forecast that was asked for before any step had a bandwidth."""

    def __init__(self) -> None:
        """Say that the first step needs no forecast."""
        super().__init__("no bandwidth was observed yet; read the first step without a forecast, and observe it")
