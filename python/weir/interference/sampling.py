"""Server windows of this host: samples of growing counters become sums, means and deviations of each window.

Windows begin at multiples of their length in Unix time, as those of a store's servers do.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from weir.interference.devices import IN_PROGRESS, Reading, Values
from weir.interference.windows import SERVER, STATISTICS

SAMPLES = 10
"""Samples of a window."""
_WRAP = float(1 << 32)
"""Linux prints the times of a device as unsigned numbers of 32 bits."""
_TIMES = frozenset(number for number, name in enumerate(SERVER) if name.endswith("milliseconds"))


@dataclass(frozen=True, slots=True)
class DeviceWindow:
    """A device in a window."""

    number: int
    """Number of the window since 1970."""
    device: str
    is_metadata: bool
    samples: tuple[Values, ...]
    """Growth of each counter between two samples, and the level of those that are levels."""

    def row(self, run: str) -> dict[str, Any]:
        """The row of a data set, without a job.

        Args:
            run: Name of the run, which is its workload, too.

        Returns:
            Values by their columns.
        """
        shared = {"run": run, "workload": run, "window": self.number, "io_seconds": 0.0, "slowdown": None}
        row: dict[str, Any] = {**shared, "server": self.device, "is_metadata": self.is_metadata}
        for name, column in zip(SERVER, zip(*self.samples, strict=True), strict=True):
            for statistic, value in zip(STATISTICS, reduce(column), strict=True):
                row[f"server_{name}_{statistic}"] = value
        return row


def reduce(samples: Sequence[float]) -> tuple[float, float, float]:
    """Reduce the samples of a counter.

    Args:
        samples: The samples, at least one.

    Returns:
        Sum, mean and standard deviation of the samples, which are all that there are.
    """
    total = math.fsum(samples)
    mean = total / len(samples)
    return total, mean, math.sqrt(math.fsum((each - mean) ** 2 for each in samples) / len(samples))


@dataclass
class Sampler:
    """Samples of devices, put together to windows.

    Attributes:
        window_seconds: Length of a window.
        tell: Takes a line about each loss.
    """

    window_seconds: float
    tell: Callable[[str], None]
    _before: Mapping[str, Reading] = field(default_factory=dict)
    _time: float | None = None
    _number: int | None = None
    _samples: dict[str, list[Values]] = field(default_factory=dict)
    _is_metadata: dict[str, bool] = field(default_factory=dict)
    _is_whole: bool = False
    _partial: set[str] = field(default_factory=set)

    def take(self, time_seconds: float, readings: Mapping[str, Reading]) -> list[DeviceWindow]:
        """Take a sample.

        A sample belongs to the window that it began in: growth until the next window is that of its last sample.

        Args:
            time_seconds: Unix time.
            readings: The counters of each device.

        Returns:
            The windows that ended with this sample. The window in which sampling began is dropped.
        """
        before, begun = self._before, self._time
        self._before, self._time = readings, time_seconds
        if begun is None:
            self._number = self._window(time_seconds)
            return []
        if time_seconds < begun:
            self.tell("the clock was set back: the open window is lost")
            self._begin(time_seconds, is_whole=False)
            return []
        for device in sorted(readings):
            self._add(device, before.get(device), readings[device])
        for device in sorted(set(before) - set(readings)):
            self.tell(f"{device} is gone: its open window is lost")
            self._partial.add(device)
        number = self._window(time_seconds)
        assert self._number is not None
        if number == self._number:
            return []
        ended = self._ended() if self._is_whole else []
        lost = number - self._number - 1
        if lost:
            self.tell(f"{lost + 1} windows are lost: no sample was taken for longer than a window")
            # The growth since the last sample spans the lost windows, and is that of none.
            ended = []
        self._begin(time_seconds, is_whole=True)
        return ended

    def _window(self, time_seconds: float) -> int:
        return math.floor(time_seconds / self.window_seconds)

    def _begin(self, time_seconds: float, *, is_whole: bool) -> None:
        self._number, self._samples, self._is_whole = self._window(time_seconds), {}, is_whole
        self._partial = set()

    def _add(self, device: str, before: Reading | None, now: Reading) -> None:
        if before is None:
            if self._is_whole:
                self.tell(f"{device} joined: its open window is lost")
            self._partial.add(device)
            return
        growth = tuple(
            after if number == IN_PROGRESS else _grown(number, start, after)
            for number, (start, after) in enumerate(zip(before.values, now.values, strict=True))
        )
        if min(growth) < 0:
            self.tell(f"the counters of {device} began anew: a sample is lost")
            return
        self._is_metadata[device] = now.is_metadata
        self._samples.setdefault(device, []).append(growth)

    def _ended(self) -> list[DeviceWindow]:
        assert self._number is not None
        return [
            DeviceWindow(self._number, device, self._is_metadata[device], tuple(samples))
            for device, samples in sorted(self._samples.items())
            if device not in self._partial
        ]


def _grown(number: int, before: float, after: float) -> float:
    """The growth of a counter; negative where the counter began anew."""
    if after < before and number in _TIMES and before >= _WRAP / 2 > after and before < _WRAP:
        return after + _WRAP - before
    return after - before
