"""Classes of devices with the rates that are usual for them."""

from collections.abc import Mapping

import msgspec


class DeviceClass(msgspec.Struct, frozen=True, kw_only=True):
    """A class of devices, by the time of a request: a fixed part, and that of its bytes."""

    name: str
    read_bytes_per_second: float
    write_bytes_per_second: float
    read_fixed_seconds: float
    write_fixed_seconds: float
    seek_seconds: float = 0.0
    """Further time of a request at a random place. Simulated devices have it; emulated ones do not seek."""


DEVICES: Mapping[str, DeviceClass] = {
    each.name: each
    for each in (
        DeviceClass(
            name="hdd",
            read_bytes_per_second=200e6,
            write_bytes_per_second=200e6,
            read_fixed_seconds=4e-3,
            write_fixed_seconds=4e-3,
            seek_seconds=8.5e-3,
        ),
        DeviceClass(
            name="ssd",
            read_bytes_per_second=550e6,
            write_bytes_per_second=520e6,
            read_fixed_seconds=80e-6,
            write_fixed_seconds=80e-6,
        ),
        DeviceClass(
            name="nvme",
            read_bytes_per_second=3.2e9,
            write_bytes_per_second=2e9,
            read_fixed_seconds=20e-6,
            write_fixed_seconds=20e-6,
        ),
        DeviceClass(
            name="pmem",
            read_bytes_per_second=6.8e9,
            write_bytes_per_second=1.85e9,
            read_fixed_seconds=1e-6,
            write_fixed_seconds=1e-6,
        ),
    )
}
"""Usual devices, which `weir stress` emulates and the simulator runs: a disk of 7,200 turns a minute, which waits for
half a turn and seeks over a third of its tracks, an SSD behind SATA, a drive of four lanes of PCIe 3, and one module of
persistent memory of 128 GB."""
MEMORY = DeviceClass(
    name="memory",
    read_bytes_per_second=5e9,
    write_bytes_per_second=5e9,
    read_fixed_seconds=1e-6,
    write_fixed_seconds=1e-6,
)
"""A server's own memory, as one core copies. It is simulated, and no emulated device: `weir stress` measures it."""
