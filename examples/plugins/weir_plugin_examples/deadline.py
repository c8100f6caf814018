"""Earliest deadline first (Liu and Layland, JACM 20, 1973)."""

from collections.abc import Sequence
from typing import Protocol, TypeVar


class Waiting(Protocol):
    """The fields of `weir.plugins.scheduler.Waiting` that are looked at."""

    @property
    def share_owed(self) -> float: ...
    @property
    def cost_seconds(self) -> float: ...
    @property
    def waited_seconds(self) -> float: ...


Job = TypeVar("Job", bound=Waiting)


class Deadline:
    """Serves the request that is due first: it is due when a device as slow as its job's share would have done it."""

    def __init__(self, seed: int) -> None:
        """It throws no dice."""

    def choose(self, waiting: Sequence[Job], now_seconds: float) -> Job:
        return min(waiting, key=lambda job: job.cost_seconds / max(job.share_owed, 1e-9) - job.waited_seconds)
