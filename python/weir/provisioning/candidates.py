"""Deployments that could serve a job: the fewest servers that reach the needed rates, for each class of devices.

A candidate is made for every class and rate of devices and networks (LuxIO, section III-D), once on nodes that are free
now and once on all nodes. A policy chooses among them, and among the deployments that exist.
"""

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from weir.provisioning.deployments import Deployment, Server
from weir.provisioning.identity import Identity
from weir.provisioning.needs import Needs, effective, io_seconds, reached
from weir.provisioning.performance import Basis, Expectation, PerformanceModel
from weir.provisioning.resources import Device, Node, Resources
from weir.provisioning.sslos import Guarantees, Semantics, System
from weir.provisioning.wishes import Wishes

TARGET_BYTES = 1 << 20
"""Capacities of targets are multiples."""
ENOUGH = 1.01
"""Where no number of servers reaches the needed rates, the fewest servers are taken whose I/O time is at most this
multiple of the least one."""
TARGETS_PER_SERVER_MAX = 64
SERVERS_MAX = 4096
"""A store of Weir has at most so many servers."""


class Candidate(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A deployment that could serve a job; a policy fills in its price, slowdown and shareability."""

    deployment: Deployment
    io_seconds: float
    """Expected time of the job's I/O."""
    wait_seconds: float
    """Time until the nodes are free."""
    reached: float
    """Least part of a needed rate that is reached; 1 where all needs are met."""
    basis: Basis


@dataclass(frozen=True, slots=True)
class Task:
    """A job whose storage is planned."""

    name: str
    """Name of the new deployment."""
    identity: Identity
    behaviour_class: str
    sslo: str
    needs: Needs
    size_bytes: int
    measured_devices: int
    """Devices of the objective's system, for which the configuration is chosen."""
    seconds: float
    """Time for which the job holds its storage."""
    wishes: Wishes


@dataclass(frozen=True, slots=True)
class Pool:
    """Equal devices of nodes with equal networks, with the nodes that are free first at the front."""

    kind: str
    read_bytes_per_second: float | None
    write_bytes_per_second: float | None
    network_bytes_per_second: float | None
    encrypted: bool
    nodes: tuple[tuple[Node, tuple[Device, ...]], ...]
    """Nodes with their devices, those with the most room first."""


_Key = tuple[str, float, float, float, bool]


def pools(resources: Resources) -> tuple[Pool, ...]:
    """Sort devices by class and rate.

    Args:
        resources: The resources.

    Returns:
        The pools, by the names of their classes.
    """
    found: dict[_Key, list[tuple[Node, tuple[Device, ...]]]] = {}
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
    return tuple(
        Pool(
            key[0],
            key[1] or None,
            key[2] or None,
            key[3] or None,
            key[4],
            tuple(sorted(nodes, key=lambda each: (each[0].free_in_seconds, -each[1][0].room, each[0].name))),
        )
        for key, nodes in sorted(found.items())
    )


def candidates(task: Task, model: PerformanceModel, found: Sequence[Pool]) -> list[Candidate]:
    """Find the new deployments that could serve a job.

    Args:
        task: The job.
        model: The performance model.
        found: The pools of the resources.

    Returns:
        The candidates; empty where no device has room.
    """
    wanted = task.wishes.devices
    return [each for pool in found if not wanted or pool.kind in wanted for each in _of_pool(task, model, pool)]


def _of_pool(task: Task, model: PerformanceModel, pool: Pool) -> Iterator[Candidate]:
    free = tuple(each for each in pool.nodes if each[0].free_in_seconds == 0)
    settings = _best_settings(task, model, pool)
    now = _fewest(task, model, pool, free, settings)
    if now is not None:
        yield now
    # Waiting is of use only where it brings more than the free nodes give.
    if len(free) < len(pool.nodes) and (now is None or now.reached < 1):
        later = _fewest(task, model, pool, pool.nodes, settings)
        if later is not None and (now is None or later.io_seconds < now.io_seconds / ENOUGH):
            yield later


def _best_settings(task: Task, model: PerformanceModel, pool: Pool) -> Mapping[str, str]:
    """The configuration with the least I/O time; of equal ones the first, so that a choice is repeatable."""
    configurations = model.configurations(task.wishes.system, pool.kind)
    if len(configurations) == 1:
        return configurations[0]

    def seconds(settings: Mapping[str, str]) -> float:
        expected = _expect(model, pool, _system(task, pool, task.measured_devices, 1, settings))
        return 0.0 if expected is None else io_seconds(task.identity, _rates(task, expected))

    return min(configurations, key=seconds)


def _system(task: Task, pool: Pool, servers: int, targets: int, settings: Mapping[str, str]) -> System:
    return System(
        kind=task.wishes.system,
        device=pool.kind,
        network_bytes_per_second=pool.network_bytes_per_second,
        servers=servers,
        targets_per_server=targets,
        settings=dict(settings),
    )


def _expect(model: PerformanceModel, pool: Pool, system: System) -> Expectation | None:
    return model.expect(
        system,
        device_read_bytes_per_second=pool.read_bytes_per_second,
        device_write_bytes_per_second=pool.write_bytes_per_second,
    )


def _rates(task: Task, expected: Expectation) -> Guarantees:
    return effective(task.identity, expected.guarantees, expected.sensitivities)


def _fewest(
    task: Task,
    model: PerformanceModel,
    pool: Pool,
    nodes: Sequence[tuple[Node, tuple[Device, ...]]],
    settings: Mapping[str, str],
) -> Candidate | None:
    """The candidate with the fewest devices that meets the needs; one device on each server as far as there are nodes.

    More devices of a node serve a job only where one device of each node is not enough.
    """
    best: Candidate | None = None
    most = max((len(devices) for _, devices in nodes), default=0)
    for targets in range(1, min(most, TARGETS_PER_SERVER_MAX) + 1):
        fitting = [each for each in nodes if len(each[1]) >= targets][:SERVERS_MAX]
        made = _fewest_servers(task, model, pool, fitting, targets, settings)
        if made is not None and (best is None or (made.reached, -made.io_seconds) > (best.reached, -best.io_seconds)):
            best = made
        if best is not None and best.reached >= 1:
            break
    return best


def _fewest_servers(
    task: Task,
    model: PerformanceModel,
    pool: Pool,
    nodes: Sequence[tuple[Node, tuple[Device, ...]]],
    targets: int,
    settings: Mapping[str, str],
) -> Candidate | None:
    known: dict[int, tuple[float, float, Expectation]] = {}

    def at(servers: int) -> tuple[float, float, Expectation] | None:
        if servers not in known:
            expected = _expect(model, pool, _system(task, pool, servers, targets, settings))
            if expected is None:
                return None
            rates = _rates(task, expected)
            known[servers] = (reached(task.needs, rates), io_seconds(task.identity, rates), expected)
        return known[servers]

    rooms = sorted(devices[targets - 1].room for _, devices in nodes)
    counts = [
        count
        for count in range(1, len(nodes) + 1)
        if len(rooms) - bisect_left(rooms, _target_bytes(task.size_bytes, count * targets)) >= count
    ]
    if not counts or (top := at(counts[-1])) is None:
        return None

    def enough(servers: int) -> bool:
        found = at(servers)
        assert found is not None
        return found[0] >= 1 if top[0] >= 1 else found[1] <= top[1] * ENOUGH

    low, high = 0, len(counts) - 1
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(counts[middle]) else (middle + 1, high)
    servers = counts[low]
    part, seconds, expected = known.get(servers) or top
    target_bytes = _target_bytes(task.size_bytes, servers * targets)
    chosen = [each for each in nodes if each[1][targets - 1].room >= target_bytes][:servers]
    rates = _rates(task, expected)
    return Candidate(
        deployment=Deployment(
            name=task.name,
            identity=task.identity.name,
            behaviour_class=task.behaviour_class,
            sslo=task.sslo,
            policy=task.wishes.policy,
            system=_system(task, pool, servers, targets, settings),
            servers=tuple(
                Server(
                    node=node.name,
                    devices=tuple(device.path for device in devices[:targets] if device.path),
                    target_bytes=target_bytes,
                )
                for node, devices in chosen
            ),
            shareable=False,
            lease_seconds=task.wishes.directives.lease_seconds or 0.0,
            size_bytes=task.size_bytes,
            stage_in=task.wishes.directives.stage_in,
            stage_out=task.wishes.directives.stage_out,
            semantics=Semantics(encrypted=pool.encrypted, durable=pool.kind != "memory"),
            expected=msgspec.structs.replace(rates, capacity_bytes=target_bytes * servers * targets),
        ),
        io_seconds=seconds,
        wait_seconds=max(node.free_in_seconds for node, _ in chosen),
        reached=part,
        basis=expected.basis,
    )


def _target_bytes(size: int, targets: int) -> int:
    return -(-size // (targets * TARGET_BYTES)) * TARGET_BYTES
