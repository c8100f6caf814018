"""Shared storage and its prices as time passes: jobs come and go, and demand rises and falls (LuxIO, section III-D)."""

import math

import msgspec
from weir.provisioning.errors import ProvisioningError
from weir.provisioning.sharing.leases import SHARERS_MAX, Existing, Sharer, has_ended
from weir.provisioning.sharing.prices import Demand, DemandPricing


def joined(deployment: Existing, sharer: Sharer, now: float) -> Existing:
    """Let a job in.

    Args:
        sharer: The job.
        now: Time in seconds.

    Returns:
        The deployment with the job.

    Raises:
        ProvisioningError: The deployment has ended or is draining, the job is in already, another job may not share,
            or the room or the number of jobs is exceeded.
    """
    if any(each.name == sharer.name for each in deployment.sharers):
        raise ProvisioningError(f"{sharer.name} uses {deployment.name} already")
    refusal = ""
    if deployment.draining or has_ended(deployment, now):
        refusal = "takes no more jobs"
    elif deployment.sharers and not deployment.shareable:
        refusal = "is not shared"
    elif len(deployment.sharers) >= SHARERS_MAX:
        refusal = f"has {SHARERS_MAX} jobs"
    elif sharer.size_bytes > deployment.free_bytes:
        refusal = f"has {deployment.free_bytes} bytes of room, and {sharer.name} asks for {sharer.size_bytes}"
    if refusal:
        raise ProvisioningError(f"{deployment.name} {refusal}", hint=f"plan the job {sharer.name} again")
    return msgspec.structs.replace(deployment, sharers=(*deployment.sharers, sharer), idle_since=None)


def left(deployment: Existing, name: str, now: float) -> Existing:
    """Let a job out; of a job that is not in, or has left, nothing changes.

    Args:
        now: Time in seconds.

    Returns:
        The deployment without the job. Its lease begins where it was the last.
    """
    stay = tuple(each for each in deployment.sharers if each.name != name)
    if len(stay) == len(deployment.sharers):
        return deployment
    return msgspec.structs.replace(deployment, sharers=stay, idle_since=None if stay else now)


def demand_at(demand: Demand, now: float, pricing: DemandPricing) -> Demand:
    """Let demand fall for the time without requests.

    Args:
        now: Time in seconds. A time before the last one changes nothing.
        pricing: The intervals.

    Returns:
        The demand at this time.
    """
    since = demand.settled_at if demand.settled_at is not None else demand.requested_at
    if since is None:
        return demand
    steps = max(0, math.floor((now - since) / pricing.fall_seconds))
    if not steps:
        return demand
    level = max(demand.level - steps, -pricing.demand_max)
    return msgspec.structs.replace(demand, level=level, settled_at=since + steps * pricing.fall_seconds)


def requested(demand: Demand, now: float, pricing: DemandPricing) -> Demand:
    """Count a request for devices of a tier.

    Args:
        demand: The demand before.
        now: Time in seconds.
        pricing: The intervals.

    Returns:
        The demand behind the request: higher by 1 where a request came shortly before.
    """
    settled = demand_at(demand, now, pricing)
    before = settled.requested_at
    rises = before is not None and now - before <= pricing.rise_seconds
    level = min(settled.level + 1.0, pricing.demand_max) if rises else settled.level
    return Demand(level=level, requested_at=now, settled_at=now)
