"""The resource model: nodes, their devices, the room that is free on them, and deployments that later jobs may share.

A site writes it as TOML; `slurm_resources.py` reads it from Slurm, and `local_resources.py` from this machine.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import msgspec

from weir.provisioning.deployments import Deployment
from weir.provisioning.errors import ProvisioningError
from weir.provisioning.sharing.leases import SHARERS_MAX, Sharer
from weir.store import values

DOCUMENT_BYTES_MAX = 64 << 20
"""A document above this is refused: one of 100,000 nodes with two devices each has 40 MB."""
_HINT = "docs/guides/planning.md shows a resource model; its schema is docs/reference/schemas/resources.schema.json"

Bytes = Annotated[int, msgspec.Meta(ge=0, le=1 << 62)]
Rate = Annotated[float, msgspec.Meta(gt=0, le=1e18)]
Seconds = Annotated[float, msgspec.Meta(ge=0, le=1e12)]
Name = Annotated[str, msgspec.Meta(min_length=1, max_length=255, pattern=r"^[A-Za-z0-9][A-Za-z0-9._:-]*$")]


class Device(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A device of a node that deployments may use."""

    path: str = ""
    """A folder, or a block device; empty for the node's memory itself."""
    kind: Name
    """Class of the device: `hdd`, `ssd`, `nvme`, `pmem`, `memory`, or a name of the site."""
    capacity_bytes: Bytes
    free_bytes: Bytes | None = None
    """Room that is left; None where all is."""
    read_bytes_per_second: Rate | None = None
    """Rate of the device; None where the site does not know it."""
    write_bytes_per_second: Rate | None = None
    encrypted: bool = False
    """Whether all bytes on the device are encrypted."""

    @property
    def room(self) -> int:
        """Bytes that a deployment may take."""
        return self.capacity_bytes if self.free_bytes is None else min(self.free_bytes, self.capacity_bytes)


class Node(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A node that may run servers."""

    name: Name
    devices: Annotated[tuple[Device, ...], msgspec.Meta(max_length=1024)] = ()
    network_bytes_per_second: Rate | None = None
    """Rate of the node's network; None where nothing limits it."""
    cores: Annotated[int, msgspec.Meta(ge=0)] | None = None
    usable: bool = True
    """False for a node that is down, or that takes no new work."""
    free_in_seconds: Seconds = 0.0
    """Time until no other job holds the node; 0 for a node that is free."""


class Running(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A deployment that exists."""

    deployment: Deployment
    sharers: Annotated[tuple[Sharer, ...], msgspec.Meta(max_length=SHARERS_MAX)] = ()
    """The jobs that use it."""
    draining: bool = False
    """Whether it takes no more jobs."""
    ready_in_seconds: Seconds = 0.0
    """Time until jobs may use it."""
    until_in_seconds: Seconds | None = None
    """Time until its nodes are given back; None where nothing ends it."""
    idle_for_seconds: Seconds | None = None
    """Time since the last sharer left; None while there is one, or before the first."""
    price_per_hour: Annotated[float, msgspec.Meta(ge=0, le=1e18)] = 0.0
    """Node-hours of one hour for a job that shares with nobody, before discounts."""


class Resources(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The storage of a site, at one moment."""

    version: Annotated[int, msgspec.Meta(ge=1, le=1)] = 1
    """Version of this document."""
    source: str = ""
    """Origin of the document."""
    nodes: Annotated[tuple[Node, ...], msgspec.Meta(max_length=1_000_000)] = ()
    deployments: tuple[Running, ...] = ()
    """Deployments that exist; those that are shareable may be joined."""

    @property
    def kinds(self) -> tuple[str, ...]:
        """Classes of the devices of usable nodes, sorted."""
        return tuple(sorted({device.kind for node in self.nodes if node.usable for device in node.devices}))


def read_resources(path: Path) -> Resources:
    """Read a resource model.

    Args:
        path: A file in TOML, or in JSON where its name ends in `.json`.

    Raises:
        ProvisioningError: The file cannot be read or breaks the schema; the error names the place.
    """
    try:
        with path.open("rb") as file:
            content = file.read(DOCUMENT_BYTES_MAX + 1)
    except OSError as error:
        raise ProvisioningError(f"{path}: {error.strerror}", hint=_HINT) from error
    if len(content) > DOCUMENT_BYTES_MAX:
        raise ProvisioningError(f"{path} is larger than {DOCUMENT_BYTES_MAX} bytes", hint=_HINT)
    decode = msgspec.json.decode if path.suffix == ".json" else msgspec.toml.decode
    try:
        found: Resources = decode(content, type=Resources)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise ProvisioningError(f"{path} is no resource model: {' '.join(str(error).split())}", hint=_HINT) from error
    return checked(str(path), found)


def checked(place: str, resources: Resources) -> Resources:
    """Check the rules that the schema cannot say.

    Args:
        place: Origin of the resources, for messages.

    Returns:
        The same resources.

    Raises:
        ProvisioningError: A text is no name of a host, two nodes, or two devices of a node, have one name, or a device
            has no path.
    """
    if (name := _twice([node.name for node in resources.nodes])) is not None:
        raise ProvisioningError(f"{place}: two nodes are named {name}", hint=_HINT)
    if (name := _twice([each.deployment.name for each in resources.deployments])) is not None:
        raise ProvisioningError(f"{place}: two deployments are named {name}", hint=_HINT)
    for node in resources.nodes:
        try:
            values.host(node.name)
        except ValueError as error:
            raise ProvisioningError(f"{place}: {error}", hint=_HINT) from error
        if (name := _twice([device.path for device in node.devices])) is not None:
            raise ProvisioningError(f"{place}: two devices of node {node.name} have the path {name!r}", hint=_HINT)
        for device in node.devices:
            if device.kind != "memory" and not device.path:
                raise ProvisioningError(
                    f"{place}: a device of node {node.name} is of class {device.kind} and has no path", hint=_HINT
                )
            if device.path and (not device.path.startswith("/") or "\0" in device.path):
                raise ProvisioningError(
                    f"{place}: the path {device.path!r} of node {node.name} is not absolute", hint=_HINT
                )
    return resources


def _twice(names: Sequence[str]) -> str | None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return None
