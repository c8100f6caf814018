"""The resources of this machine: a folder of one of its file systems, and its memory."""

import os
import re
import shutil
from pathlib import Path

from weir.provisioning.errors import ProvisioningError
from weir.provisioning.resources.model import Device, Node, Resources, checked

MEMORY_PART = 0.5
"""Part of the available memory that deployments may take: the jobs need the rest."""
UNKNOWN = "disk"
"""Class of a device about which the system says nothing, such as one behind a network or a container."""


def local_resources(folder: Path) -> Resources:
    """Look at this machine.

    Args:
        folder: A folder in which targets may be made.

    Returns:
        One node with the folder's file system and the memory.

    Raises:
        ProvisioningError: The folder is none, or no file can be made in it.
    """
    hint = "name a folder for the targets with `local`, such as /scratch"
    try:
        status = folder.stat()
        usage = shutil.disk_usage(folder)
    except OSError as error:
        raise ProvisioningError(f"{folder}: {error.strerror}", hint=hint) from error
    if not folder.is_dir() or not os.access(folder, os.W_OK | os.X_OK):
        raise ProvisioningError(f"{folder} is no folder that you may write to", hint=hint)
    name = re.sub(r"[^A-Za-z0-9._:-]+", "-", os.uname().nodename).strip("-._:") or "localhost"
    disk = Device(
        path=str(folder.resolve()),
        kind=device_class(os.major(status.st_dev), os.minor(status.st_dev), Path("/sys/dev/block")),
        capacity_bytes=usage.total,
        free_bytes=usage.free,
    )
    devices = (disk, *_memory(Path("/proc/meminfo")))
    node = Node(name=name, devices=devices, cores=len(os.sched_getaffinity(0)))
    return checked(f"this machine ({folder})", Resources(source="this machine", nodes=(node,)))


def device_class(major: int, minor: int, root: Path) -> str:
    """Find the class of a device.

    Args:
        major: Number of its driver.
        minor: Its number at the driver.
        root: Folder of the system's block devices, `/sys/dev/block`.

    Returns:
        `nvme`, `pmem`, `hdd` or `ssd`, or `UNKNOWN` for a file system that has no block device.
    """
    try:
        device = (root / f"{major}:{minor}").resolve(strict=True)
        # A partition's own folder has no queue; that of its disk is the folder above.
        disk = device if (device / "queue").is_dir() else device.parent
        rotational = (disk / "queue" / "rotational").read_text().strip()
    except OSError:
        return UNKNOWN
    for kind in ("nvme", "pmem"):
        if disk.name.startswith(kind):
            return kind
    return "hdd" if rotational == "1" else "ssd"


def _memory(path: Path) -> tuple[Device, ...]:
    try:
        text = path.read_text()
    except OSError:
        return ()
    found = {name: int(number) * 1024 for name, number in re.findall(r"^(\w+):\s+(\d+) kB$", text, re.MULTILINE)}
    if "MemTotal" not in found or "MemAvailable" not in found:
        return ()
    free = int(found["MemAvailable"] * MEMORY_PART)
    return (Device(kind="memory", capacity_bytes=found["MemTotal"], free_bytes=free),)
