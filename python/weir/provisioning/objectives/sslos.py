"""Service-level objectives of storage: the qualities that a deployment was measured to have (LuxIO, section III-C)."""

from typing import Literal

import msgspec


class System(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A storage system as it is deployed, without its place."""

    kind: Literal["weir", "orangefs", "beeond", "lustre", "path"] = "weir"
    """The product; `path` is a file system that is there already."""
    device: str
    """Class of the devices: `hdd`, `ssd`, `nvme`, `pmem`, `memory`, or a name of the site."""
    network_bytes_per_second: float | None = None
    """Rate of a server's network; None where nothing limits it."""
    servers: int
    targets_per_server: int = 1
    settings: dict[str, str] = {}
    """The system's own settings, by their names there."""


class Guarantees(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Rates that the system reached, for sequential calls of at least 1 MB; None where a rate was not measured."""

    read_bytes_per_second: float | None = None
    write_bytes_per_second: float | None = None
    metadata_operations_per_second: float | None = None
    capacity_bytes: int | None = None


class Sensitivities(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Parts of the guaranteed rates that are left under a condition: 1 where it is free; None where not measured."""

    small: float | None = None
    """Calls below 10 KB."""
    random: float | None = None
    """Calls at random places."""
    mixed: float | None = None
    """Reads beside writes."""
    shared_file: float | None = None
    """One file of all processes, beside a file for each."""
    concurrency: float | None = None
    """Four times the processes for which the guarantee was measured."""


class Semantics(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Properties that a job has to have, or not: a plan never trades them."""

    replicas: int = 1
    """Copies of each byte on different servers."""
    encrypted: bool = False
    """Bytes at rest are encrypted."""
    representation: Literal["posix", "object", "hdf5"] = "posix"
    """The form in which data are kept."""
    durable: bool = True
    """Bytes outlive the end of a server's process."""


Purpose = Literal["", "light", "reads", "writes", "small", "random", "metadata"]
"""The work that a system is meant for; empty for one that is meant for any."""


class Sslo(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The measured qualities of a system, or of a class of systems by the one in its middle."""

    version: Literal[1] = 1
    """Version of this document."""
    name: str
    purpose: Purpose = ""
    """The work for which its configuration was chosen."""
    system: System
    guarantees: Guarantees
    sensitivities: Sensitivities
    semantics: Semantics = Semantics()


class SsloTable(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Service-level objectives of a site."""

    version: Literal[1] = 1
    """Version of this document."""
    source: str
    """Origin of the measurements."""
    sslos: tuple[Sslo, ...]
    default: str = ""
    """Name of the objective for jobs that nothing is near to; empty for the one in the middle."""
