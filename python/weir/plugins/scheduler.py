"""Schedulers: the job whose request a simulated device serves next."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

from weir.plugins.errors import failure, wrong_answer
from weir.plugins.plugin import Plugin

HOLDS_MAX = 1_000_000
"""Largest number of answers in a row that serve no request: a run with more would hardly end."""


class WaitingJob(NamedTuple):
    """The identity of a job, as its credential would prove it."""

    name: str
    user: str
    group: str
    nodes: int
    priority: int


class Waiting(NamedTuple):
    """A job with requests queued at a device."""

    job: WaitingJob
    queued: int
    """Its queued requests, at least 1."""
    share_owed: float
    """Part of the device's time that the policy owes it among the jobs that are active now, 0 to 1."""
    cost_seconds: float
    """Expected device time of its first request."""
    waited_seconds: float
    """Time for which its first request has been queued."""
    served_seconds: float
    """Device time that it was charged since the run's begin."""


class Scheduler(Protocol):
    """Chooses whom a device serves. Each simulated device has an object of its own, which is made with `seed`."""

    def choose(self, waiting: Sequence[Waiting], now_seconds: float) -> Waiting | float:
        """Choose a job, of which the first request is served.

        Args:
            waiting: The jobs with requests queued, one at least. The first one's request came first.
            now_seconds: Virtual time since the run's begin.

        Returns:
            One of `waiting`; or a later time in seconds, until which nobody is served unless another request comes.
        """


class CheckedScheduler:
    """A scheduler whose faults name it, and whose choices can be made. See `Scheduler`."""

    def __init__(self, plugin: Plugin, jobs: Sequence[WaitingJob], seed: int) -> None:
        """Make the scheduler of one device.

        Args:
            jobs: The jobs of the run, by their numbers.
            seed: Start of its dice.

        Raises:
            PluginError: The plug-in cannot be loaded or made.
        """
        self.plugin = plugin
        self._jobs = jobs
        self._made = plugin.make(seed)
        self._holds = 0

    def choose(self, waiting: Sequence[tuple[Any, ...]], now_seconds: float) -> int | float:
        """See `Scheduler`.

        Args:
            waiting: The number of each job, and the further fields of `Waiting`.

        Returns:
            The place of the job, as a whole number; or the time until which nobody is served, as a float.

        Raises:
            PluginError: The plug-in fails, or its choice cannot be made.
        """
        jobs = self._jobs
        shown = [Waiting(jobs[number], queued, *rest) for number, queued, *rest in waiting]
        try:
            found = self._made.choose(shown, now_seconds)
        except (Exception, SystemExit) as error:
            raise failure(self.plugin, "choose", error) from error
        for place, each in enumerate(shown):
            if each is found:
                self._holds = 0
                return place
        return self._held(found, now_seconds)

    def _held(self, found: object, now_seconds: float) -> float:
        if not isinstance(found, float | int) or isinstance(found, bool):
            raise self._wrong(f"{found!r} is none of the jobs that wait, and no time")
        if not math.isfinite(found) or found <= now_seconds:
            raise self._wrong(f"it waits until {found:g} s, and it is {now_seconds:g} s already")
        self._holds += 1
        if self._holds > HOLDS_MAX:
            raise self._wrong(f"it served nobody {HOLDS_MAX} times in a row")
        return float(found)

    def _wrong(self, message: str) -> Exception:
        return wrong_answer(self.plugin, "choose", message)


class SchedulerMaker:
    """Makes the schedulers of simulated devices, as the engine asks for them."""

    def __init__(self, plugin: Plugin, jobs: Sequence[WaitingJob]) -> None:
        """Begin without schedulers.

        Args:
            jobs: The jobs of the run, by their numbers.
        """
        self._plugin = plugin
        self._jobs = jobs

    def __call__(self, seed: int) -> CheckedScheduler:
        """Make the scheduler of a device.

        Args:
            seed: Start of its dice.
        """
        return CheckedScheduler(self._plugin, self._jobs, seed)
