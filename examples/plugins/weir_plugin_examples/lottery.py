"""Lottery scheduling (Waldspurger and Weihl, OSDI'94)."""

import random
from collections.abc import Sequence
from typing import Protocol, TypeVar


class Waiting(Protocol):
    """The field of `weir.plugins.scheduler.Waiting` that is looked at."""

    @property
    def share_owed(self) -> float: ...


Job = TypeVar("Job", bound=Waiting)


class Lottery:
    """Draws the job to serve; a job's tickets are the share that the policy owes it."""

    def __init__(self, seed: int) -> None:
        self._dice = random.Random(seed)

    def choose(self, waiting: Sequence[Job], now_seconds: float) -> Job:
        ticket = self._dice.random() * sum(job.share_owed for job in waiting)
        for job in waiting:
            ticket -= job.share_owed
            if ticket < 0:
                return job
        return waiting[-1]
