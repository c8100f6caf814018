"""A forecast from a store's servers, for a tier on a Weir store: their load and the reader's share tell a bandwidth.

The servers are asked beside the reads, never in their way. The ratio of achieved bandwidth to the servers' figures is
learned from the reads. The forecast is used only while it was closer than the forecast from the past alone.
"""

import contextlib
import os
import threading
import time
import weakref
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from weir.store.errors import StoreError

if TYPE_CHECKING:
    from weir import _core
    from weir.prediction.bandwidth import Forecast
    from weir.store.answers import Job, Target
    from weir.store.control import Server

_POLL_SECONDS = 0.5
"""Pause between two questions to the servers."""
_TIMEOUT_SECONDS = 2.0
"""Longest wait for an answer."""
_FRESH_SECONDS = 3.0
"""Age up to which an answer counts; an older one does not describe the present."""
_IDLE_SECONDS = 120.0
"""Time without a step after which the servers are not asked any more."""
_STEPS = 16
"""Number of last reads from which the ratio is learned."""
_STEPS_MIN = 4
"""Least number of reads: fewer do not tell the ratio."""
_DISCOUNT = 0.8
"""Factor of an error's weight for each later step."""
_WEIGHT_MIN = 4.0
"""Least weight of the errors, that of eight steps: fewer do not tell which forecast is closer."""
_CLOSER = 0.8
"""Part of the other forecast's error below which the servers' forecast is used."""


@dataclass(frozen=True, slots=True)
class _Score:
    """A discounted mean of relative errors."""

    total: float = 0.0
    weight: float = 0.0

    def after(self, error: float) -> "_Score":
        return _Score(self.total * _DISCOUNT + error, self.weight * _DISCOUNT + 1.0)

    @property
    def mean(self) -> float:
        return self.total / self.weight if self.weight else float("inf")


class ServerForecast:
    """Forecasts of one tier's bandwidth by the store's servers."""

    def __init__(self, poll: "ServerPoll") -> None:
        """Begin without a past.

        Args:
            poll: The poll of the servers. It ends with this forecast, that is, with its reader.
        """
        self._poll = poll
        weakref.finalize(self, poll.close)
        self._ratios: deque[float] = deque(maxlen=_STEPS)
        self._planned: tuple[float, float | None, float] | None = None
        """The servers' figure, the servers' forecast and the other forecast of the planned step, in bytes per
        second."""
        self._own = _Score()
        self._others = _Score()

    def available(self) -> float | None:
        """Tell the servers' latest figure.

        Returns:
            Bytes per second that the servers have free, or owe to this job; None where they answered nothing lately.
        """
        return self._poll.available()

    def refine(self, forecast: "Forecast") -> "Forecast":
        """Choose between two forecasts of the next step.

        Args:
            forecast: The forecast from the past alone.

        Returns:
            That forecast, or the servers' forecast where it was closer lately.
        """
        from weir.prediction.bandwidth import Forecast

        available = self._poll.available()
        if available is None or available <= 0.0:
            self._planned = None
            return forecast
        value = median(self._ratios) * available if len(self._ratios) >= _STEPS_MIN else None
        self._planned = (available, value, forecast.value)
        is_known = self._own.weight >= _WEIGHT_MIN
        if value is None or not is_known or self._own.mean >= _CLOSER * self._others.mean:
            return forecast
        spread = min(self._own.mean, 1.0)
        return Forecast(value, value * (1.0 - spread), value * (1.0 + spread), "store")

    def observe(self, bandwidth: float) -> None:
        """Learn from a read.

        Args:
            bandwidth: Achieved bandwidth, in bytes per second.
        """
        if self._planned is None or bandwidth <= 0.0:
            return
        available, value, forecast = self._planned
        if value is not None:
            self._own = self._own.after(abs(value - bandwidth) / bandwidth)
            self._others = self._others.after(abs(forecast - bandwidth) / bandwidth)
        self._ratios.append(bandwidth / available)


class ServerPoll:
    """Asks the servers of a store again and again, on a thread of its own, for as long as a reader uses the answers."""

    def __init__(self, servers: "Sequence[Server]", job: str | None) -> None:
        """Prepare to ask servers.

        Args:
            job: Name of this job; None is a job that no server knows.
        """
        self._servers = servers
        self._job = job
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._answer: tuple[float, float] | None = None
        self._looked = time.monotonic()
        self._runs = False

    def available(self) -> float | None:
        """Tell the latest answer, and go on asking.

        Returns:
            Bytes per second that are free, or owed to the job; None where the servers answered nothing lately.
        """
        with self._lock:
            self._looked = time.monotonic()
            if not self._runs:
                self._runs = True
                threading.Thread(target=self._run, name="weir-adaptive-store", daemon=True).start()
            fresh = self._answer is not None and self._looked - self._answer[0] <= _FRESH_SECONDS
            return self._answer[1] if fresh and self._answer is not None else None

    def close(self) -> None:
        """Ask no more, once the servers have answered what they were asked."""
        self._closed.set()

    def _run(self) -> None:
        while not self._closed.is_set():
            answer: float | None = None
            # Without an answer of the store, the forecast from the past remains.
            with contextlib.suppress(StoreError):
                answer = sum(
                    available_of(server.status().targets, server.jobs(), self._job) for server in self._servers
                )
            with self._lock:
                now = time.monotonic()
                if answer is not None:
                    self._answer = (now, answer)
                if now - self._looked > _IDLE_SECONDS:
                    self._runs = False
                    return
            self._closed.wait(_POLL_SECONDS)


def available_of(targets: "Sequence[Target]", jobs: "Sequence[Job]", job: str | None) -> float:
    """Compute the bandwidth that one server has for a job.

    Args:
        targets: The server's targets.
        jobs: The server's job table.
        job: Name of the job; None is a job that no server knows.

    Returns:
        Bytes per second that the targets have free, or owe to the job if that is more.
    """
    owed = _share_owed(jobs, job)
    return sum(_speed(target) * max(1.0 - target.load, owed) for target in targets)


def server_forecast_of(folder: str | None) -> ServerForecast | None:
    """Make the forecast by servers of a tier.

    Args:
        folder: The tier's folder; None where it is not in this machine's file system.

    Returns:
        The forecast; None where the folder does not lie on the store that this process was given.
    """
    chosen = os.environ.get("WEIR_CLUSTER")
    roots = [os.environ.get("WEIR_MOUNT"), os.environ.get("WEIR_PREFIX")]
    if folder is None or not chosen or not any(root and Path(folder).is_relative_to(root) for root in roots):
        return None
    from weir.store.control import servers_of

    claims = own_claims()
    job = None if claims is None else claims["job"]
    try:
        return ServerForecast(ServerPoll(servers_of(Path(chosen), None, timeout_seconds=_TIMEOUT_SECONDS), job))
    except StoreError:
        return None


def _share_owed(jobs: "Sequence[Job]", job: str | None) -> float:
    active = [entry for entry in jobs if entry.active and entry.job != job]
    own = next((entry for entry in jobs if entry.job == job), None)
    # A job that works at other servers alone has an entry here, too, with nothing owed to it.
    share = None if own is None or not own.devices else own.share_owed
    return share if share is not None else 1.0 / (1 + len(active))


def _speed(target: "Target") -> float:
    known = (
        None if target.speed is None else target.speed.read_bytes_per_second,
        target.cost.read.bytes_per_second,
        target.expected_bytes_per_second,
    )
    # Where bytes cost nothing, any number will do: the ratio to achieved bandwidths is learned.
    return next((float(speed) for speed in known if speed), 1.0)


def own_claims() -> "_core.Claims | None":
    """The claims of this process's credential; None where it has none that can be read."""
    from weir import _core

    chosen = os.environ.get("WEIR_CREDENTIAL")
    if not chosen:
        return None
    try:
        return _core.claims_of_credential(Path(chosen).read_text())
    except (OSError, ValueError):
        return None
