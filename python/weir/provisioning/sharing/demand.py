"""The demand for classes of devices, by the times at which jobs asked for them (LuxIO, section III-D, formula 2)."""

import math
from collections.abc import Iterable

from weir.provisioning.sharing.prices import Demand, DemandPricing


def settled(demand: Demand, now: float, pricing: DemandPricing) -> Demand:
    """Let the demand fall for the time without a request.

    Args:
        now: Time in seconds.

    Returns:
        The demand: 1 less for each whole `fall_seconds` since the last request, or since it fell last.
    """
    since = demand.requested_at if demand.settled_at is None else demand.settled_at
    if since is None:
        return demand
    steps = max(0, math.floor((now - since) / pricing.fall_seconds))
    level = max(demand.level - steps, -pricing.demand_max)
    return Demand(level=level, requested_at=demand.requested_at, settled_at=since + steps * pricing.fall_seconds)


def requested(demand: Demand, at: float, pricing: DemandPricing) -> Demand:
    """Count a request.

    Args:
        at: Time of the request in seconds, not before the last one.

    Returns:
        The demand: 1 more where the request before was within `rise_seconds`.
    """
    found = settled(demand, at, pricing)
    is_soon = demand.requested_at is not None and at - demand.requested_at <= pricing.rise_seconds
    level = min(found.level + is_soon, pricing.demand_max)
    return Demand(level=level, requested_at=at, settled_at=at)


def demands(requests: Iterable[tuple[float, str]], now: float, pricing: DemandPricing) -> dict[str, Demand]:
    """Find the demand for each class of devices.

    Args:
        requests: Time and class of devices of each request, in any order.
        now: Time in seconds.

    Returns:
        The demands by class; a class that nobody asked for has none.
    """
    found: dict[str, Demand] = {}
    for at, device in sorted(requests):
        found[device] = requested(found.get(device, Demand()), at, pricing)
    return {device: settled(each, now, pricing) for device, each in found.items()}
