"""The loop of the guard: it reads the windows of a store, has them judged, and leases the wanted sharing."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from weir.guard.decisions import Entry, Guard, Wanted
from weir.guard.errors import GuardError
from weir.guard.journal import Journal
from weir.guard.observations import Observation, Traits, Use
from weir.interference.collector import Collector

if TYPE_CHECKING:
    from weir.guard.forecast import Forecast
    from weir.guard.served import Served
    from weir.store.answers import Job, Lease
    from weir.store.control import Server
    from weir.store.observations import Window

LEASE_WINDOWS = 4
"""A lease outlives so many windows without a renewal."""
LEASE_SECONDS_MIN = 3.0
_LEASE_SECONDS_MAX = 60.0
_JOBS_MAX = 64
"""Most jobs of a lease."""


@dataclass
class Watch:
    """The guard of a running store.

    Attributes:
        find: Finds the servers there are now.
        token: Token of the site's key.
        guard: The decisions.
        journal: The journal.
        tell: Takes each line of the journal.
        warn: Takes a line about each loss.
        forecast: Predicts slowdowns; None is the truth of the last window.
        is_dry_run: Whether nothing is done.
    """

    find: "Callable[[], Sequence[Server]]"
    token: str
    guard: Guard
    journal: Journal
    tell: Callable[[dict[str, Any]], None]
    warn: Callable[[str], None]
    forecast: "Forecast | Served | None" = None
    is_dry_run: bool = False
    _collector: Collector = field(init=False)
    _is_leased: bool = False
    _window: int = 0

    def __post_init__(self) -> None:
        """Begin with the windows that end from now on."""
        self._collector = Collector(self.find, self.token, self.warn)

    def begin(self) -> None:
        """Give back what a guard that was killed has left, and pass over the windows that have ended.

        Raises:
            StoreError: No server answers.
        """
        from weir.store.control import Server, ask_all
        from weir.store.errors import StoreError

        servers = list(self.find())
        answers = ask_all(servers, Server.status)
        if servers and all(isinstance(answer, StoreError) for answer in answers):
            raise GuardError("no server of the store answers", hint="see `weir status`")
        if not self.is_dry_run:
            self._lease(Wanted(), 0.0)
        self._collector.poll()
        self._collector.take()

    def turn(self) -> None:
        """Take up the windows that have ended, and renew the lease.

        Raises:
            GuardError: The journal cannot be written.
        """
        self._collector.poll()
        windows = self._collector.take()
        if not windows:
            return
        policy, jobs = self._ask()
        traits = [
            Traits(job.job, job.user, job.group, job.nodes, job.priority)
            for job in {job.id: job for job in jobs}.values()
        ]
        for number, at_servers in windows:
            self._window = number
            predicted = self.forecast.predict(number, at_servers) if self.forecast else {}
            uses = uses_of(at_servers, self._collector.window_seconds)
            seconds = self._collector.window_seconds
            self._write(self.guard.decide(Observation(number, seconds, policy, traits, uses, predicted)))
        if self.is_dry_run:
            return
        wanted = self.guard.wanted(policy)
        seconds = min(max(LEASE_WINDOWS * self._collector.window_seconds, LEASE_SECONDS_MIN), _LEASE_SECONDS_MAX)
        refusal = None if wanted.is_nothing and not self._is_leased else self._lease(wanted, seconds)
        if refusal is not None:
            self._write(self.guard.refuse(refusal))
            self._lease(self.guard.wanted(policy), seconds)

    def pause(self) -> float:
        """The time until the next turn.

        Returns:
            Half a window, in seconds.
        """
        return max(self._collector.window_seconds or 1.0, 0.1) / 2

    def end(self) -> None:
        """Undo everything."""
        if not self.is_dry_run and self._is_leased:
            self._lease(Wanted(), 0.0)
        self._write(self.guard.end())

    def _write(self, entries: Sequence[Entry]) -> None:
        for line in self.journal.add(entries, self._window, is_dry_run=self.is_dry_run):
            self.tell(line)

    def _lease(self, wanted: Wanted, seconds: float) -> str | None:
        """Lease from every server; answers the refusal of one that does not take the lease."""
        from weir.store.answers import LeasedJob
        from weir.store.control import Server, ask_all
        from weir.store.errors import SilentServerError, StoreError

        given = list(wanted.shares.items())[:_JOBS_MAX]
        jobs = [LeasedJob(name, share.weight, share.limit) for name, share in given]
        length = 0.0 if wanted.is_nothing else seconds

        def question(server: Server) -> "Lease":
            return server.set_lease(wanted.policy, jobs, length, self.token)

        refusal = None
        for answer in ask_all(list(self.find()), question):
            # A server that is silent has no lease for long, and the collector tells of it.
            if isinstance(answer, StoreError) and not isinstance(answer, SilentServerError):
                refusal = answer.message
        self._is_leased = length > 0
        return refusal

    def _ask(self) -> "tuple[str, list[Job]]":
        """The policy that the site has decided, and the jobs of each server."""
        from weir.store.control import Server, ask_all
        from weir.store.errors import StoreError

        servers = list(self.find())
        policies = [answer.policy for answer in ask_all(servers, Server.sharing) if not isinstance(answer, StoreError)]
        answers = ask_all(servers, Server.jobs)
        jobs = [job for answer in answers if not isinstance(answer, StoreError) for job in answer]
        # Servers that follow different policies are at a change of the policy; the next window sees its end.
        return (policies[0] if policies else "fifo"), jobs


def uses_of(at_servers: "Sequence[Window]", window_seconds: float) -> dict[str, dict[str, Use]]:
    """The use of each device by each job.

    Args:
        at_servers: A window at each server.
        window_seconds: Length of the window.

    Returns:
        Uses by device and by the name of the job.
    """
    uses: dict[str, dict[str, Use]] = {}
    for window in at_servers:
        for line in window.jobs:
            at_device = uses.setdefault(line.device, {})
            before = at_device.get(line.job, Use(0.0))
            waited = dict(before.waited_for)
            for other in line.waited_for:
                # Jobs of one name wait for each other too; they have one share.
                if other.job != line.job:
                    waited[other.job] = waited.get(other.job, 0.0) + other.seconds / window_seconds
            others = before.waited_for_others + line.waited_for_others_seconds / window_seconds
            at_device[line.job] = Use(before.received + line.device_seconds / window_seconds, waited, others)
    return uses


def run(watch: Watch, is_over: Callable[[], bool]) -> None:
    """Guard a store until it is over, then undo everything.

    Args:
        watch: The guard.
        is_over: Whether to end.

    Raises:
        GuardError: No server answers at the begin, or the journal cannot be written.
    """
    watch.begin()
    try:
        while not is_over():
            watch.turn()
            time.sleep(watch.pause())
    finally:
        watch.end()
