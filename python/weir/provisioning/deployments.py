"""The storage that is started for a job, in a form that any executor reads (LuxIO, section III-E)."""

from typing import Literal

import msgspec

from weir.provisioning.objectives.sslos import Guarantees, Semantics, System

Policy = Literal["cost", "performance", "interference", "utilization"]
"""Paces of sharing: never later, with slowdown bounded by the user, or as dense as possible."""
TARGET_BYTES = 1 << 20
"""Capacities of targets are multiples."""


class Server(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A server of a deployment and the devices that it uses."""

    node: str
    """The node's name in the resource model."""
    devices: tuple[str, ...]
    """Folders or block devices on the node, one for each target; empty for targets in memory."""
    target_bytes: int
    """Capacity of each target."""


class Transfer(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A tree that is copied before the job runs, or after it."""

    source: str
    destination: str
    """Absolute outside of the store; relative to the store's root inside it."""


class Deployment(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A deployment schema."""

    version: Literal[1] = 1
    """Version of this document."""
    name: str
    """Name of the deployment, a word of letters, digits and `-`."""
    identity: str
    """Name of the job's I/O identity."""
    behaviour_class: str
    """The class that the plan began with; empty for the site's default."""
    sslo: str
    """Name of the service-level objective that the plan chose."""
    policy: Policy
    system: System
    servers: tuple[Server, ...]
    """Empty where the job joins an existing deployment."""
    joins: str = ""
    """Name of an existing deployment that the job shares."""
    shareable: bool
    """Whether later jobs may join."""
    lease_seconds: float = 0.0
    """Time for which a shared store outlives its last sharer."""
    size_bytes: int
    semantics: Semantics = Semantics()
    expected: Guarantees
    """Rates that the performance model expects for the job."""
    slowdown: float = 1.0
    """Expected slowdown by jobs that share."""
    price: float = 0.0
    """Node-hours after discounts."""
    stage_in: tuple[Transfer, ...] = ()
    stage_out: tuple[Transfer, ...] = ()


def target_bytes(size: int, targets: int) -> int:
    """The capacity of each target of a store.

    Args:
        targets: Number of targets.

    Returns:
        Bytes, a multiple of `TARGET_BYTES`.
    """
    return -(-size // (targets * TARGET_BYTES)) * TARGET_BYTES


def targets(deployment: Deployment) -> int:
    """Count the targets of a deployment.

    Returns:
        Targets of its own servers; 0 where it joins another deployment.
    """
    return sum(len(each.devices) or deployment.system.targets_per_server for each in deployment.servers)


def capacity_bytes(deployment: Deployment) -> int:
    """Count the room of a deployment.

    Returns:
        Bytes that the targets of its own servers hold; 0 where it joins another deployment.
    """
    whole = deployment.system.targets_per_server
    return sum(each.target_bytes * (len(each.devices) or whole) for each in deployment.servers)


def with_targets(deployment: Deployment, bytes_each: int) -> Deployment:
    """Change the capacity of all targets of a deployment.

    Args:
        deployment: A deployment with servers of its own.
        bytes_each: Capacity of each target.

    Returns:
        The deployment with such targets. Its size, which is that of its own job, stays.
    """
    servers = tuple(msgspec.structs.replace(each, target_bytes=bytes_each) for each in deployment.servers)
    made = msgspec.structs.replace(deployment, servers=servers)
    expected = msgspec.structs.replace(deployment.expected, capacity_bytes=capacity_bytes(made))
    return msgspec.structs.replace(made, expected=expected)
