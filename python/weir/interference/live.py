"""Predictions of a running store, window by window: the windows of all servers are joined, and each job is predicted.

A server that joins counts from its first whole window on. One that leaves or does not answer is told and counted among
the missing ones, and jobs are predicted from the others meanwhile.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from weir.interference.collector import Collector, joined
from weir.interference.measured import outranking, slowdown_of
from weir.interference.windows import Windows, chained, latest, of_rows
from weir.store.answers import WaitedFor
from weir.store.observations import JobKey, waited_ratio
from weir.store.predictions import (
    MEASURED,
    NOT_KNOWN,
    JobPrediction,
    PredictedDriver,
    PredictedHorizon,
    Predictions,
)

if TYPE_CHECKING:
    from weir._core import SlowdownPredictor
    from weir.store.control import Server
    from weir.store.observations import Window

HISTORY = 300
"""Last windows of a job, with which its present one is compared."""
JOBS_MAX = 128
"""Most jobs of a window that are predicted, those with the most device time. A server takes more, but one process must
predict all of them within a window."""
KNOWN_MAX = JOBS_MAX
"""Most jobs of which windows are remembered, 0.1 MB for each target; the one that was idle for longest goes first."""
RESPONSIBLE_MAX = 8
"""Responsible jobs of a job, at most."""


@dataclass
class Live:
    """Predictions of a store while it runs.

    Attributes:
        collector: Gathers the windows of all servers.
        model: The native predictor.
        tell: Takes a line about each loss.
    """

    collector: Collector
    model: "SlowdownPredictor"
    tell: Callable[[str], None]
    _histories: dict[JobKey, Windows] = field(default_factory=dict)
    _left_out: bool = False

    def poll(self) -> list[Predictions]:
        """Ask the servers, and predict the windows that all of them have told.

        Returns:
            The predictions of each window, in the order of time.
        """
        self.collector.poll()
        return [self._predicted(number, at_servers) for number, at_servers in self.collector.take()]

    def _predicted(self, number: int, at_servers: "Sequence[Window]") -> Predictions:
        received: dict[JobKey, float] = {}
        users: dict[JobKey, str] = {}
        for window in at_servers:
            for line in window.jobs:
                key = JobKey(line.job, line.uid)
                received[key] = received.get(key, 0.0) + line.device_seconds
                users[key] = line.user
        most = sorted(received, key=lambda key: (-received[key], key))
        if len(most) > JOBS_MAX and not self._left_out:
            self._left_out = True
            self.tell(f"{len(most)} jobs are active, and the {JOBS_MAX} with the most device time are predicted")
        jobs = tuple(self._job(number, at_servers, key, users[key]) for key in sorted(most[:JOBS_MAX]))
        while len(self._histories) > KNOWN_MAX:
            del self._histories[next(iter(self._histories))]
        return Predictions(number, self.collector.window_seconds, tuple(self.collector.silent()), jobs)

    def _job(self, number: int, at_servers: "Sequence[Window]", key: JobKey, user: str) -> JobPrediction:
        name, uid = key
        window = joined(number, at_servers, name, name, name, uid=uid)
        # A job that goes on moves to the end, so the first one is that which did nothing for longest.
        before, now = self._histories.pop(key, None), of_rows(window.rows)
        history = now if before is None else latest(chained((before, now)), HISTORY)
        self._histories[key] = history
        device_seconds, waited_seconds = window.device_seconds, window.waited_seconds
        measured = slowdown_of(device_seconds, waited_seconds, self.collector.window_seconds)
        basis, horizons, driven_by = self._horizons(name, history, measured)
        return JobPrediction(
            job=name,
            user=user,
            uid=uid,
            basis=basis,
            horizons=horizons,
            driven_by=driven_by,
            device_seconds=device_seconds,
            waited_seconds=waited_seconds,
            waited_ratio=waited_ratio(device_seconds, waited_seconds),
            responsible=_responsible(at_servers, key),
        )

    def _horizons(
        self, workload: str, windows: Windows, measured: float | None
    ) -> tuple[str, tuple[PredictedHorizon, ...], tuple[PredictedDriver, ...]]:
        from weir.interference.predictor import class_names, predictions

        bins, last = tuple(self.model.bins), len(windows) - 1
        names = class_names(bins)
        found = predictions(self.model, workload, windows, last)
        said = found[0][2]
        horizons = tuple(
            PredictedHorizon(
                ahead, said if said == NOT_KNOWN else names[best], probabilities[best], tuple(probabilities)
            )
            for _, ahead, _, best, probabilities, _, _ in found
        )
        basis, horizons = outranking(bins, names, said, horizons, measured)
        if basis == MEASURED:
            return basis, horizons, ()
        driven_by = tuple(
            PredictedDriver(feature, None if server is None else str(windows.servers[last, server]))
            for feature, server in found[0][5]
        )
        return basis, horizons, driven_by


def _responsible(at_servers: "Sequence[Window]", key: JobKey) -> tuple[WaitedFor, ...]:
    """The jobs that a job waited for on all servers, the longest first."""
    waited: dict[tuple[str, str, int], float] = {}
    for window in at_servers:
        for line in window.jobs:
            if (line.job, line.uid) == key:
                for other in line.waited_for:
                    named = (other.job, other.user, other.uid)
                    waited[named] = waited.get(named, 0.0) + other.seconds
    longest = sorted(waited.items(), key=lambda each: (-each[1], each[0]))[:RESPONSIBLE_MAX]
    return tuple(WaitedFor(*named, seconds) for named, seconds in longest)


@dataclass
class Publisher:
    """Tells all servers the predictions, so that each shows them in its control API and its metrics.

    Attributes:
        find: Finds the servers there are now.
        tell: Takes a line about each server that does not take them, once until it does again.
    """

    find: "Callable[[], Sequence[Server]]"
    tell: Callable[[str], None]
    _refusing: set[int] = field(default_factory=set)

    def publish(self, predictions: Predictions) -> None:
        """Tell the servers.

        Args:
            predictions: The predictions of a window.
        """
        from weir.store.control import ask_all
        from weir.store.errors import StoreError

        servers = list(self.find())

        def question(server: "Server") -> bool:
            server.tell_interference(predictions)
            return True

        for server, answer in zip(servers, ask_all(servers, question), strict=True):
            if not isinstance(answer, StoreError):
                self._refusing.discard(server.number)
            elif server.number not in self._refusing:
                self._refusing.add(server.number)
                self.tell(f"{answer}; it shows no predictions")
