"""Objectives of Weir on classes of devices, from simulated runs: what a store would do before anybody measured one.

Run as a program it writes the table that comes with Weir.

Each system runs an IOR of three processes for each two servers, so that files do not fall evenly on targets: to read
and to write by calls of 4 MiB, by calls below 10 KB, at random places, on one shared file, and half of the processes
reading beside the other half, which writes. An mdtest of four processes for each server makes, stats and removes files.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import product
from pathlib import Path

import msgspec
from weir.provisioning.objectives.device_classes import DEVICES, MEMORY, DeviceClass
from weir.provisioning.objectives.sslos import Guarantees, Semantics, Sensitivities, Sslo, SsloTable, System

TABLE = Path(__file__).resolve().parents[1] / "python/weir/provisioning/tables/weir-simulated.json"
SERVERS = (1, 2, 4, 8, 16, 32)
"""Numbers of servers of the table that comes with Weir, with one target each."""
STRIPE_SIZES = ("256KiB", "512KiB", "1MiB", "2MiB", "4MiB")
STRIPE_COUNTS = ("0", "1", "2", "4")
"""Numbers of targets of a file; 0 is all."""
_NETWORK = 12.5e9
_LATENCY_SECONDS = 5e-6
_LARGE_BYTES, _SMALL_BYTES = 4 << 20, 8 << 10
_BLOCK_BYTES, _SMALL_BLOCK_BYTES = 64 << 20, 512 << 10
_NAME_SECONDS = 1 / 18_000
"""Time of a server for a call on a name: real servers make 17,300 to 20,000 files a second (docs/measured.md)."""
_ITEMS = 50
"""Files of a process of mdtest."""


def configurations() -> tuple[dict[str, str], ...]:
    """The configurations of the table that comes with Weir.

    Returns:
        Stripe counts and sizes; files on one target have one size, because it changes nothing there.
    """
    return tuple(
        {"stripe_count": count, "stripe_size": size}
        for count, size in product(STRIPE_COUNTS, STRIPE_SIZES)
        if count != "1" or size == "1MiB"
    )


def simulated_table(
    devices: Sequence[DeviceClass],
    servers: Sequence[int],
    settings: Sequence[Mapping[str, str]],
    *,
    sensitivities: bool = True,
) -> SsloTable:
    """Simulate systems.

    Args:
        devices: Classes of devices.
        servers: Numbers of servers, with one target each.
        settings: Configurations: values of `stripe_size` and `stripe_count`.
        sensitivities: Whether names and all conditions are simulated, too, which takes most of the time.

    Returns:
        Their objectives. Configurations with more stripes than a system has targets are left out.

    Raises:
        SimulationError: The simulator refuses a system.
    """
    return SsloTable(
        source="Weir's simulator: an IOR of three processes for each two servers, an mdtest of four for each",
        sslos=tuple(_objectives(devices, servers, settings, sensitivities=sensitivities)),
    )


def _objectives(
    devices: Sequence[DeviceClass],
    servers: Sequence[int],
    settings: Sequence[Mapping[str, str]],
    *,
    sensitivities: bool,
) -> Iterator[Sslo]:
    for device, count, chosen in product(devices, servers, settings):
        if int(chosen["stripe_count"]) > count:
            continue
        read, write = (_rate(device, count, chosen, way) for way in ("read", "write"))
        left, names = Sensitivities(), None
        if sensitivities:
            left, names = _left(device, count, chosen, read, write), _names(count)
        yield Sslo(
            name=f"weir-{device.name}-{count}-c{chosen['stripe_count']}-{chosen['stripe_size']}",
            system=System(device=device.name, network_bytes_per_second=_NETWORK, servers=count, settings=dict(chosen)),
            guarantees=Guarantees(
                read_bytes_per_second=read, write_bytes_per_second=write, metadata_operations_per_second=names
            ),
            sensitivities=left,
            semantics=Semantics(durable=device is not MEMORY),
        )


def _left(device: DeviceClass, count: int, chosen: Mapping[str, str], read: float, write: float) -> Sensitivities:
    """The parts of both rates that are left under each condition."""

    def part(of: DeviceClass, *, small: bool = False, shared: bool = False) -> float:
        rates = (_rate(of, count, chosen, way, small=small, shared=shared) for way in ("read", "write"))
        return min(1.0, sum(rates) / (read + write))

    seeking = msgspec.structs.replace(
        device,
        read_fixed_seconds=device.read_fixed_seconds + device.seek_seconds,
        write_fixed_seconds=device.write_fixed_seconds + device.seek_seconds,
    )
    return Sensitivities(
        small=part(device, small=True),
        random=part(seeking),
        mixed=_mixed(device, count),
        shared_file=part(device, shared=True),
    )


def _rate(
    device: DeviceClass,
    servers: int,
    settings: Mapping[str, str],
    way: str,
    *,
    small: bool = False,
    shared: bool = False,
) -> float:
    """Bytes per second of one IOR."""
    processes = _processes(servers)
    block = _SMALL_BLOCK_BYTES if small else _BLOCK_BYTES
    transfer = _SMALL_BYTES if small else _LARGE_BYTES
    job = _ior(way, processes, "shared" if shared else "file-per-process", transfer, block)
    return processes * block / _seconds(device, servers, settings, [job])


@cache
def _mixed(device: DeviceClass, servers: int) -> float:
    """The part of both rates that is left to readers beside as many writers, each with files on all targets.

    Both move the same bytes, so it is beside the harmonic mean of the rates.
    """
    settings = {"stripe_count": "0", "stripe_size": "1MiB"}
    half = -(-_processes(servers) // 2)
    jobs = [_ior(way, half, "file-per-process", _LARGE_BYTES, _BLOCK_BYTES) for way in ("read", "write")]
    together = 2 * half * _BLOCK_BYTES / _seconds(device, servers, settings, jobs)
    apart = sum(1 / _rate(device, servers, settings, way) for way in ("read", "write"))
    return min(1.0, together * apart / 2)


@cache
def _names(servers: int) -> float:
    """Calls on names a second, which servers answer without their devices."""
    processes = 4 * servers
    job = f"""
generator = "mdtest"
processes = {processes}
processes_per_node = 1
items = {_ITEMS}
"""
    made = {"stripe_count": "1", "stripe_size": "1MiB"}
    return 3 * _ITEMS * processes / _seconds(DEVICES["pmem"], servers, made, [job], name_seconds=_NAME_SECONDS)


def _processes(servers: int) -> int:
    return max(2, servers * 3 // 2)


def _ior(way: str, processes: int, mode: str, transfer: int, block: int) -> str:
    return f"""
generator = "ior"
name = "{way}"
processes = {processes}
processes_per_node = 1
mode = "{mode}"
transfer = {transfer}
block = {block}
write = {str(way == "write").lower()}
read = {str(way == "read").lower()}
"""


def _seconds(
    device: DeviceClass,
    servers: int,
    settings: Mapping[str, str],
    jobs: Sequence[str],
    *,
    name_seconds: float = 0.0,
) -> float:
    """Time of jobs that begin together."""
    from weir.simulation.runs import run
    from weir.simulation.scenario import parse_scenario

    text = f"""
policy = "fifo"
mode = "request"
layout = {{ stripe_count = {settings["stripe_count"]}, stripe_size = "{settings["stripe_size"]}" }}
{"".join(f"[[jobs]]{job}" for job in jobs)}
[topology]
clients = {{ nodes = {4 * servers}, link = {{ rate = {_NETWORK}, latency = {_LATENCY_SECONDS} }} }}
[[topology.servers]]
count = {servers}
metadata = "{name_seconds * 1e9:.0f}ns"
link = {{ rate = {_NETWORK}, latency = {_LATENCY_SECONDS} }}
[[topology.servers.targets]]
capacity = "1TiB"
read = {{ rate = {device.read_bytes_per_second}, fixed = {device.read_fixed_seconds} }}
write = {{ rate = {device.write_bytes_per_second}, fixed = {device.write_fixed_seconds} }}
"""
    return run(parse_scenario(text, origin="a simulated system", folder=Path())).seconds


def _round(sslo: Sslo) -> Sslo:
    """Four digits, which are more than such a table is worth."""
    rates, left = sslo.guarantees, sslo.sensitivities

    def cut(value: float | None) -> float | None:
        return None if value is None else float(f"{value:.4g}")

    return msgspec.structs.replace(
        sslo,
        guarantees=Guarantees(
            read_bytes_per_second=cut(rates.read_bytes_per_second),
            write_bytes_per_second=cut(rates.write_bytes_per_second),
            metadata_operations_per_second=cut(rates.metadata_operations_per_second),
        ),
        sensitivities=Sensitivities(
            small=cut(left.small), random=cut(left.random), mixed=cut(left.mixed), shared_file=cut(left.shared_file)
        ),
    )


def main() -> None:
    """Write the table that comes with Weir."""
    table = simulated_table([*DEVICES.values(), MEMORY], SERVERS, configurations())
    table = msgspec.structs.replace(table, sslos=tuple(_round(each) for each in table.sslos))
    lines = [msgspec.json.encode(each).decode() for each in table.sslos]
    head = msgspec.json.encode({"version": 1, "source": table.source}).decode()[:-1]
    TABLE.write_text(f'{head},"sslos":[\n' + ",\n".join(lines) + "\n]}\n")


if __name__ == "__main__":
    main()
