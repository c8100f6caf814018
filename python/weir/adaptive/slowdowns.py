"""Predicted slowdowns as an input of the forecasts: a tier that others are about to slow is expected to be slower.

A forecast from the past has the slowdowns of the past in it, so that only their change counts: the forecast is
multiplied by the usual slowdown of the last reads over the predicted one. A prediction never makes a reader read more,
and none at all changes nothing.
"""

import contextlib
import math
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from weir.store.errors import StoreError
from weir.store.job_windows import lines_of, received_and_waited
from weir.store.observations import measured_slowdown
from weir.store.predictions import likely_slowdown

if TYPE_CHECKING:
    from weir.prediction.bandwidth import Forecast
    from weir.store.control import Server
    from weir.store.observations import Window

Slowdowns = Callable[[], float | None]
"""Asks for the predicted slowdown of the next reads: 1 for none, 2 where they take twice the time; None where nothing
is known. It must answer at once, and may be called from several threads."""

SLOWDOWN_MAX = 100.0
"""Largest slowdown that counts: a reader that expects less never finds out that the prediction was wrong."""
_STEPS = 16
"""Number of last reads whose slowdown is the usual one."""
_DISCOUNT = 0.8
"""Factor of an error's weight for each later step."""
_WEIGHT_MIN = 2.0
"""Least weight of errors that tell whether predictions help."""
_POLL_SECONDS = 0.5
"""Pause between two questions to a server."""
_TIMEOUT_SECONDS = 2.0
_FRESH_SECONDS = 5.0
"""Age up to which an answer counts; an older one does not describe the present."""
_IDLE_SECONDS = 120.0
"""Time without a step after which a server is not asked any more."""


class Outlook:
    """The predictions for one tier, and how well they did."""

    def __init__(self, slowdowns: Slowdowns) -> None:
        """Begin without a past.

        Args:
            slowdowns: Asks for predictions.
        """
        self._slowdowns = slowdowns
        self._usual: deque[float] = deque(maxlen=_STEPS)
        self._planned: tuple[float | None, float, float] | None = None
        """Predicted slowdown, and the forecasts with and without it, of the planned step."""
        self._with = self._without = self._weight = 0.0

    def refine(self, forecast: "Forecast") -> "Forecast":
        """Put a prediction into a forecast.

        Args:
            forecast: The forecast from the past.

        Returns:
            The forecast with the predicted slowdown; the same where nothing is predicted, or where predictions were
            further from the reads lately than forecasts without them.
        """
        from weir.prediction.bandwidth import Forecast

        said = self._slowdowns()
        slowdown = None if said is None or not math.isfinite(said) else min(max(said, 1.0), SLOWDOWN_MAX)
        factor = 1.0 if slowdown is None else min((median(self._usual) if self._usual else 1.0) / slowdown, 1.0)
        self._planned = (slowdown, forecast.value * factor, forecast.value)
        is_worse = self._weight >= _WEIGHT_MIN and self._with > self._without
        if factor >= 1.0 or is_worse:
            return forecast
        value, low, high = (each * factor for each in (forecast.value, forecast.low, forecast.high))
        return Forecast(value, low, high, f"{forecast.method}, slowed", forecast.warning)

    def observe(self, bandwidth: float) -> None:
        """Learn from a read.

        Args:
            bandwidth: Achieved bandwidth, in bytes per second.
        """
        if self._planned is None or bandwidth <= 0.0:
            return
        slowdown, slowed, plain = self._planned
        self._planned = None
        # A step without a prediction was not slowed as far as is known.
        self._usual.append(1.0 if slowdown is None else slowdown)
        if slowed < plain:
            self._with = self._with * _DISCOUNT + abs(slowed - bandwidth) / bandwidth
            self._without = self._without * _DISCOUNT + abs(plain - bandwidth) / bandwidth
            self._weight = self._weight * _DISCOUNT + 1.0


def measured(window: "Window", job: str) -> float | None:
    """Compute the slowdown of a window that has ended, from the store's own measurements.

    Args:
        window: The window at one server.
        job: Name of the job.

    Returns:
        Device time that the job received and waited for others, over that which it received; None where it received
        none.
    """
    return measured_slowdown(*received_and_waited(lines_of(window, job)))


class StoreSlowdowns:
    """The slowdowns that a store predicts for one job, asked for on a thread of its own.

    A store that predicts nothing tells the slowdown of the last window, which stands for the next one.
    """

    def __init__(self, servers: "Sequence[Server]", job: str) -> None:
        """Prepare to ask.

        Args:
            servers: The servers, all of which know the predictions of all.
            job: Name of the job.
        """
        self._servers = servers
        self._job = job
        self._lock = threading.Lock()
        self._answer: tuple[float, float | None] | None = None
        self._looked = time.monotonic()
        self._runs = False

    def __call__(self) -> float | None:
        """Tell the latest answer, and go on asking.

        Returns:
            The slowdown; None where nothing is known, or the store answered nothing lately.
        """
        with self._lock:
            self._looked = time.monotonic()
            if not self._runs:
                self._runs = True
                threading.Thread(target=self._run, name="weir-adaptive-slowdowns", daemon=True).start()
            is_fresh = self._answer is not None and self._looked - self._answer[0] <= _FRESH_SECONDS
            return self._answer[1] if self._answer is not None and is_fresh else None

    def _run(self) -> None:
        while True:
            # Without an answer of the store, the forecast remains as it is.
            with contextlib.suppress(StoreError):
                answer = self.ask()
                with self._lock:
                    self._answer = (time.monotonic(), answer)
            with self._lock:
                if time.monotonic() - self._looked > _IDLE_SECONDS:
                    self._runs = False
                    return
            time.sleep(_POLL_SECONDS)

    def ask(self) -> float | None:
        """Ask the store now.

        Returns:
            The slowdown; None where nothing is known.

        Raises:
            StoreError: No server answers.
        """
        with contextlib.suppress(StoreError):
            answer = self._servers[0].interference()
            for job in answer.jobs if answer.window else ():
                if job.job == self._job:
                    return likely_slowdown(job.horizons)
        lasts = [server.windows(0).windows[-1:] for server in self._servers]
        known = [measured(window, self._job) for last in lasts for window in last]
        return max((each for each in known if each is not None), default=None)


def store_slowdowns() -> StoreSlowdowns:
    """Find the predictions of the store that this process was given.

    Returns:
        The slowdowns of this process's job.

    Raises:
        StoreError: The process has no store or no credential.
    """
    from weir import _core
    from weir.store.access import by_credential
    from weir.store.control import servers_of

    cluster, credential = os.environ.get("WEIR_CLUSTER"), os.environ.get("WEIR_CREDENTIAL")
    if not cluster or not credential:
        raise StoreError("this process has no store and no job", hint="start it with `weir run`")
    try:
        text = Path(credential).read_text()
        job = _core.claims_of_credential(text)["job"]
    except (OSError, ValueError) as error:
        raise StoreError(f"cannot use the credential {credential}: {error}") from error
    servers = servers_of(Path(cluster), by_credential(text), timeout_seconds=_TIMEOUT_SECONDS)
    return StoreSlowdowns(servers, job)
