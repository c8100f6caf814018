"""The targets for files: those of a Weir store, from its control API, and Lustre's OSTs, from their statistics."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from weir.lustre.view import View
    from weir.store.answers import Status

TARGET_BYTES_PER_SECOND = float(1 << 30)
"""Speed of targets in a store without a measured rate: only the ratios of speeds count."""
_BACKLOG_SECONDS = 1.0
"""Length of a queue that is gone before the next run, and does not concern its files."""
_HORIZON_SECONDS = 1.0
"""Duration of future traffic; without effect, because the store's traffic is in its backlog and none is added."""


@dataclass(frozen=True, slots=True)
class Target:
    """One target that can take stripes."""

    name: str
    """Name of the target: `3.1` on a Weir store, `14` on Lustre."""
    server: str
    """Name of the target's server."""
    free_bytes: int
    total_bytes: int
    speed: float = 1.0
    """Bytes a second, or any number in proportion to it for all targets; lower for a fuller target."""
    load_bytes: float = 0.0
    """Bytes that wait for the target, or will come in any case."""


@dataclass(frozen=True, slots=True)
class Targets:
    """All targets that can take stripes, and the load of their servers."""

    each: tuple[Target, ...]
    server_speeds: Mapping[str, float] = field(default_factory=dict)
    """Speed of each server, in the unit of its targets' speeds; an absent server never limits its targets."""
    server_loads_bytes: Mapping[str, float] = field(default_factory=dict)
    """Bytes that wait for each server, or will come in any case."""
    server_busy: Mapping[str, float] = field(default_factory=dict)
    """Used part of each server, by its busiest resource, from 0 to 1: the paper's cost of reaching a target."""


def targets_of_store(statuses: "Sequence[Status]") -> Targets:
    """Make the targets of a store.

    Args:
        statuses: The status of each server.

    Returns:
        The targets, with their free space, speed and backlog.
    """
    from statistics import median

    from weir import _core

    known = [(str(status.server), target) for status in statuses for target in status.targets]
    seen = [target.expected_bytes_per_second for _, target in known if target.expected_bytes_per_second]
    usual = median(seen) if seen else TARGET_BYTES_PER_SECOND
    total = [target.capacity_bytes for _, target in known]
    free = [max(target.capacity_bytes - target.used_bytes, 0) for _, target in known]
    # A server counts as fast as its targets together, so that all of them may work at once.
    busy = {
        str(status.server): (status.load.processors, status.load.memory, status.load.network) for status in statuses
    }
    speeds, loads, server_speeds, server_loads = _core.speeds_and_loads(
        [server for server, _ in known],
        expected_bytes_per_second=usual,
        health=[target.speed_ratio for _, target in known],
        traffic_bytes_per_second=[0.0] * len(known),
        total_bytes=total,
        free_bytes=free,
        busy=busy,
        horizon_seconds=_HORIZON_SECONDS,
        backlog_seconds=[target.backlog_seconds for _, target in known],
        backlog_usual_seconds=_BACKLOG_SECONDS,
    )
    rows = zip(known, free, total, speeds, loads, strict=True)
    return Targets(
        tuple(
            Target(target.target, server, room, size, speed, load) for (server, target), room, size, speed, load in rows
        ),
        server_speeds,
        server_loads,
        {name: _busiest(parts) for name, parts in busy.items()},
    )


def targets_of_lustre(view: "View") -> Targets:
    """Make the targets of a Lustre file system.

    Args:
        view: The file system.

    Returns:
        The targets; the name of each is its OST index.
    """
    inputs = view.inputs()
    rows = zip(view.targets, inputs["speeds"], inputs["loads_bytes"], strict=True)
    each = tuple(
        Target(str(target.index), target.server, target.available_bytes, target.total_bytes, speed, load)
        for target, speed, load in rows
    )
    busy = {name: _busiest((server.cpu_fraction, server.memory_fraction)) for name, server in view.servers.items()}
    return Targets(each, inputs["server_speeds"], inputs["server_loads_bytes"], busy)


def _busiest(parts: Sequence[float | None]) -> float:
    return max(part or 0.0 for part in parts)
