"""Existing deployments that jobs may share, and their leases: who uses one, and when it ends.

A shared store outlives its last sharer only by its lease.
"""

import math

import msgspec

from weir.provisioning.deployments import Deployment, capacity_bytes
from weir.provisioning.errors import ProvisioningError
from weir.provisioning.objectives.sslos import Guarantees, Semantics
from weir.provisioning.sharing.interference_factors import Neighbour

SHARERS_MAX = 1024
"""Most jobs of one deployment: a store counts no more jobs on its targets at a time."""
SHARERS_ROOM = 1.0
"""Room of a new store for later jobs over the size of its own job, where a site sets none: one more such job."""


class Sharer(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A job that uses a deployment."""

    name: str
    """Name of the job."""
    load: Neighbour
    slowdown_max: float = math.inf
    """The job's own threshold, which holds for later sharers, too."""
    size_bytes: int = 0
    """Room that the job asked for."""


class Existing(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A deployment that is there, as a later job sees it."""

    name: str
    shareable: bool
    draining: bool = False
    """Whether it takes no more jobs."""
    semantics: Semantics
    guarantees: Guarantees
    """Rates of the whole deployment for one job that uses it alone."""
    size_bytes: int
    lease_seconds: float = 0.0
    ready_at: float = 0.0
    """Time in seconds from which jobs may use it."""
    until: float | None = None
    """Time at which its nodes are given back whoever uses it; None where nothing ends it."""
    price_per_hour: float = 0.0
    """Node-hours of one hour for a job that shares with nobody, before discounts."""
    sharers: tuple[Sharer, ...] = ()
    idle_since: float | None = None
    """Time at which the last sharer left; None while there is one, or before the first."""

    @property
    def free_bytes(self) -> int:
        """Room that no sharer asked for."""
        return max(0, self.size_bytes - sum(each.size_bytes for each in self.sharers))


def existing(deployment: Deployment, *, price_per_hour: float = 0.0, ready_at: float = 0.0) -> Existing:
    """See a deployment as later jobs do, before its first sharer.

    Args:
        deployment: A deployment with servers of its own.
        price_per_hour: Node-hours of one hour, before discounts.
        ready_at: Time in seconds from which jobs may use it.

    Returns:
        The existing deployment, without sharers.

    Raises:
        ProvisioningError: The deployment joins another one, so that it has no storage to share.
    """
    if deployment.joins:
        raise ProvisioningError(
            f"{deployment.name} joins {deployment.joins}, and has no storage of its own",
            hint=f"share {deployment.joins} itself",
        )
    return Existing(
        name=deployment.name,
        shareable=deployment.shareable,
        semantics=deployment.semantics,
        guarantees=deployment.expected,
        # Targets are whole and may have room for later jobs; a schema without servers tells its size alone.
        size_bytes=capacity_bytes(deployment) or deployment.size_bytes,
        lease_seconds=deployment.lease_seconds,
        ready_at=ready_at,
        price_per_hour=price_per_hour,
    )


def ends_at(deployment: Existing) -> float | None:
    """Tell when a deployment ends if no further job comes.

    Returns:
        Time in seconds; None while a job uses it or the first is expected, unless its nodes are given back at a time.
    """
    if deployment.idle_since is None:
        return deployment.until
    # A deployment that is not shared has nobody to wait for.
    lease = deployment.lease_seconds if deployment.shareable and not deployment.draining else 0.0
    end = deployment.idle_since + max(0.0, lease)
    return end if deployment.until is None else min(end, deployment.until)


def has_ended(deployment: Existing, now: float) -> bool:
    """Decide whether a deployment is to be torn down.

    Args:
        now: Time in seconds.

    Returns:
        Whether its lease, or its nodes' time, is over.
    """
    end = ends_at(deployment)
    return end is not None and now >= end
