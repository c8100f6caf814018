"""Deployments that could serve a job: the fewest servers that reach the needed rates, for each class of devices.

A candidate is made for every class and rate of devices and networks (LuxIO, section III-D), once on nodes that are free
now and once on all nodes. A policy chooses among them, and among the deployments that exist.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import msgspec

from weir.provisioning.behaviour.identity import Identity
from weir.provisioning.deployments import TARGET_BYTES, Deployment, Server, target_bytes
from weir.provisioning.jobs.wishes import Wishes
from weir.provisioning.objectives.sslos import Guarantees, Semantics, Sensitivities, Sslo, System
from weir.provisioning.planning.corrections import Corrections
from weir.provisioning.planning.needs import KINDS, IoWork, Kind, Needs, effective, filled, rate, weights
from weir.provisioning.planning.performance import Basis, Expectation, PerformanceModel, devices_of
from weir.provisioning.resources.model import Device, Node, Resources

ENOUGH = 1.01
"""Where no number of servers reaches the needed rates, the fewest servers are taken whose I/O time is at most this
multiple of the least one."""
TARGETS_PER_SERVER_MAX = 64
SERVERS_MAX = 4096
"""Largest number of servers of a store of Weir."""


class Candidate(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A deployment that could serve a job; a policy fills in its price, slowdown and shareability."""

    deployment: Deployment
    io_seconds: float
    """Expected time of the job's I/O."""
    wait_seconds: float
    """Time until the nodes are free."""
    needs: Needs
    """The rates that it should reach: the job's needs, as far as the objective gives them, and the user's wishes."""
    reached: float
    """Part of the needed speed that is reached (`reached`); 1 where all needs are met."""
    basis: Basis
    waits: dict[str, float] = {}
    """Seconds until each node is free that another job holds."""


@dataclass(frozen=True, slots=True)
class Task:
    """A job whose storage is planned."""

    name: str
    """Name of the new deployment."""
    identity: Identity
    work: IoWork
    """The work of the identity."""
    behaviour_class: str
    sslo: Sslo
    """The objective."""
    needs: Needs
    """The job's own needs."""
    allowed_seconds: float
    """Time that the job's I/O may take."""
    size_bytes: int
    seconds: float
    """Time for which the job holds its storage."""
    wishes: Wishes
    corrections: Corrections | None = None
    """The results of earlier runs; None if nothing was measured."""

    def corrected(self, system: System, expected: Expectation) -> Expectation:
        """Correct the expected rates of a system for the job.

        Returns:
            The rates by what earlier runs tell; the same ones where nothing was measured.
        """
        return expected if self.corrections is None else self.corrections.corrected(system, expected, self.identity)


Place = tuple[Node, tuple[Device, ...]]
"""A node with its devices of one kind, those with the most room first."""


class Places:
    """Nodes of a pool, in the order in which they are taken."""

    def __init__(self, places: Sequence[Place]) -> None:
        """Keep the nodes."""
        self._places = tuple(places)
        self._ranked: dict[int, tuple[tuple[Place, ...], list[int]]] = {}
        self.targets_max = min(max((len(devices) for _, devices in places), default=0), TARGETS_PER_SERVER_MAX)

    def __len__(self) -> int:
        """Number of nodes."""
        return len(self._places)

    def _with(self, targets: int) -> tuple[tuple[Place, ...], list[int]]:
        """The nodes with that many devices, and the sorted rooms of the last of these devices."""
        if targets not in self._ranked:
            fitting = tuple(each for each in self._places if len(each[1]) >= targets)[:SERVERS_MAX]
            self._ranked[targets] = (fitting, sorted(devices[targets - 1].room for _, devices in fitting))
        return self._ranked[targets]

    def counts(self, size_bytes: int, targets: int) -> Sequence[int]:
        """Numbers of servers that have room for a store.

        Args:
            targets: Targets of each server, which are equal.

        Returns:
            The numbers, the least first.
        """
        _, rooms = self._with(targets)
        if not rooms:
            return ()
        if rooms[0] == rooms[-1]:
            whole = rooms[0] // TARGET_BYTES * TARGET_BYTES * targets
            return range(max(1, -(-size_bytes // whole)), len(rooms) + 1)
        return [
            count
            for count in range(1, len(rooms) + 1)
            if len(rooms) - bisect_left(rooms, target_bytes(size_bytes, count * targets)) >= count
        ]

    def take(self, size_bytes: int, servers: int, targets: int) -> list[Place]:
        """Take nodes for a store.

        Args:
            servers: Number of servers, one of `counts`.
            targets: Targets of each server.

        Returns:
            The first nodes that have room.
        """
        needed = target_bytes(size_bytes, servers * targets)
        able = (each for each in self._with(targets)[0] if each[1][targets - 1].room >= needed)
        return list(islice(able, servers))


@dataclass(frozen=True, slots=True)
class Pool:
    """Equal devices of nodes with equal networks."""

    kind: str
    read_bytes_per_second: float | None
    write_bytes_per_second: float | None
    network_bytes_per_second: float | None
    encrypted: bool
    free: Places
    """The nodes that are free now."""
    all: Places
    """All nodes, those that are free first at the front."""


_Key = tuple[str, float, float, float, bool]


def pools(resources: Resources) -> tuple[Pool, ...]:
    """Sort devices by class and rate.

    Returns:
        The pools, by the names of their classes.
    """
    found: dict[_Key, list[Place]] = {}
    for node in resources.nodes:
        if not node.usable:
            continue
        own: dict[_Key, list[Device]] = {}
        for device in node.devices:
            if device.room >= TARGET_BYTES:
                # Zero stands for an unknown rate, as None has no order.
                rates = (device.read_bytes_per_second or 0.0, device.write_bytes_per_second or 0.0)
                key = (device.kind, *rates, node.network_bytes_per_second or 0.0, device.encrypted)
                own.setdefault(key, []).append(device)
        for key, devices in own.items():
            devices.sort(key=lambda each: (-each.room, each.path))
            found.setdefault(key, []).append((node, tuple(devices)))
    return tuple(_pool(key, nodes) for key, nodes in sorted(found.items()))


def _pool(key: _Key, nodes: Sequence[Place]) -> Pool:
    order = sorted(nodes, key=lambda each: (each[0].free_in_seconds, -each[1][0].room, each[0].name))
    kind, read, write, network, encrypted = key
    free = Places([each for each in order if each[0].free_in_seconds == 0])
    return Pool(kind, read or None, write or None, network or None, encrypted, free, Places(order))


def candidates(task: Task, model: PerformanceModel, found: Sequence[Pool]) -> list[Candidate]:
    """Find the new deployments that could serve a job.

    Args:
        found: The pools of the resources.

    Returns:
        The candidates; empty where no device has room.
    """
    wanted = task.wishes.devices
    return [each for pool in found if not wanted or pool.kind in wanted for each in _of_pool(task, model, pool)]


def _of_pool(task: Task, model: PerformanceModel, pool: Pool) -> Iterator[Candidate]:
    now = _fewest(task, model, pool, pool.free)
    if now is not None:
        yield now
    # Waiting is of use only where it brings more than the free nodes give.
    if len(pool.free) < len(pool.all) and (now is None or now.reached < 1):
        later = _fewest(task, model, pool, pool.all)
        if later is not None and (now is None or later.io_seconds < now.io_seconds / ENOUGH):
            yield later


@dataclass(frozen=True, slots=True)
class _Trial:
    """A system in the search for the fewest servers."""

    system: System
    expected: Expectation
    rates: Guarantees
    """Effective rates for the job."""
    io_seconds: float
    reached: float


def _best_trial(task: Task, model: PerformanceModel, pool: Pool, servers: int, targets: int) -> _Trial:
    """The configuration with the least I/O time; of equal ones the first, so that a choice is repeatable."""
    bare = _system(task, pool, servers, targets)
    seconds, system, expected = min(
        (
            (task.work.seconds(expected.guarantees, expected.sensitivities), system, expected)
            for system, known in model.configured(bare, **_device_rates(pool))
            for expected in (task.corrected(system, known),)
        ),
        key=lambda each: each[0],
    )
    rates = effective(task.identity, expected.guarantees, expected.sensitivities)
    part = reached(task, expected.guarantees, expected.sensitivities)
    return _Trial(system, expected, rates, seconds, part)


def _device_rates(pool: Pool) -> dict[str, float | None]:
    return {
        "device_read_bytes_per_second": pool.read_bytes_per_second,
        "device_write_bytes_per_second": pool.write_bytes_per_second,
    }


def _system(task: Task, pool: Pool, servers: int, targets: int) -> System:
    return System(
        kind=task.wishes.system,
        device=pool.kind,
        network_bytes_per_second=pool.network_bytes_per_second,
        servers=servers,
        targets_per_server=targets,
    )


def needs_beside(task: Task, sensitivities: Sensitivities) -> Needs:
    """The rates that a system should reach: the job's needs as far as the objective gives them, and the user's wishes.

    Args:
        sensitivities: The system's sensitivities. They stand for those of the objective that were not measured: else
            a system would have to be fast under conditions for which the objective promises nothing.

    Returns:
        The rates; None for kinds of work for which the objective has no rate.
    """
    given = effective(task.identity, task.sslo.guarantees, filled(task.sslo.sensitivities, sensitivities))

    def needed(kind: Kind) -> float | None:
        wanted, offered = task.needs.rate(kind), rate(given, kind)
        return None if wanted is None or offered is None else min(wanted, offered)

    return Needs(
        read_bytes_per_second=task.wishes.read_bytes_per_second or needed("read"),
        write_bytes_per_second=task.wishes.write_bytes_per_second or needed("write"),
        metadata_operations_per_second=needed("metadata"),
    )


def reached(task: Task, guarantees: Guarantees, sensitivities: Sensitivities) -> float:
    """The part of the needed speed that a system reaches.

    The job's I/O should take no longer than it may, or than a system as the objective's takes for it. Kinds of work for
    which the objective has no rate are left out, with their part of the time. The rates that the user asked for hold.

    Args:
        guarantees: The system's rates.
        sensitivities: The system's sensitivities; they stand for those of the objective that were not measured.

    Returns:
        A number from 0 to 1; a kind of unknown rate counts as reached.
    """
    promised = task.sslo.guarantees
    known = [kind for kind in KINDS if rate(promised, kind)]
    taken = task.work.seconds(guarantees, sensitivities, among=known)
    parts = weights(task.identity)
    most = max(
        task.allowed_seconds * sum(parts.get(kind, 0.0) for kind in known),
        task.work.seconds(promised, filled(task.sslo.sensitivities, sensitivities)),
    )
    rates = effective(task.identity, guarantees, sensitivities)
    asked = (
        (task.wishes.read_bytes_per_second, rates.read_bytes_per_second),
        (task.wishes.write_bytes_per_second, rates.write_bytes_per_second),
    )
    found = [got / least for least, got in asked if least and got is not None]
    return min([1.0, *found, *([most / taken] if taken > 0 else [])])


def _fewest(task: Task, model: PerformanceModel, pool: Pool, places: Places) -> Candidate | None:
    """The candidate with the fewest devices that meets the needs; one device on each server as far as there are nodes.

    More devices of a node serve a job only where one device of each node is not enough.
    """
    best: Candidate | None = None
    for targets in range(1, places.targets_max + 1):
        made = _fewest_servers(task, model, pool, places, targets)
        if made is not None and (best is None or (made.reached, -made.io_seconds) > (best.reached, -best.io_seconds)):
            best = made
        if best is not None and best.reached >= 1:
            break
    return best


def _fewest_servers(task: Task, model: PerformanceModel, pool: Pool, places: Places, targets: int) -> Candidate | None:
    counts = places.counts(task.size_bytes, targets)
    if not counts or model.expect(_system(task, pool, 1, targets), **_device_rates(pool)) is None:
        return None

    def at(place: int) -> _Trial:
        return _best_trial(task, model, pool, counts[place], targets)

    best = _first(at, len(counts), lambda each: each.reached >= 1)
    if best is None:
        top = at(len(counts) - 1)
        best = _first(at, len(counts), lambda each: each.io_seconds <= top.io_seconds * ENOUGH) or top
    return _candidate(task, pool, best, places.take(task.size_bytes, best.system.servers, targets))


def _first(at: Callable[[int], _Trial], count: int, is_enough: Callable[[_Trial], bool]) -> _Trial | None:
    """The first trial that is enough, where all behind one that is enough are so too.

    The step doubles from the small end, because most jobs need few servers.
    """
    low, high = 0, 0
    while not is_enough(found := at(high)):
        if high == count - 1:
            return None
        low, high = high + 1, min(2 * high + 1, count - 1)
    best = found
    while low < high:
        middle = (low + high) // 2
        found = at(middle)
        if is_enough(found):
            high, best = middle, found
        else:
            low = middle + 1
    return best


def _candidate(task: Task, pool: Pool, trial: _Trial, chosen: Sequence[Place]) -> Candidate:
    system, expected = trial.system, trial.expected
    capacity = target_bytes(task.size_bytes, devices_of(system))
    servers = tuple(
        Server(
            node=node.name,
            devices=tuple(device.path for device in devices[: system.targets_per_server] if device.path),
            target_bytes=capacity,
        )
        for node, devices in chosen
    )
    directives = task.wishes.directives
    return Candidate(
        deployment=Deployment(
            name=task.name,
            identity=task.identity.name,
            behaviour_class=task.behaviour_class,
            sslo=task.sslo.name,
            policy=task.wishes.policy,
            system=system,
            servers=servers,
            shareable=False,
            lease_seconds=directives.lease_seconds or 0.0,
            size_bytes=task.size_bytes,
            semantics=Semantics(encrypted=pool.encrypted, durable=pool.kind != "memory"),
            expected=msgspec.structs.replace(trial.rates, capacity_bytes=capacity * devices_of(system)),
            stage_in=directives.stage_in,
            stage_out=directives.stage_out,
        ),
        io_seconds=trial.io_seconds,
        wait_seconds=max(node.free_in_seconds for node, _ in chosen),
        waits={node.name: node.free_in_seconds for node, _ in chosen if node.free_in_seconds > 0},
        needs=needs_beside(task, expected.sensitivities),
        reached=trial.reached,
        basis=expected.basis,
    )
