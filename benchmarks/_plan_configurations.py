"""Configurations of Weir that the planner chooses for reads and for writes, beside the default (LuxIO, figure 8).

Simulated runs of systems of other sizes are all that the planner knows. The gains are those of simulated runs of the
planned size, and of a real store on this machine, whose targets emulate the rates of PMEM, slower by a factor.
"""

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median

import weir
from _harness import WAIT_SECONDS, announce, run_weir
from weir.provisioning.behaviour import classes
from weir.provisioning.behaviour.identity import Identity
from weir.provisioning.objectives.device_classes import DEVICES, DeviceClass
from weir.provisioning.objectives.simulated_sslos import configurations, simulated_table
from weir.provisioning.objectives.sslos import Guarantees, Sensitivities, Sslo, SsloTable, System
from weir.provisioning.planning.planner import Planner
from weir.provisioning.resources.model import Device, Node, Resources

DEVICE = DEVICES["pmem"]
PLANNED, KNOWN = 16, (8, 32)
"""Servers of the planned systems, and of those that the planner knows."""
DEFAULT = {"stripe_count": "0", "stripe_size": "1MiB"}
REAL_SERVERS, REAL_KNOWN, REAL_PROCESSES = 16, (8, 32), 24
REAL_SLOWER = 200.0
"""The real store's targets are so much slower than PMEM, so that two cores are no bottleneck."""
REAL_BYTES = 32 << 20
"""Bytes of each process: two default stripes on each target, because a smaller file lies on some targets alone."""
REAL_ROUNDS = 3
PREFIX = "/weir"
_WORKER = """
import os, sys
way, path, size = sys.argv[1], sys.argv[2], int(sys.argv[3])
piece = bytearray(4 << 20)
print("ready", flush=True)
sys.stdin.read()
file = os.open(path, os.O_RDWR | os.O_CREAT)
for place in range(0, size, len(piece)):
    (os.pwrite if way == "write" else os.preadv)(file, piece if way == "write" else [piece], place)
os.close(file)
"""


def figure_8(directory: Path) -> dict[str, float]:
    """Measure the gains of the chosen configurations over the default one.

    Args:
        directory: An empty folder.

    Returns:
        Percent by which reads and writes are faster with the configuration for reads, for writes and for both:
        `figure8_reads_read_percent` is that of reads with the configuration for reads; `_real` in a real store, where
        `control` is the default configuration once more, whose gain is noise.
    """
    figures: dict[str, float] = {}
    chosen = _chosen(DEVICE, PLANNED, KNOWN)
    for name, settings in chosen.items():
        for way, gain in _simulated_gains(DEVICE, PLANNED, settings).items():
            figures[f"figure8_{name}_{way}_percent"] = gain
        _announce(f"simulated, for {name}", settings, figures, f"figure8_{name}", "_percent")
    slower = _slower(DEVICE, REAL_SLOWER)
    real = {**_chosen(slower, REAL_SERVERS, REAL_KNOWN), "control": DEFAULT}
    expected = {name: _simulated_gains(slower, REAL_SERVERS, settings) for name, settings in real.items()}
    gains = _real_gains(slower, real, directory)
    for name, settings in real.items():
        for way in ("read", "write"):
            figures[f"figure8_real_{name}_{way}_percent"] = gains[name][way]
            figures[f"figure8_real_{name}_{way}_foreseen_percent"] = expected[name][way]
        _announce(f"real, for {name}", settings, figures, f"figure8_real_{name}", "_percent")
    return figures


def _announce(what: str, settings: Mapping[str, str], figures: Mapping[str, float], key: str, end: str) -> None:
    read, write = figures[f"{key}_read{end}"], figures[f"{key}_write{end}"]
    words = f"-c {settings['stripe_count']} -S {settings['stripe_size']}"
    announce(what, f"{read:+.1f} % {write:+.1f} %", f"reads and writes by default, {words}", 1 + (read + write) / 200)


def _slower(device: DeviceClass, factor: float) -> DeviceClass:
    return DeviceClass(
        name=device.name,
        read_bytes_per_second=device.read_bytes_per_second / factor,
        write_bytes_per_second=device.write_bytes_per_second / factor,
        read_fixed_seconds=device.read_fixed_seconds * factor,
        write_fixed_seconds=device.write_fixed_seconds * factor,
    )


def _chosen(device: DeviceClass, servers: int, known: Sequence[int]) -> dict[str, dict[str, str]]:
    """The configurations that a plan gives a reader, a writer, and a job that does both."""
    table = simulated_table([device], known, configurations(), sensitivities=False)
    objective = Sslo(
        name="fast",
        system=System(device=device.name, servers=servers),
        guarantees=Guarantees(read_bytes_per_second=1e12, write_bytes_per_second=1e12),
        sensitivities=Sensitivities(),
    )
    planner = Planner(classes.built_in(), SsloTable(source="benchmark", sslos=(objective,)), table.sslos, ())
    node = Node(name="n", devices=(Device(path="/d", kind=device.name, capacity_bytes=10**16),))
    nodes = tuple(Node(name=f"n{number}", devices=node.devices) for number in range(servers))
    jobs = {"reads": (10**14, 0), "writes": (0, 10**14), "both": (10**14, 10**14)}
    return {
        name: planner.plan(_job(*amounts), None, Resources(nodes=nodes)).deployment.system.settings
        for name, amounts in jobs.items()
    }


def _job(read_bytes: int, written_bytes: int) -> Identity:
    return Identity(
        name="job",
        processes=1024,
        seconds=10.0,
        read_bytes=read_bytes,
        written_bytes=written_bytes,
        read_operations=read_bytes >> 22,
        write_operations=written_bytes >> 22,
        large_fraction=1.0,
        sequential_fraction=1.0,
    )


def _simulated_gains(device: DeviceClass, servers: int, settings: Mapping[str, str]) -> dict[str, float]:
    own, base = simulated_table([device], [servers], [settings, DEFAULT], sensitivities=False).sslos
    return {
        way: 100 * (getattr(own.guarantees, name) / getattr(base.guarantees, name) - 1)
        for way, name in (("read", "read_bytes_per_second"), ("write", "write_bytes_per_second"))
    }


def _real_gains(
    device: DeviceClass, chosen: Mapping[str, Mapping[str, str]], directory: Path
) -> dict[str, dict[str, float]]:
    """Gains on a real store, by turns: each round runs every configuration once."""
    spent: dict[str, dict[str, list[float]]] = {name: {"write": [], "read": []} for name in (*chosen, "default")}
    with contextlib.ExitStack() as ends:
        store = ends.enter_context(
            weir.store.up(
                home=directory / "home",
                servers=REAL_SERVERS,
                targets=1,
                capacity="2GiB",
                mount=False,
                read_speed=f"{device.read_bytes_per_second / 1e6:.0f}MB/s",
                write_speed=f"{device.write_bytes_per_second / 1e6:.0f}MB/s",
                fixed_time=f"{device.read_fixed_seconds * 1e6:.0f}us",
            )
        )
        variables = {**os.environ, **ends.enter_context(store.job("figure8", prefix=PREFIX))}
        for name, settings in {**chosen, "default": DEFAULT}.items():
            place = f"{PREFIX}/{name}"
            subprocess.run([sys.executable, "-c", f"import os; os.mkdir({place!r})"], env=variables, check=True)
            layout = ("-c", settings["stripe_count"].replace("0", "-1"), "-S", settings["stripe_size"])
            run_weir(variables, "layout", "set", *layout, place)
        for number in range(REAL_ROUNDS):
            for name in spent:
                for way in ("write", "read"):
                    spent[name][way].append(_together(variables, way, f"{PREFIX}/{name}/{number}"))
                _remove(variables, f"{PREFIX}/{name}/{number}")
    return {
        name: {
            way: 100 * (median(b / o for b, o in zip(spent["default"][way], own[way], strict=True)) - 1)
            for way in ("read", "write")
        }
        for name, own in spent.items()
        if name != "default"
    }


def _together(variables: Mapping[str, str], way: str, stem: str) -> float:
    """Seconds of all processes, which begin together."""
    workers = [
        subprocess.Popen(
            [sys.executable, "-c", _WORKER, way, f"{stem}.{number}", str(REAL_BYTES)],
            env=variables,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        for number in range(REAL_PROCESSES)
    ]
    for worker in workers:
        assert worker.stdout is not None
        assert worker.stdout.readline() == b"ready\n"
    begin = time.perf_counter()
    for worker in workers:
        assert worker.stdin is not None
        worker.stdin.close()
    for worker in workers:
        if worker.wait(WAIT_SECONDS) != 0:
            sys.exit(f"a process that should {way} {stem} failed")
    return time.perf_counter() - begin


def _remove(variables: Mapping[str, str], stem: str) -> None:
    names = [f"{stem}.{number}" for number in range(REAL_PROCESSES)]
    program = f"import os; [os.unlink(name) for name in {names!r}]"
    subprocess.run([sys.executable, "-c", program], env=variables, check=True, timeout=WAIT_SECONDS)
