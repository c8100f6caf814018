"""The wishes for a job's storage: the directives of its user, and the limits that a site or a command line sets."""

from collections.abc import Mapping
from typing import Annotated, Literal

import msgspec

from weir.provisioning import directives
from weir.provisioning.deployments import Policy
from weir.provisioning.directives import Directives
from weir.provisioning.sslos import Semantics

SystemKind = Literal["weir", "orangefs", "beeond", "lustre"]
"""The products that a plan can deploy."""
_SLOWDOWN_MAX = 1.5
"""Greatest slowdown by sharing, where the user names none."""


class Wishes(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The wishes; a field that is None leaves the choice to the plan."""

    version: Annotated[int, msgspec.Meta(ge=1, le=1)] = 1
    """Version of this document."""
    directives: Directives = Directives()
    system: SystemKind = "weir"
    """The product to deploy."""
    devices: tuple[str, ...] = ()
    """Classes of devices that the plan may use; all without one."""
    read_bytes_per_second: Annotated[float, msgspec.Meta(gt=0, le=1e18)] | None = None
    """Least rate of the job's reads; a plan that cannot reach the rate is refused."""
    write_bytes_per_second: Annotated[float, msgspec.Meta(gt=0, le=1e18)] | None = None

    @property
    def policy(self) -> Policy:
        """The policy."""
        return self.directives.policy or "performance"

    @property
    def slowdown_max(self) -> float:
        """The greatest slowdown by sharing."""
        return self.directives.slowdown or _SLOWDOWN_MAX

    @property
    def semantics(self) -> Semantics:
        """The properties that the storage has to have. Only a user who says so gets storage that is not durable."""
        own = self.directives
        return Semantics(
            replicas=own.replicas or 1,
            encrypted=bool(own.encrypted),
            representation=own.representation or "posix",
            durable=own.durable is not False,
        )


def of_hints(source: str, hints: Mapping[str, str], *, policy: Policy | None = None, size: int | None = None) -> Wishes:
    """Read the wishes in a job's hints.

    Args:
        source: Name of the job's script or jobspec, for messages.
        hints: Names and values, as in `#WEIR` lines.
        policy: A policy that stands above the hints.
        size: A size in bytes that stands above the hints.

    Returns:
        The wishes.

    Raises:
        ProvisioningError: There is no directive of a name, or a value cannot be.
    """
    found = directives.of_attributes(source, hints)
    if policy is not None:
        found = msgspec.structs.replace(found, policy=policy)
    if size is not None:
        found = msgspec.structs.replace(found, size_bytes=size)
    return Wishes(directives=found)
