"""The questions to a store: all servers, hosts and helpers at once, with one bound for all of them.

A question that is not answered in time is left behind in a thread that ends with the process.
"""

import contextlib
import os
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from weir import distribution
from weir.deployment import deployment, record
from weir.health import upkeep
from weir.health.facts import CredentialFacts, Facts, GuardFacts, MountFacts, PlannerFacts, ServerFacts
from weir.store import cluster, mounts, processes, units
from weir.store.access import own_access
from weir.store.configuration import read_toml
from weir.store.control import servers_of
from weir.store.errors import StoreError
from weir.store.home import Home, find_cluster
from weir.store.processes import Process

if TYPE_CHECKING:
    from weir.deployment.operations import State
    from weir.store.control import Server

ANSWER_SECONDS = 1.5
"""Longest wait for all answers together: with the start of the program it answers within 2 s."""
PATIENT_SECONDS = 10.0
"""The same where nobody waits for it: a busy host takes its time."""
_MARGIN_SECONDS = 0.2
"""Time between the bound of hosts, all of which are told of at once, and that of all answers."""
_INTERVAL_SECONDS = 0.5
"""Interval of the servers' exchange where no configuration can be read."""
_LISTENS = " listens on "
"""Words of a server's log that tell of a start."""


def gather(home: Home, seconds: float = ANSWER_SECONDS, *, with_hosts: bool = True) -> Facts:
    """Ask everybody.

    Args:
        home: Home of the store, or any home where WEIR_CLUSTER names it.
        seconds: Longest wait for all answers together.
        with_hosts: Whether also hosts, mounts and helpers are asked, beside the servers.

    Returns:
        The facts that are known by then.

    Raises:
        StoreError: No store is up.
    """
    return _Gathering(home, seconds).facts(with_hosts=with_hosts)


class _Gathering:
    """One round of questions."""

    def __init__(self, home: Home, seconds: float) -> None:
        self._home = home
        self._seconds = seconds
        self._deadline = time.monotonic() + seconds
        self._now = time.time()
        cluster_file = find_cluster(home)
        self._is_own = home.owns(cluster_file) and os.access(home.root, os.R_OK)
        self._described = record.read(home) if self._is_own else None
        access = None
        with contextlib.suppress(StoreError):
            access = own_access(home)
        hosts = {} if self._described is None else record.hosts_by_server(self._described)
        servers = servers_of(cluster_file, access, timeout_seconds=seconds)
        self._servers = [ServerFacts(server, hosts.get(server.number)) for server in servers]
        self._mounts: list[MountFacts] = []
        self._hosts: dict[str, State | StoreError] = {}
        self._planner: PlannerFacts | None = None
        self._guard: GuardFacts | None = None
        self._credentials: list[CredentialFacts] = []

    def facts(self, *, with_hosts: bool) -> Facts:
        """Ask, wait until the deadline at most, and take what is known."""
        questions: list[Callable[[], None]] = [partial(self._ask, each) for each in self._servers]
        if with_hosts:
            questions += [self._ask_hosts, self._look_at_mounts, self._ask_planner, self._look_here]
        _all_within(questions, self._deadline)
        hosts = dict(self._hosts)
        if with_hosts and self._described is not None:
            late = StoreError(f"no answer within {self._seconds:g} s", hint="")
            hosts = {host: hosts.get(host, late) for host in self._described.hosts()}
        return Facts(
            home=self._home.root,
            now=self._now,
            seconds=self._seconds,
            version=distribution.version(),
            interval_seconds=_interval(self._home),
            is_deployed=self._described is not None,
            servers=tuple(_with_host(each, hosts) for each in self._servers),
            mounts=(*self._mounts, *_mounts_of(hosts)),
            hosts=hosts,
            credentials=tuple(self._credentials),
            planner=self._planner,
            guard=self._guard,
        )

    def _left(self) -> float:
        return max(self._deadline - time.monotonic(), 0.01)

    def _ask(self, facts: ServerFacts) -> None:
        """Ask one server one question after the other; each answer counts as soon as it is there."""
        self._look_at_process(facts)
        begun = time.time()
        try:
            status = self._prompt(facts).status()
        except StoreError as error:
            facts.error = error
            self._look_at_end(facts)
            return
        facts.asked = (begun, time.time())
        facts.status = status
        with contextlib.suppress(StoreError):
            facts.jobs = self._prompt(facts).jobs()
            access = facts.server.access
            if access is not None and access.is_administrator:
                facts.lease = self._prompt(facts).lease()
                facts.quotas = self._prompt(facts).quotas()

    def _look_at_process(self, facts: ServerFacts) -> None:
        """Look whether the process of a server of this host runs."""
        number = facts.server.number
        if facts.host is None and self._is_own and self._home.server(number).is_dir():
            process = Process.recorded(self._home.record(number))
            facts.is_running = process is not None and process.is_alive()
            facts.unit = units.unit_of(self._home, number)

    def _look_at_end(self, facts: ServerFacts) -> None:
        """Find out why a server of this host has ended, and what starts it again."""
        if facts.is_running is not False:
            return
        number = facts.server.number
        facts.last_error = _last_error(self._home, number)
        facts.unit = units.enabled_unit(self._home, number)
        with contextlib.suppress(StoreError):
            configuration = self._home.configuration
            facts.refusal = cluster.places_fault(self._home, number, configuration, seconds=self._left())

    def _prompt(self, facts: ServerFacts) -> "Server":
        return replace(facts.server, timeout_seconds=self._left())

    def _ask_hosts(self) -> None:
        if self._described is not None:
            try:
                self._hosts = deployment.states(self._described, seconds=max(self._left() - _MARGIN_SECONDS, 0.1))
            except StoreError as error:
                self._hosts = dict.fromkeys(self._described.hosts(), error)

    def _look_at_mounts(self) -> None:
        if self._described is None:
            self._mounts = [MountFacts(str(each.point), each.is_served()) for each in mounts.mounts_of(self._home)]

    def _ask_planner(self) -> None:
        self._planner = upkeep.planner(self._left())

    def _look_here(self) -> None:
        if self._is_own:
            self._guard = upkeep.dead_guard(self._home)
            self._credentials = upkeep.credentials(self._home)


def _all_within(questions: Sequence[Callable[[], None]], deadline: float) -> None:
    """Ask all questions at once, and wait for those that are answered in time.

    Raises:
        Exception: The first unexpected error of a question.
    """
    errors: list[Exception] = []

    def ask(question: Callable[[], None]) -> None:
        try:
            question()
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=ask, args=(question,), daemon=True) for question in questions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(deadline - time.monotonic(), 0.0))
    if errors:
        raise errors[0]


def _interval(home: Home) -> float:
    with contextlib.suppress(StoreError, OSError, KeyError, TypeError, ValueError):
        return float(read_toml(home.configuration)["lambda_milliseconds"]) / 1e3
    return _INTERVAL_SECONDS


def _last_error(home: Home, number: int) -> tuple[str, str] | None:
    """The last error in the log of a server since it listened last."""
    log = home.log(number)
    if not log.is_file():
        return None
    lines = [line.strip() for line in processes.words_since(log, 0)]
    start = max((place for place, line in enumerate(lines) if _LISTENS in line), default=-1)
    return processes.error_in(lines[start + 1 :])


def _with_host(facts: ServerFacts, hosts: "dict[str, State | StoreError]") -> ServerFacts:
    """The facts about a server with what its host tells."""
    state = hosts.get(facts.host or "")
    if state is None or isinstance(state, StoreError):
        return replace(facts)
    number = facts.server.number
    unit = units.name_of(number) if number in state.units else None
    return replace(facts, is_running=number in state.running, unit=unit)


def _mounts_of(hosts: "dict[str, State | StoreError]") -> list[MountFacts]:
    return [
        MountFacts(mount.point, mount.served, host)
        for host, state in hosts.items()
        if not isinstance(state, StoreError)
        for mount in state.mounts
    ]
