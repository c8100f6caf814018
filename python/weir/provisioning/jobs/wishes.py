"""The wishes for a job's storage: the directives of its user, and the limits that a site or a command line sets."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

import msgspec

from weir.provisioning.deployments import Policy
from weir.provisioning.errors import ProvisioningError
from weir.provisioning.jobs import directives
from weir.provisioning.jobs.directives import Directives
from weir.provisioning.objectives.sslos import Semantics

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
        return self.directives.policy or "cost"

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


def of_hints(source: str, hints: Mapping[str, str]) -> Wishes:
    """Read the wishes in a job's hints.

    Args:
        source: Name of the job's script or jobspec, for messages.
        hints: Names and values, as in `#WEIR` lines.

    Raises:
        ProvisioningError: There is no directive of a name, or a value cannot be.
    """
    return Wishes(directives=directives.of_attributes(source, hints))


def of_options(
    source: str,
    hints: Mapping[str, str],
    *,
    policy: str | None = None,
    size_bytes: int | None = None,
    system: str = "weir",
    devices: Sequence[str] = (),
    read_bytes_per_second: float | None = None,
    write_bytes_per_second: float | None = None,
    durable: bool | None = None,
) -> Wishes:
    """Read the wishes in a job's hints, and those of a command line, which stand above.

    Args:
        source: Name of the job's script or jobspec, for messages.
        hints: Names and values, as in `#WEIR` lines.
        policy: The policy; None for the hints' one.
        size_bytes: Size of the store; None for the hints' one.
        system: The product to deploy.
        devices: Classes of devices; all without one.
        read_bytes_per_second: Least rate of reads; None for none.
        write_bytes_per_second: Least rate of writes; None for none.
        durable: Whether bytes have to outlive a server's process; None for the hints' one.

    Raises:
        ProvisioningError: There is no directive of a name, or a value cannot be.
    """
    wishes = of_hints(source, hints)
    own = {"policy": policy, "size_bytes": size_bytes, "durable": durable}
    changed = {
        "directives": msgspec.to_builtins(wishes.directives)
        | {name: value for name, value in own.items() if value is not None},
        "system": system,
        "devices": tuple(devices),
        "read_bytes_per_second": read_bytes_per_second,
        "write_bytes_per_second": write_bytes_per_second,
    }
    try:
        return msgspec.convert(changed, Wishes)
    except msgspec.ValidationError as error:
        raise ProvisioningError(f"the options cannot be used: {error}", hint="see `weir plan schema --help`") from error
