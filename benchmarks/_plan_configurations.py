"""Configurations of Weir that the planner chooses for reads and for writes, beside the default (LuxIO, figure 8).

In simulated runs the planner knows simulated systems of other sizes than the planned one. On a real store of emulated
SSDs it knows what such stores of other sizes did on this machine, and on one of QLC drives, which write a tenth as
fast as they read, what the simulator says of them. The devices are so slow that processors do not decide. The
default and the chosen configurations take turns in short rounds, and each gain is that within one round.
"""

import random
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from _configured_store import BYTES, WAYS, ConfiguredStore, Measured, processes
from _harness import ROOT, announce
from scipy.stats import bootstrap
from weir.provisioning.behaviour import classes
from weir.provisioning.behaviour.identity import Identity
from weir.provisioning.objectives.device_classes import DEVICES, DeviceClass
from weir.provisioning.objectives.sslos import Guarantees, Sensitivities, Sslo, SsloTable, System
from weir.provisioning.planning.performance import PerformanceModel
from weir.provisioning.planning.planner import Planner
from weir.provisioning.resources.model import Device, Node, Resources

sys.path.insert(0, str(ROOT / "tests"))

from simulated_sslos import configurations, simulated_table

DEVICE = DEVICES["pmem"]
PLANNED, KNOWN = 16, (8, 32)
"""Servers of the planned systems, and of those that the planner knows."""
DEFAULT = {"stripe_count": "0", "stripe_size": "1MiB"}
REAL_DEVICE = DEVICES["ssd"]
REAL_SERVERS, REAL_KNOWN = 8, (4, 12)
REAL_SLOWER = 60.0
"""The real store's targets are so much slower than SSDs, so that two processors are no bottleneck."""
REAL_ROUNDS = 20
QLC = DeviceClass(
    name="qlc",
    read_bytes_per_second=1e9,
    write_bytes_per_second=100e6,
    read_fixed_seconds=100e-6,
    write_fixed_seconds=100e-6,
)
"""A drive of four bits a cell whose cache is full."""
QLC_SLOWER = 40.0
QLC_ROUNDS = 6
SEED = 8
CONFIDENCE = 0.95


@dataclass(frozen=True)
class Gain:
    """Percent by which one way is faster with a configuration than by default."""

    median: float
    """Median of the rounds, by the time of all processes."""
    low: float
    high: float
    """Ends of the median's interval of confidence, by bootstrap."""
    device: float
    """The same as the median, by the emulated time that the fullest target worked."""


def figure_8(directory: Path) -> dict[str, float]:
    """Measure the gains of the chosen configurations over the default one.

    Args:
        directory: An empty folder.

    Returns:
        Percent by which reads and writes are faster with the configuration for reads, for writes and for both:
        `figure8_reads_read_percent` is that of reads with the configuration for reads. Those with `_real` are of a real
        store: `_low` and `_high` are the ends of the interval of confidence, `_device` is by emulated time alone,
        `_foreseen` is by the model, and `control` is the default configuration once more, whose gain is noise.
    """
    figures: dict[str, float] = {}
    known = simulated_table([DEVICE], KNOWN, configurations(), sensitivities=False).sslos
    for name, settings in _chosen(DEVICE, PLANNED, known).items():
        gains = _simulated_gains(DEVICE, PLANNED, settings)
        figures |= {f"figure8_{name}_{way}_percent": gain for way, gain in gains.items()}
        words = f"{gains['read']:+.1f} % {gains['write']:+.1f} %"
        announce(f"simulated, for {name}", words, f"reads, writes by default, {_words(settings)}", _ratio(gains))
    return figures | _real(_slower(REAL_DEVICE, REAL_SLOWER), directory)


def opposite_losses(directory: Path) -> dict[str, float]:
    """Measure on a real store of emulated QLC drives what each configuration does to the other way.

    Args:
        directory: An empty folder.

    Returns:
        As `figure_8`, with `_qlc` in place of `_real`; `_foreseen` is by the simulator.
        `figure8_opposite_loss_reads_percent` is the loss of reads by the configuration for writes, and
        `figure8_opposite_loss_writes_percent` that of writes by the configuration for reads; a gain is negative.
    """
    known = simulated_table([QLC], REAL_KNOWN, configurations(), sensitivities=False).sslos
    chosen = {**_chosen(QLC, REAL_SERVERS, known), "control": DEFAULT}
    foreseen = {name: _simulated_gains(QLC, REAL_SERVERS, settings) for name, settings in chosen.items()}
    figures = _told("qlc", _slower(QLC, QLC_SLOWER), chosen, foreseen, QLC_ROUNDS, directory / "planned")
    for way, other in (("read", "writes"), ("write", "reads")):
        figures[f"figure8_opposite_loss_{way}s_percent"] = -figures[f"figure8_qlc_{other}_{way}_percent"]
    return figures


def _words(settings: Mapping[str, str]) -> str:
    return f"-c {settings['stripe_count']} -S {settings['stripe_size']}"


def _ratio(gains: Mapping[str, float]) -> float:
    return 1 + sum(gains.values()) / len(gains) / 100


def _real(device: DeviceClass, directory: Path) -> dict[str, float]:
    """The gains on a real store, by the model of real stores of other sizes."""
    known = [each for servers in REAL_KNOWN for each in _measured(device, servers, directory / f"known-{servers}")]
    chosen = {**_chosen(device, REAL_SERVERS, known), "control": DEFAULT}
    foreseen = _foreseen(PerformanceModel(known), device, chosen)
    return _told("real", device, chosen, foreseen, REAL_ROUNDS, directory / "planned")


def _told(
    store: str,
    device: DeviceClass,
    chosen: Mapping[str, Mapping[str, str]],
    foreseen: Mapping[str, Mapping[str, float]],
    rounds: int,
    home: Path,
) -> dict[str, float]:
    """Measure the gains on a real store, and announce them."""
    figures: dict[str, float] = {f"figure8_{store}_rounds": float(rounds)}
    for name, gains in _real_gains(device, chosen, rounds, home).items():
        for way, gain in gains.items():
            key = f"figure8_{store}_{name}_{way}"
            figures |= {f"{key}_percent": gain.median, f"{key}_low_percent": gain.low, f"{key}_high_percent": gain.high}
            figures |= {f"{key}_device_percent": gain.device, f"{key}_foreseen_percent": foreseen[name][way]}
            words = f"{gain.median:+.1f} % ({gain.low:+.1f}..{gain.high:+.1f})"
            beside = f"foreseen {foreseen[name][way]:+.1f} %, {_words(chosen[name])}"
            announce(f"{way}s, for {name}", words, beside, 1 + gain.median / 100)
    return figures


def _measured(device: DeviceClass, servers: int, home: Path) -> list[Sslo]:
    """Objectives of a real store of so many servers: the rates of each configuration."""
    found = []
    with ConfiguredStore(home, device, servers) as store:
        for settings in configurations():
            if int(settings["stripe_count"]) > servers:
                continue
            times = store.measured(settings)
            read, write = (processes(servers) * BYTES / times[way].seconds for way in ("read", "write"))
            found.append(
                Sslo(
                    name=f"{servers}-{_words(settings)}",
                    system=System(device=device.name, servers=servers, settings=settings),
                    guarantees=Guarantees(read_bytes_per_second=read, write_bytes_per_second=write),
                    sensitivities=Sensitivities(),
                )
            )
    return found


def _foreseen(
    model: PerformanceModel, device: DeviceClass, chosen: Mapping[str, Mapping[str, str]]
) -> dict[str, dict[str, float]]:
    """The gains that the model expects, in percent."""

    def rates(settings: Mapping[str, str]) -> dict[str, float]:
        found = model.expect(System(device=device.name, servers=REAL_SERVERS, settings=dict(settings)))
        assert found is not None
        return {way: getattr(found.guarantees, f"{way}_bytes_per_second") for way in WAYS}

    base = rates(DEFAULT)
    return {
        name: {way: 100 * (rate / base[way] - 1) for way, rate in rates(settings).items()}
        for name, settings in chosen.items()
    }


def _real_gains(
    device: DeviceClass, chosen: Mapping[str, Mapping[str, str]], count: int, home: Path
) -> dict[str, dict[str, Gain]]:
    """Gains on a real store: each round measures every configuration once, in an order of its own."""
    rounds: list[dict[str, dict[str, Measured]]] = []
    order = random.Random(SEED)
    # Configurations that are the same are measured once; the control is the default a second time.
    alike = {_words(settings): name for name, settings in chosen.items() if name != "control"}
    distinct = {name: chosen[name] for name in alike.values()} | {"control": DEFAULT, "default": DEFAULT}
    with ConfiguredStore(home, device, REAL_SERVERS) as store:
        for _ in range(count):
            names = order.sample(list(distinct), len(distinct))
            rounds.append({name: store.measured(distinct[name]) for name in names})

    def gain(name: str, way: str) -> Gain:
        of = name if name in distinct else alike[_words(chosen[name])]
        pairs = [(each["default"][way], each[of][way]) for each in rounds]
        ratios = np.array([default.seconds / own.seconds for default, own in pairs])
        low, high = bootstrap(
            (ratios,), np.median, confidence_level=CONFIDENCE, method="percentile", rng=np.random.default_rng(SEED)
        ).confidence_interval
        device_ratio = np.median([default.device_seconds / own.device_seconds for default, own in pairs])
        percents = (100 * (float(each) - 1) for each in (np.median(ratios), low, high, device_ratio))
        return Gain(*percents)

    return {name: {way: gain(name, way) for way in WAYS} for name in chosen}


def _slower(device: DeviceClass, factor: float) -> DeviceClass:
    return DeviceClass(
        name=device.name,
        read_bytes_per_second=device.read_bytes_per_second / factor,
        write_bytes_per_second=device.write_bytes_per_second / factor,
        read_fixed_seconds=device.read_fixed_seconds * factor,
        write_fixed_seconds=device.write_fixed_seconds * factor,
    )


def _chosen(device: DeviceClass, servers: int, known: Sequence[Sslo]) -> dict[str, dict[str, str]]:
    """The configurations that a plan gives a reader, a writer, and a job that does both."""
    objective = Sslo(
        name="fast",
        system=System(device=device.name, servers=servers),
        guarantees=Guarantees(read_bytes_per_second=1e12, write_bytes_per_second=1e12),
        sensitivities=Sensitivities(),
    )
    planner = Planner(classes.built_in(), SsloTable(source="benchmark", sslos=(objective,)), known, ())
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
