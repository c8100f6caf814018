"""The loop of the guard: it reads the windows of a store, has them judged, and leases the wanted sharing."""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeVar

from weir.guard.decisions import Entry, Guard, Wanted
from weir.guard.errors import GuardError
from weir.guard.journal import Journal
from weir.guard.observations import Observation, Traits, Use
from weir.interference.collector import Collector
from weir.store.observations import METADATA, JobKey

if TYPE_CHECKING:
    from weir.guard.forecast import Forecast
    from weir.guard.served import Served
    from weir.store.answers import Job, Lease
    from weir.store.control import Server
    from weir.store.errors import StoreError
    from weir.store.observations import Window

LEASE_WINDOWS = 4
"""Number of windows that a lease outlives without a renewal."""
LEASE_SECONDS_MIN = 3.0
_LEASE_SECONDS_MAX = 60.0
_JOBS_MAX = 64
"""Most jobs of a lease."""
_PAUSE_SECONDS_MAX = 10.0
"""Longest time between two renewals of a lease, however long windows are."""
_ANSWER_SECONDS = 1.0
"""Longest time until a server answers in a turn: the leases on the others have to be renewed meanwhile."""
_SLICE_SECONDS = 0.1
"""Longest time until a signal ends a pause. A handler of a signal must not set an event that its thread waits on."""

Answer = TypeVar("Answer")


@dataclass
class Watch:
    """The guard of a running store.

    Attributes:
        find: Finds the servers there are now.
        guard: The decisions.
        journal: The journal.
        tell: Takes each line of the journal.
        warn: Takes a line about each loss.
        forecast: Predicts slowdowns; None is the truth of the last window.
        is_dry_run: Whether nothing is done.
    """

    find: "Callable[[], Sequence[Server]]"
    guard: Guard
    journal: Journal
    tell: Callable[[dict[str, Any]], None]
    warn: Callable[[str], None]
    forecast: "Forecast | Served | None" = None
    is_dry_run: bool = False
    _collector: Collector = field(init=False)
    _is_leased: bool = False
    _window: int = 0
    _policy: str | None = None
    _mute: set[int] = field(default_factory=set)
    """Servers that did not answer in this turn."""
    _answer_seconds: float = math.inf
    """Longest time until a server answers, where the server's own is longer. The begin is patient."""

    def __post_init__(self) -> None:
        """Begin with the windows that end from now on."""
        self._collector = Collector(self._prompt, self.warn)

    def begin(self) -> None:
        """Give back what a guard that was killed has left, and pass over the windows that have ended.

        Raises:
            GuardError: No server answers.
        """
        from weir.store.control import Server, ask_all
        from weir.store.errors import StoreError

        servers = list(self.find())
        answers = ask_all(servers, Server.status)
        errors = [answer for answer in answers if isinstance(answer, StoreError)]
        if errors and len(errors) == len(servers):
            raise GuardError(f"no server of the store answers: {errors[0].message}", hint=errors[0].hint)
        if not self.is_dry_run:
            self._lease(Wanted(), 0.0, servers)
        self._collector.poll()
        self._collector.take()
        self._answer_seconds = _ANSWER_SECONDS

    def turn(self) -> None:
        """Take up the windows that have ended, and renew the lease.

        Raises:
            GuardError: The journal cannot be written.
        """
        self._mute = set()
        self._collector.poll()
        windows = self._collector.take()
        asked = self._ask() if windows else None
        if asked is not None:
            self._policy, traits = asked
            for number, at_servers in windows:
                self._decide(number, at_servers, self._policy, traits)
        if not self.is_dry_run and self._policy is not None:
            self._renew(self._policy)

    def answering(self) -> "list[Server]":
        """The servers to ask in this turn.

        Returns:
            Those that have answered so far, each with a short time for its answer.
        """
        passed = self._mute.union(self._collector.silent())
        return [server for server in self._prompt() if server.number not in passed]

    def pause(self) -> float:
        """The time until the next turn.

        Returns:
            Half a window, in seconds, and less where a lease would end before.
        """
        return min(max(self._collector.window_seconds or 1.0, 0.1) / 2, _PAUSE_SECONDS_MAX)

    def end(self) -> None:
        """Undo everything."""
        if not self.is_dry_run and self._is_leased:
            self._lease(Wanted(), 0.0, list(self.find()))
        self._write(self.guard.end())

    def _write(self, entries: Sequence[Entry]) -> None:
        for line in self.journal.add(entries, self._window, is_dry_run=self.is_dry_run):
            self.tell(line)

    def _decide(self, number: int, at_servers: "Sequence[Window]", policy: str, traits: list[Traits]) -> None:
        self._window = number
        predicted = self.forecast.predict(number, at_servers) if self.forecast else {}
        seconds = self._collector.window_seconds
        uses = uses_of(at_servers, seconds)
        devices = {device.device for window in at_servers for device in window.devices}
        targets = frozenset(device for device in devices if not device.endswith(METADATA))
        observation = Observation(number, seconds, policy, traits, uses, predicted, targets)
        self._write([*self.guard.decide(observation), *self.guard.left_alone()])

    def _renew(self, policy: str) -> None:
        """Lease the wanted sharing; actions that are refused are taken back."""
        wanted = self.guard.wanted(policy)
        if wanted.is_nothing and not self._is_leased:
            return
        seconds = min(max(LEASE_WINDOWS * self._collector.window_seconds, LEASE_SECONDS_MIN), _LEASE_SECONDS_MAX)
        refusal = self._lease(wanted, seconds, self.answering())
        if refusal is not None:
            self._write(self.guard.refuse(refusal))
            self._lease(self.guard.wanted(policy), seconds, self.answering())

    def _lease(self, wanted: Wanted, seconds: float, servers: "Sequence[Server]") -> str | None:
        """Lease from servers; answers the refusal of one that does not take the lease."""
        from weir.store.answers import LeasedJob
        from weir.store.errors import NotYetError, SilentServerError, StoreError

        if len(wanted.shares) > _JOBS_MAX:
            return f"a lease has at most {_JOBS_MAX} jobs"
        # A job with a weight, also of 1, has an entitlement of its own: servers begin their accounts of shares anew.
        jobs = [
            LeasedJob(*job, None if share.weight == 1 else share.weight, share.limit, share.avoid)
            for job, share in wanted.shares.items()
        ]
        length = 0.0 if wanted.is_nothing else seconds

        def question(server: "Server") -> "Lease":
            return server.set_lease(wanted.policy, jobs, length)

        refusal = None
        for answer in self._asked(servers, question):
            # A server that is silent has no lease for long, and the collector tells of it.
            if isinstance(answer, StoreError) and not isinstance(answer, SilentServerError | NotYetError):
                refusal = answer.message
        self._is_leased = length > 0
        return refusal

    def _ask(self) -> "tuple[str, list[Traits]] | None":
        """The policy that the site has decided, and the jobs of the servers; None where no server answers."""
        from weir.store.errors import StoreError

        def question(server: "Server") -> "tuple[str, tuple[Job, ...]]":
            return server.sharing().policy, server.jobs()

        asked = self._asked(self.answering(), question)
        answers = [answer for answer in asked if not isinstance(answer, StoreError)]
        if not answers:
            return None
        jobs = {job.id: job for _, of_server in answers for job in of_server}
        traits = [
            Traits(JobKey(job.job, job.uid), job.user, job.group, job.nodes, job.priority) for job in jobs.values()
        ]
        # Servers that follow different policies are at a change of the policy; the next window sees its end.
        return answers[0][0], traits

    def _prompt(self) -> "list[Server]":
        """All servers, each with a short time for its answer."""
        return [
            replace(server, timeout_seconds=min(server.timeout_seconds, self._answer_seconds)) for server in self.find()
        ]

    def _asked(
        self, servers: "Sequence[Server]", question: "Callable[[Server], Answer]"
    ) -> "list[Answer | StoreError]":
        """Ask servers, and pass over those that are silent for the rest of the turn."""
        from weir.store.control import ask_all
        from weir.store.errors import SilentServerError

        answers = ask_all(servers, question)
        silent = (isinstance(answer, SilentServerError) for answer in answers)
        self._mute.update(server.number for server, is_silent in zip(servers, silent, strict=True) if is_silent)
        return answers


def uses_of(at_servers: "Sequence[Window]", window_seconds: float) -> dict[str, dict[JobKey, Use]]:
    """The use of each device by each job.

    Args:
        at_servers: A window at each server.
        window_seconds: Length of the window.
    """
    uses: dict[str, dict[JobKey, Use]] = {}
    for window in at_servers:
        for line in window.jobs:
            waited = {JobKey(other.job, other.uid): other.seconds / window_seconds for other in line.waited_for}
            others = line.waited_for_others_seconds / window_seconds
            use = Use(line.device_seconds / window_seconds, waited, others)
            uses.setdefault(line.device, {})[JobKey(line.job, line.uid)] = use
    return uses


def run(watch: Watch, is_over: Callable[[], bool]) -> None:
    """Guard a store until it is over, then undo everything.

    Args:
        is_over: Whether to end.

    Raises:
        GuardError: No server answers at the begin, or the journal cannot be written.
    """
    watch.begin()
    try:
        while not is_over():
            watch.turn()
            until = time.monotonic() + watch.pause()
            while not is_over() and (left := until - time.monotonic()) > 0:
                time.sleep(min(left, _SLICE_SECONDS))
    finally:
        watch.end()
