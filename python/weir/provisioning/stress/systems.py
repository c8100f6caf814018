"""Systems under test: Weir stores of emulated devices, and mounted paths."""

import itertools
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from weir.provisioning.errors import ProvisioningError
from weir.provisioning.objectives import device_classes
from weir.provisioning.objectives.device_classes import DeviceClass
from weir.provisioning.objectives.sslos import Semantics, System
from weir.store import values

SYSTEMS_MAX = 10_000
"""Most systems of a run: even at a second each they would take hours."""
SETTING_READERS: Mapping[str, Callable[[str], object]] = {
    "policy": values.policy,
    "scheduler": values.scheduler,
    "allocator": values.allocator,
    "stripe_size": values.size,
    "stripe_count": int,
    "lambda_milliseconds": int,
}
"""Readers of the settings of a store that a run may vary."""
LAYOUT_SETTINGS = ("stripe_size", "stripe_count")
"""Settings of the table [layout] of cluster.toml."""
BACKENDS = ("ram", "dir")
_MOUNTS = Path("/proc/self/mountinfo")


@dataclass(frozen=True)
class Device:
    """A class of devices, by the rates that a target emulates."""

    name: str
    read_speed: str | None = None
    """Rate such as `200MB/s`; None emulates nothing."""
    write_speed: str | None = None
    fixed_time: str | None = None
    """Time of each request beside that of its bytes."""
    backends: tuple[str, ...] = BACKENDS
    """Backends on which the device makes sense."""


def _emulated(usual: DeviceClass) -> Device:
    fixed = usual.read_fixed_seconds
    return Device(
        usual.name,
        f"{usual.read_bytes_per_second / 1e6:.0f}MB/s",
        f"{usual.write_bytes_per_second / 1e6:.0f}MB/s",
        f"{fixed * 1e3:.0f}ms" if fixed >= 1e-3 else f"{fixed * 1e6:.0f}us",
    )


DEVICES: Mapping[str, Device] = {
    **{name: _emulated(usual) for name, usual in device_classes.DEVICES.items()},
    "memory": Device("memory", backends=("ram",)),
    "disk": Device("disk", backends=("dir",)),
}
"""Devices by their names: usual ones, and `memory` and `disk`, which emulate nothing: they are this machine's."""


@dataclass(frozen=True)
class Candidate:
    """A system under test."""

    system: System
    semantics: Semantics
    path: Path | None = None
    """The mounted path; None for a Weir store, which is brought up."""


def read_device(text: str) -> Device:
    """Read a device.

    Args:
        text: A name of `DEVICES`, or `NAME=READ,WRITE,FIXED` such as `qlc=1GB/s,200MB/s,100us`, or `NAME=real`.

    Raises:
        ValueError: The text is no device.
    """
    name, is_described, rates = text.partition("=")
    if not is_described:
        if text not in DEVICES:
            raise ValueError(f"`{text}` is none of {', '.join(DEVICES)}; describe a device as NAME=READ,WRITE,FIXED")
        return DEVICES[text]
    if not name.isidentifier():
        raise ValueError(f"`{name}` is no name of a device: letters, digits and `_` make one")
    if rates == "real":
        return Device(name)
    parts = rates.split(",")
    if len(parts) != 3:
        raise ValueError(f"`{text}` is no device; write NAME=READ,WRITE,FIXED such as qlc=1GB/s,200MB/s,100us")
    values.rate(parts[0])
    values.rate(parts[1])
    values.duration(parts[2])
    return Device(name, parts[0], parts[1], parts[2])


def read_setting(text: str) -> tuple[str, tuple[str, ...]]:
    """Read a setting and its values.

    Args:
        text: `NAME=VALUE,VALUE…` such as `stripe_size=64KiB,1MiB`.

    Returns:
        The name and the values.

    Raises:
        ValueError: There is no such setting, or a value of it cannot be used.
    """
    name, is_given, rest = text.partition("=")
    if not is_given or name not in SETTING_READERS:
        raise ValueError(f"`{text}` is no setting; write NAME=VALUE, where NAME is one of {', '.join(SETTING_READERS)}")
    chosen = tuple(rest.split(","))
    for value in chosen:
        SETTING_READERS[name](value)
    return name, chosen


def stores(
    devices: Sequence[Device],
    *,
    backends: Sequence[str],
    servers: Sequence[int],
    targets: Sequence[int],
    settings: Mapping[str, Sequence[str]],
) -> list[Candidate]:
    """List the Weir stores of a run: every combination.

    Args:
        devices: Devices of the targets.
        backends: Backends of the targets.
        servers: Numbers of servers.
        targets: Numbers of targets of each server.
        settings: Values of further settings, by their names.

    Raises:
        ProvisioningError: There are none, or more than `SYSTEMS_MAX`.
    """
    pairs = [(device, backend) for device in devices for backend in backends if backend in device.backends]
    choices = [[(name, value) for value in chosen] for name, chosen in settings.items()]
    combinations = itertools.product(pairs, servers, targets, itertools.product(*choices))
    shapes = list(itertools.islice(combinations, SYSTEMS_MAX + 1))
    if not shapes:
        raise ProvisioningError(
            "none of the devices is of one of the backends", hint="`memory` is for ram and `disk` for dir"
        )
    if len(shapes) > SYSTEMS_MAX:
        raise ProvisioningError(
            f"more than {SYSTEMS_MAX} systems would be measured", hint="give fewer values, or several runs"
        )
    return [_store(*shape) for shape in dict.fromkeys(shapes)]


def mounted(path: Path, name: str | None, *, servers: int, replicas: int, is_encrypted: bool) -> Candidate:
    """Describe a file system that is mounted.

    Args:
        path: A folder on it.
        name: Name of its class of devices; None is the type of the file system.
        servers: Number of its servers.
        replicas: Copies that it keeps of each byte.
        is_encrypted: Whether its bytes at rest are encrypted.

    Raises:
        ProvisioningError: The path is no folder that can be written.
    """
    try:
        whole = path.resolve(strict=True)
    except OSError as error:
        raise ProvisioningError(
            f"cannot measure {path}: {error.strerror}", hint="name a folder that is there"
        ) from None
    if not whole.is_dir() or not os.access(whole, os.W_OK | os.X_OK):
        raise ProvisioningError(f"{path} is no folder that you may write to", hint="name a folder of your own")
    kind = file_system_of(whole)
    system = System(
        kind="path", device=name or kind, servers=servers, settings={"path": str(whole), "file_system": kind}
    )
    semantics = Semantics(replicas=replicas, encrypted=is_encrypted, durable=kind not in ("tmpfs", "ramfs"))
    return Candidate(system, semantics, whole)


def file_system_of(path: Path) -> str:
    """Find the type of the file system that holds a path.

    Args:
        path: An absolute path without links.

    Returns:
        The type, such as `lustre`; `unknown` where the system does not tell.
    """
    found, longest = "unknown", -1
    try:
        lines = _MOUNTS.read_text().splitlines()
    except OSError:
        return found
    for line in lines:
        fields, _, rest = line.partition(" - ")
        # Blanks in the name of a mount point are written as octal numbers (proc_pid_mountinfo(5)).
        point = fields.split(" ")[4].encode().decode("unicode_escape")
        if len(point) >= longest and path.is_relative_to(point):
            found, longest = rest.split(" ")[0], len(point)
    return found


def _store(pair: tuple[Device, str], servers: int, targets: int, settings: Sequence[tuple[str, str]]) -> Candidate:
    device, backend = pair
    emulated = {
        "read_speed": device.read_speed,
        "write_speed": device.write_speed,
        "fixed_time": device.fixed_time,
    }
    known = {name: value for name, value in emulated.items() if value is not None}
    system = System(
        device=device.name,
        servers=servers,
        targets_per_server=targets,
        settings={"backend": backend, **known, **dict(settings)},
    )
    return Candidate(system, Semantics(durable=backend == "dir"))
