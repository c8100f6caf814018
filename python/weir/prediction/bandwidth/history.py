"""The steps of an analysis so far."""

import math
from functools import cached_property

import numpy
from numpy.typing import NDArray

Array = NDArray[numpy.float64]
"""Array of float64."""
RATE_LEAST = 1e-9
"""Least bandwidth; it stands for 0 where nothing ever arrived."""
_FLOOR = 1e-3
"""Least bandwidth as a part of the largest: so inverses stay finite."""
_PACE = 0.05
"""Deviation of regular spacings, as a part of the usual spacing."""


class Steps:
    """An unchangeable view of the last steps, oldest first."""

    def __init__(self, times: list[float], values: list[float]) -> None:
        """View steps.

        Args:
            times: Times in seconds, ascending.
            values: Bandwidths, NaN for steps without I/O; at least one is a number.
        """
        self._times = times
        self._values = values

    @cached_property
    def all_times(self) -> Array:
        """Times of all steps in seconds, also of those without I/O."""
        return numpy.array(self._times)

    @cached_property
    def all_values(self) -> Array:
        """Bandwidths of all steps; NaN where a step did no I/O."""
        return numpy.array(self._values)

    @cached_property
    def times(self) -> Array:
        """Times of the steps with I/O, in seconds."""
        return self.all_times[~numpy.isnan(self.all_values)]

    @cached_property
    def values(self) -> Array:
        """Bandwidths of the steps with I/O, all above 0."""
        values = self.all_values[~numpy.isnan(self.all_values)]
        return numpy.maximum(values, _FLOOR * values.max() or RATE_LEAST)

    @cached_property
    def spacing_seconds(self) -> float:
        """Usual time between two steps; 0 where there was only one."""
        return float(numpy.median(numpy.diff(self.all_times))) if len(self._times) > 1 else 0.0

    @cached_property
    def has_pace(self) -> bool:
        """Whether steps come at regular times, as in a program that paces them, and not right after each other."""
        deviations = numpy.abs(numpy.diff(self.all_times) - self.spacing_seconds)
        return bool(len(deviations)) and float(numpy.median(deviations)) < _PACE * self.spacing_seconds

    def refuse(self, time: float) -> None:
        """Refuse a time that is not later than the last step.

        Args:
            time: The time in seconds.

        Raises:
            ValueError: The time is not later, or not finite.
        """
        refuse(time, self._times[-1])

    def steps_until(self, time: float) -> int:
        """Count the usual steps from the last step to a time.

        Args:
            time: The time in seconds.

        Returns:
            Number of steps, 1 at least.
        """
        return max(round((time - self._times[-1]) / self.spacing_seconds), 1) if self.spacing_seconds else 1

    @cached_property
    def even_values(self) -> Array:
        """Bandwidths at even times that end with the last step, interpolated where a step is missing or lies beside
        them.
        """
        if not self.spacing_seconds:
            return self.values
        last = self.all_times[-1]
        count = round((last - self.times[0]) / self.spacing_seconds) + 1
        # A pause of weeks must not become millions of steps.
        count = min(count, 2 * len(self._times))
        grid = last - self.spacing_seconds * numpy.arange(count - 1, -1, -1)
        return numpy.asarray(numpy.interp(grid, self.times, self.values))


class History:
    """Collects steps, and forgets the oldest."""

    def __init__(self, steps_max: int) -> None:
        """Begin without steps.

        Args:
            steps_max: Most steps that are remembered.
        """
        self._steps_max = steps_max
        self._times: list[float] = []
        self._values: list[float] = []
        self._steps: Steps | None = None

    def append(self, time: float, value: float | None) -> None:
        """Add a step.

        Args:
            time: Begin of the step in seconds, later than the step before.
            value: Bandwidth of the step; None where it did no I/O.

        Raises:
            ValueError: The time is not later, or the value is not a finite number of at least 0.
        """
        self.refuse(time)
        if value is not None and not (math.isfinite(value) and value >= 0):
            raise ValueError(
                f"the bandwidth of the step at {time} s is {value}; "
                "give a finite number of at least 0, or None where the step did no I/O"
            )
        self._times.append(float(time))
        rate = math.nan if value is None else float(value)
        self._values.append(0.0 if rate < RATE_LEAST else rate)
        del self._times[: -self._steps_max], self._values[: -self._steps_max]
        self._steps = None

    def refuse(self, time: float) -> None:
        """Refuse a time that is not later than the last step.

        Args:
            time: The time in seconds.

        Raises:
            ValueError: The time is not later, or not finite.
        """
        refuse(time, self._times[-1] if self._times else -math.inf)

    @property
    def steps(self) -> Steps | None:
        """The view of the last steps; None as long as no step had a bandwidth."""
        if self._steps is None and any(not math.isnan(value) for value in self._values):
            self._steps = Steps(list(self._times), list(self._values))
        return self._steps


def refuse(time: float, last: float) -> None:
    """Refuse a step that cannot follow another one.

    Args:
        time: Time of the step in seconds.
        last: Time of the step before.

    Raises:
        ValueError: The time is not later, or not finite.
    """
    if not math.isfinite(time):
        raise ValueError(f"a step at {time} s: a time must be a finite number of seconds")
    if time <= last:
        raise ValueError(f"a step at {time} s is not after the last one, at {last} s; tell of steps in their order")
