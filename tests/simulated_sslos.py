"""Objectives of Weir on classes of devices, from simulated runs: what a store would do before anybody measured one.

Run as a program it writes the table that comes with Weir.

Each system runs an IOR of three processes for each two servers, so that files do not fall evenly on targets: to read
and to write by calls of 4 MiB, by calls below 10 KB, and on one shared file.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path

import msgspec
from weir.provisioning.objectives.device_classes import DEVICES, DeviceClass
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
        sensitivities: Whether small calls and shared files are simulated, too, which takes most of the time.

    Returns:
        Their objectives. Configurations with more stripes than a system has targets are left out.

    Raises:
        SimulationError: The simulator refuses a system.
    """
    return SsloTable(
        source="Weir's simulator, an IOR of three processes for each two servers",
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
        left = Sensitivities()
        if sensitivities:
            small = sum(_rate(device, count, chosen, way, small=True) for way in ("read", "write"))
            shared = sum(_rate(device, count, chosen, way, shared=True) for way in ("read", "write"))
            whole = read + write
            left = Sensitivities(small=min(1.0, small / whole), shared_file=min(1.0, shared / whole))
        yield Sslo(
            name=f"weir-{device.name}-{count}-c{chosen['stripe_count']}-{chosen['stripe_size']}",
            system=System(device=device.name, network_bytes_per_second=_NETWORK, servers=count, settings=dict(chosen)),
            guarantees=Guarantees(read_bytes_per_second=read, write_bytes_per_second=write),
            sensitivities=left,
            semantics=Semantics(),
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
    from weir.simulation.runs import run
    from weir.simulation.scenario import parse_scenario

    processes = max(2, servers * 3 // 2)
    block = _SMALL_BLOCK_BYTES if small else _BLOCK_BYTES
    transfer = _SMALL_BYTES if small else _LARGE_BYTES
    text = f"""
policy = "fifo"
mode = "request"
layout = {{ stripe_count = {settings["stripe_count"]}, stripe_size = "{settings["stripe_size"]}" }}
[[jobs]]
generator = "ior"
processes = {processes}
processes_per_node = 1
mode = "{"shared" if shared else "file-per-process"}"
transfer = {transfer}
block = {block}
write = {str(way == "write").lower()}
read = {str(way == "read").lower()}
[topology]
clients = {{ nodes = {processes}, link = {{ rate = {_NETWORK}, latency = {_LATENCY_SECONDS} }} }}
[[topology.servers]]
count = {servers}
link = {{ rate = {_NETWORK}, latency = {_LATENCY_SECONDS} }}
[[topology.servers.targets]]
capacity = "1TiB"
read = {{ rate = {device.read_bytes_per_second}, fixed = {device.read_fixed_seconds} }}
write = {{ rate = {device.write_bytes_per_second}, fixed = {device.write_fixed_seconds} }}
"""
    outcome = run(parse_scenario(text, origin="a simulated system", folder=Path()))
    return processes * block / outcome.seconds


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
        ),
        sensitivities=Sensitivities(small=cut(left.small), shared_file=cut(left.shared_file)),
    )


def main() -> None:
    """Write the table that comes with Weir."""
    table = simulated_table(list(DEVICES.values()), SERVERS, configurations())
    table = msgspec.structs.replace(table, sslos=tuple(_round(each) for each in table.sslos))
    lines = [msgspec.json.encode(each).decode() for each in table.sslos]
    head = msgspec.json.encode({"version": 1, "source": table.source}).decode()[:-1]
    TABLE.write_text(f'{head},"sslos":[\n' + ",\n".join(lines) + "\n]}\n")


if __name__ == "__main__":
    main()
