"""The targets that files can be placed on: of a Weir store by its control API, of Lustre by what is known of OSTs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from weir.placement.statistics.view import View

HEALTH_LEAST = 0.01
"""A target that achieves nothing still gets a stripe now and then, or it could never recover."""
HORIZON_SECONDS = 60.0
"""How long present traffic is taken to go on: on a healthy system it says little of the next minutes."""


@dataclass(frozen=True, slots=True)
class Target:
    """One target that can take stripes."""

    name: str
    """`3.1` on a Weir store, `14` on Lustre."""
    server: str
    free_bytes: int
    total_bytes: int
    speed: float = 1.0
    """Bytes that it is expected to serve in a second, or any number that is to it as its peers' are to them."""
    load_bytes: float = 0.0
    """Bytes that wait for it, or will come in any case."""
    server_busy: float = 0.0
    """Part of its server that is in use, by the busiest of its resources."""


def targets_of_store(statuses: Sequence[Mapping[str, Any]]) -> list[Target]:
    """The targets that `/v1/status` of the servers of a store tells of.

    Raises:
        KeyError, TypeError: An answer is no status.
    """
    targets = []
    for status in statuses:
        for target in status["targets"]:
            total, used = int(target["capacity_bytes"]), int(target["used_bytes"])
            expected = target.get("expected_bytes_per_second") or 0.0
            achieved = target.get("achieved_bytes_per_second")
            health = min(1.0, achieved / expected) if expected and achieved is not None else 1.0
            targets.append(
                Target(
                    name=str(target["target"]),
                    server=str(status["server"]),
                    free_bytes=max(total - used, 0),
                    total_bytes=total,
                    speed=(expected or 1.0) * max(health, HEALTH_LEAST),
                    load_bytes=float(target.get("backlog_seconds") or 0.0) * expected,
                )
            )
    return with_speeds(targets)


def targets_of_lustre(view: "View") -> list[Target]:
    """The targets of a Lustre file system, each by its OST index."""
    targets = []
    for target in view.targets:
        server = view.servers.get(target.server)
        known = (server.cpu_fraction, server.memory_fraction) if server else ()
        busy = max((part for part in known if part is not None), default=0.0)
        traffic = target.load_bytes_per_second or 0.0
        targets.append(
            Target(
                name=str(target.index),
                server=target.server,
                free_bytes=target.available_bytes,
                total_bytes=target.total_bytes,
                speed=max(1.0 if target.speed is None else target.speed, HEALTH_LEAST),
                load_bytes=traffic * HORIZON_SECONDS,
                server_busy=min(busy, 1.0),
            )
        )
    return targets


def with_speeds(targets: Sequence[Target]) -> list[Target]:
    """The same, where a target whose speed was not seen yet is as fast as the usual one."""
    from dataclasses import replace
    from statistics import median

    seen = [target.speed for target in targets if target.speed > 1.0]
    usual = median(seen) if seen else 1.0
    return [target if target.speed > 1.0 else replace(target, speed=usual * target.speed) for target in targets]
