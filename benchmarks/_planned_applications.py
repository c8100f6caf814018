"""The storage that the planner chooses for four application kernels, beside the site's default one (LuxIO, figure 9).

The kernels are those of `weir stress`: VPIC-IO, BD-CATS, HACC-IO and Enzo. The default storage is as many SSDs, as Weir
configures them by itself; in the paper it is the site's OrangeFS on as many SSDs. A third deployment has the planned
devices with the default configuration, and so tells the worth of the configuration from that of the devices. The part
`equal` holds the devices equal: the plan may take the default's SSDs alone. All
targets emulate devices that are slower by one factor, so that two processors are no bottleneck. The deployments take
turns: each round runs every kernel on each of them once.
"""

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean, median

import msgspec
from _harness import announce
from weir.provisioning.behaviour import classes
from weir.provisioning.behaviour.identity import Identity, identify
from weir.provisioning.behaviour.traits import LARGE_BYTES, SMALL_BYTES, Traits, Transfers
from weir.provisioning.deployments import Deployment
from weir.provisioning.jobs.wishes import of_options
from weir.provisioning.objectives import shipped, sslo_tables
from weir.provisioning.objectives.device_classes import DEVICES
from weir.provisioning.objectives.sslos import Semantics, System
from weir.provisioning.planning.planner import Planner
from weir.provisioning.resources.model import Device, Node, Resources
from weir.provisioning.stress import execution, kernels, places
from weir.provisioning.stress.plan import Planned
from weir.provisioning.stress.plan import plan as measurements
from weir.provisioning.stress.results import StressFigures
from weir.provisioning.stress.systems import Candidate

KERNELS = ("vpic", "bdcats", "hacc", "enzo")
KINDS = ("ssd", "nvme", "pmem")
"""Classes of the devices that each node has one of, as in the paper's cluster."""
DEFAULT_KIND = "ssd"
NODES = 4
SLOWER = 100.0
"""Factor by which the emulated devices are slower than those of their class."""
PROCESSES, FILE_BYTES = 8, 32 << 20
PHASE_SECONDS = 4.0
ROUNDS = 5
EQUAL_ROUNDS = 3
PAPER_RATIO = 0.57
"""The paper's planned deployments took 43 % less time on average."""


@dataclass(frozen=True)
class _Choice:
    """A kernel and the systems on which it runs, by the names of the deployments."""

    kernel: kernels.Kernel
    identity: Identity
    systems: Mapping[str, System]


def planned_applications(directory: Path, rounds: int = ROUNDS) -> dict[str, float]:
    """Measure the I/O times on planned and default storage.

    Args:
        directory: An empty folder.
        rounds: Number of rounds.

    Returns:
        `io_time_vs_default`, the mean over the kernels of the median ratio of I/O times of a round;
        `io_time_vs_same_devices` against the planned devices with the default configuration; both for each kernel; and
        the machine's load of the last minute, before and behind the measurement.
    """
    load_before = os.getloadavg()[0]
    choices = _choices(("planned", "default", "same_devices"))
    seconds = _measured(choices, rounds, directory)
    figures: dict[str, float] = {}
    for other in ("default", "same_devices"):
        figures |= _ratios(choices, seconds, "planned", other, f"io_time_vs_{other}")
    announce("four kernels", f"{figures['io_time_vs_default']:.2f}", "the paper's mean", PAPER_RATIO)
    return figures | {"io_time_load_before": load_before, "io_time_load_after": os.getloadavg()[0]}


def equal_devices(directory: Path, rounds: int = EQUAL_ROUNDS) -> dict[str, float]:
    """Measure the I/O times by plans on the default's devices, beside the default configuration.

    Args:
        directory: An empty folder.
        rounds: Number of rounds.

    Returns:
        `io_time_equal_devices`, the mean over the kernels of the median ratio of a round, and that of each kernel.
    """
    choices = _choices(("equal", "default"))
    return _ratios(choices, _measured(choices, rounds, directory), "equal", "default", "io_time_equal_devices")


def _choices(names: Sequence[str]) -> list[_Choice]:
    """The systems of these names for each kernel."""
    planner = Planner(classes.built_in(), shipped.built_in(), sslo_tables.measured().sslos)
    found = [_choice(planner, kernels.KERNELS[name]) for name in KERNELS]
    return [replace(each, systems={name: each.systems[name] for name in names}) for each in found]


def _measured(choices: Sequence[_Choice], rounds: int, directory: Path) -> dict[tuple[str, str], list[float]]:
    """The I/O times of each kernel on each of its systems, by round."""
    seconds: dict[tuple[str, str], list[float]] = {}
    for number in range(rounds):
        for choice in choices:
            names = list(choice.systems)
            # Every second round goes backwards: what changes slowly then falls on all alike.
            for name in names if number % 2 == 0 else reversed(names):
                spent = _io_seconds(choice, choice.systems[name], number, directory)
                seconds.setdefault((choice.kernel.name, name), []).append(spent)
    return seconds


def _ratios(
    choices: Sequence[_Choice], seconds: Mapping[tuple[str, str], Sequence[float]], one: str, other: str, key: str
) -> dict[str, float]:
    """The median ratios of I/O times within a round, and their mean over the kernels."""
    figures: dict[str, float] = {}
    for choice in choices:
        own, theirs = (seconds[choice.kernel.name, name] for name in (one, other))
        found = [first / second for first, second in zip(own, theirs, strict=True)]
        figures[f"{key}_{choice.kernel.name}"] = median(found)
        words = f"{median(own):.2f} s ({min(found):.2f}-{max(found):.2f})"
        announce(choice.kernel.name, words, f"{other.replace('_', ' ')}: {median(theirs):.2f} s", median(found))
    return figures | {key: fmean(figures.values())}


def _choice(planner: Planner, kernel: kernels.Kernel) -> _Choice:
    identity = _identity(kernel)
    system, equal = (_planned(planner, kernel, identity, devices) for devices in ((), (DEFAULT_KIND,)))
    counts = {each.servers * each.targets_per_server for each in (system, equal)}
    if len(counts) > 1:
        sys.exit(f"the plans of {kernel.name} have different numbers of devices: {counts}")
    bare = System(device=system.device, servers=system.servers, targets_per_server=system.targets_per_server)
    default = System(device=DEFAULT_KIND, servers=system.servers, targets_per_server=system.targets_per_server)
    systems = {"planned": system, "default": default, "same_devices": bare, "equal": equal}
    return _Choice(kernel, identity, systems)


def _planned(planner: Planner, kernel: kernels.Kernel, identity: Identity, devices: tuple[str, ...]) -> System:
    """The fastest system for a kernel on devices of these classes, or of any."""
    wishes = of_options("benchmark", {}, policy="performance", devices=devices)
    deployment = planner.plan(identity, None, _site(), wishes=wishes).deployment
    system = deployment.system
    count = system.servers * system.targets_per_server
    words = ", ".join(f"{name} {text}" for name, text in system.settings.items())
    print(f"{kernel.name:10} {identity.name}: {count} of {system.device}, {words}", file=sys.stderr, flush=True)
    _check(deployment)
    return system


def _check(deployment: Deployment) -> None:
    """A device may stand in a plan once: else the compared deployments would have other counts of them."""
    used = [(server.node, device) for server in deployment.servers for device in server.devices]
    if len(set(used)) != len(used):
        sys.exit(f"the plan {deployment.name} uses a device twice")


def _site() -> Resources:
    """The site: nodes with one device of each class, at the rates that the targets emulate."""
    return Resources(
        nodes=tuple(
            Node(
                name=f"n{number}",
                devices=tuple(
                    Device(
                        path=f"/{kind}",
                        kind=kind,
                        capacity_bytes=1 << 40,
                        read_bytes_per_second=DEVICES[kind].read_bytes_per_second / SLOWER,
                        write_bytes_per_second=DEVICES[kind].write_bytes_per_second / SLOWER,
                    )
                    for kind in KINDS
                ),
            )
            for number in range(NODES)
        )
    )


def _identity(kernel: kernels.Kernel) -> Identity:
    """The identity of a kernel, from the calls that it makes."""
    lengths = [
        length for process in range(PROCESSES) for _, length in kernels.calls(kernel, process, PROCESSES, FILE_BYTES)
    ]
    small, large = (sum(map(test, lengths)) for test in (SMALL_BYTES.__gt__, LARGE_BYTES.__le__))
    made = Transfers(
        operations=len(lengths),
        bytes=sum(lengths),
        small_operations=small,
        medium_operations=len(lengths) - small - large,
        large_operations=large,
        sized_operations=len(lengths),
        sequential_operations=len(lengths),
    )
    files = 1 if kernel.is_shared else PROCESSES
    return identify(
        Traits(
            program=kernel.name,
            processes=PROCESSES,
            interface="posix",
            files=files,
            shared_files=files if kernel.is_shared else 0,
            read=made if "read" in kernel.phases else Transfers(),
            write=made if "write" in kernel.phases else Transfers(),
            metadata_operations=PROCESSES * len(kernel.phases),
        )
    )


def _io_seconds(choice: _Choice, system: System, number: int, directory: Path) -> float:
    """The time in which a kernel moves its bytes, by the rates of its phases."""
    candidate = Candidate(_emulated(system), Semantics(durable=False))
    (planned,) = measurements(
        [candidate],
        names=[choice.kernel.name],
        processes=[PROCESSES],
        repeats=1,
        seconds=PHASE_SECONDS,
        file_bytes=FILE_BYTES,
    )
    planned = _of_round(planned, number)
    with places.place(candidate, space_bytes=planned.space_bytes, out=directory, scratch=directory) as made:
        found: StressFigures = execution.measure(planned, made)
    identity = choice.identity
    rates = (found.read_bytes_per_second, found.write_bytes_per_second)
    moved = (identity.read_bytes, identity.written_bytes)
    return sum(size / rate for size, rate in zip(moved, rates, strict=True) if rate and size)


def _of_round(planned: Planned, number: int) -> Planned:
    """The measurement with an order of calls of its round's own."""
    return replace(planned, point=msgspec.structs.replace(planned.point, repeat=number))


def _emulated(system: System) -> System:
    """The system on targets in memory that take the time of its slower devices."""
    device = DEVICES[system.device]
    speeds: Sequence[tuple[str, str]] = (
        ("backend", "ram"),
        ("read_speed", f"{device.read_bytes_per_second / SLOWER:.0f}B/s"),
        ("write_speed", f"{device.write_bytes_per_second / SLOWER:.0f}B/s"),
        ("fixed_time", f"{device.read_fixed_seconds * SLOWER * 1e6:.0f}us"),
    )
    return msgspec.structs.replace(system, settings={**system.settings, **dict(speeds)})
