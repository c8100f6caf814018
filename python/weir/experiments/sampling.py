"""Samples of the servers' accounts, taken all the time, and the accounts between two of them.

A server makes its job table a few times a second and answers just afterwards, so the moment of an answer is that of
its accounts, but nobody can choose it.
"""

import bisect
import threading
import time
from types import TracebackType
from typing import TYPE_CHECKING

from weir.experiments.store import ExperimentError
from weir.experiments.windows import Account, Sample, accounts

if TYPE_CHECKING:
    from weir.experiments.store import Store
    from weir.store.control import Server

_PAUSE_SECONDS = 0.05
"""Pause behind an answer: it is short beside the time between two tables of a server."""
_LAST_SECONDS = 10.0
"""Longest wait for the first samples behind the last edge, on a busy machine."""


class Sampler:
    """Threads that ask each server for its accounts until the block ends.

    Attributes:
        samples: Samples of each server in the order of their times.
    """

    def __init__(self, store: "Store", epoch: float) -> None:
        """Prepare the threads.

        Args:
            store: A store that is up.
            epoch: Beginning of the experiment, as `time.monotonic` tells it.
        """
        self.samples: list[list[Sample]] = [[] for _ in store.servers]
        self._epoch = epoch
        self._failure: Exception | None = None
        self._is_over = threading.Event()
        self._threads = [
            threading.Thread(target=self._sample, args=(server, taken), daemon=True)
            for server, taken in zip(store.servers, self.samples, strict=True)
        ]

    def __enter__(self) -> "Sampler":
        """Begin to sample."""
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the threads, when their last answers have come."""
        self._is_over.set()
        for thread in self._threads:
            thread.join()

    def wait_for(self, seconds: float) -> None:
        """Wait until each server was sampled behind a time.

        Args:
            seconds: Time from the beginning of the experiment.

        Raises:
            ExperimentError: A server was not sampled in time.
            StoreError: A server does not answer.
        """
        deadline = self._epoch + seconds + _LAST_SECONDS
        while not all(taken and taken[-1].time_seconds >= seconds for taken in self.samples):
            if self._failure is not None:
                raise self._failure
            if time.monotonic() > deadline:
                raise ExperimentError(
                    "a server sent no accounts in time", hint="measure on a machine that is less busy"
                )
            time.sleep(_PAUSE_SECONDS)

    def at(self, seconds: float) -> list[Sample]:
        """Find the accounts of each server at a time.

        Args:
            seconds: Time from the beginning of the experiment.

        Returns:
            One sample of each server; outside of the time that was sampled the nearest one, with its own time.
        """
        return [between(taken, seconds) for taken in self.samples]

    def _sample(self, server: "Server", taken: list[Sample]) -> None:
        try:
            while not self._is_over.is_set():
                table = server.jobs()
                taken.append(Sample(server.number, time.monotonic() - self._epoch, accounts(table)))
                self._is_over.wait(_PAUSE_SECONDS)
        except Exception as error:
            # The thread that waits raises it.
            self._failure = error


def between(taken: list[Sample], seconds: float) -> Sample:
    """Find the accounts of a server at a time between two samples: device times and bytes grow evenly between them.

    Args:
        taken: At least one sample, in the order of their times.
        seconds: Time from the beginning of the experiment.

    Returns:
        The accounts; outside of the samples the nearest one.
    """
    place = bisect.bisect_left(taken, seconds, key=lambda sample: sample.time_seconds)
    if place == 0 or place == len(taken):
        return taken[min(place, len(taken) - 1)]
    before, after = taken[place - 1], taken[place]
    part = (seconds - before.time_seconds) / (after.time_seconds - before.time_seconds)
    jobs = {name: _between(before.jobs.get(name), account, part) for name, account in after.jobs.items()}
    return Sample(after.server, seconds, jobs)


def _between(before: Account | None, after: Account, part: float) -> Account:
    had = before.device_seconds if before else {}
    seconds = {
        device: had.get(device, 0.0) + part * (total - had.get(device, 0.0))
        for device, total in after.device_seconds.items()
    }
    moved = before.bytes_total if before else 0
    return Account(seconds, after.owed, after.owed_for_seconds, moved + round(part * (after.bytes_total - moved)))
