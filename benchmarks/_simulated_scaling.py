"""Three applications at once on 160 to 3,600 targets: the Tarazu paper's figure 23 (ACM TOS 20-2, 2024, section 7.5).

.venv/bin/python benchmarks/_simulated_scaling.py [--quick] [--causes]

`--quick` takes the least and the greatest number of targets and one seed, `--causes` what the paper leaves open: how
its traces send their reads, and what bounds a server.

The volumes and node counts are table 7's, the layouts those of section 7.1.4 and table 8. The paper states no sizes of
files; those of `weir.simulation.workloads.scalability` are taken, with their sources there. Files that are read were
placed before by the same allocator, as the outputs of earlier runs were.
"""

import dataclasses
import json
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from _central_placement import File, FileSystem
from _harness import announce
from _simulated_tables import PLOTS, Part, table
from weir import _core
from weir.placement.min_cost_flow import NAME as LINEAR
from weir.simulation import Scenario, run
from weir.simulation.outcome import Outcome
from weir.simulation.topology import Topology
from weir.simulation.workload import Job, Kind, Steps, Work, Workload
from weir.simulation.workloads.scalability import APPLICATIONS, Scalability

GB = 10**9
TARGETS_EACH = 8
CAPACITY_BYTES = 10 * GB
TARGETS = (160, 640, 1280, 2400, 3600)
ALIGNMENT_BYTES = 1 << 17
"""Unit of stripe sizes: twice Lustre's 64 KiB (the paper's section 5.5.2)."""
LINK_RATE, TARGET_RATE = 12.5e9, 0.2e9
"""Links of 100 Gb/s; a target of 200 MB/s, which four client nodes keep busy."""
OURS, LUSTRE, RANDOM = "balanced", "lustre-standard", "random"
ALLOCATORS = (OURS, LUSTRE, RANDOM, LINEAR)
LAYOUTS = {
    "no PFL": "-c 8",
    "configuration 1": "-E 128M -c 1 -E 512M -c 3 -E 2G -c 8 -E -1 -c 16",
    "configuration 2": "-E 128M -c 1 -E 2G -c 12 -E -1 -c 32",
}
SHOWN = "configuration 1"
"""The layout of the gains in the JSON: the paper gives its bandwidths at 3,600 targets for it."""


WAYS = ("read", "write")
SEEDS = (0, 1, 2)
WORKERS = 2
"""Processes that run points: each needs up to 300 MiB."""
NODES = sum(each.nodes for each in APPLICATIONS.values())
STATED_GAIN = 0.363
"""The gain in reads that the paper states for `SHOWN` at 3,600 targets."""


def topology(targets: int, server_rate: float = LINK_RATE) -> Topology:
    """A file system with eight targets a server, whose servers move `server_rate` bytes a second each."""

    def link(rate: float) -> dict[str, float]:
        return {"bytes_per_second": rate}

    target = {"capacity_bytes": CAPACITY_BYTES, "read": link(TARGET_RATE), "write": link(TARGET_RATE)}
    server = {"link": link(server_rate), "targets": [target] * TARGETS_EACH}
    clients = {"nodes": NODES, "link": link(LINK_RATE)}
    document = {"name": f"{targets} targets", "clients": clients, "routers": []}
    return Topology({**document, "servers": [server] * (targets // TARGETS_EACH)})


def sizes_of(work: Work) -> list[int]:
    """Bytes of each file of a job at its end."""
    sizes = work.file_bytes.copy()
    wrote = work.steps.kind == Kind.WRITE
    np.maximum.at(sizes, work.steps.file[wrote], work.steps.offset[wrote] + work.steps.bytes[wrote])
    return [int(size) for size in sizes]


def scenario(targets: int, layout: str, allocator: str, seed: int, *, is_open: bool = False) -> Scenario:
    """All applications at once; with `is_open` their reads alone, as `sent_at_once` has them."""
    works = [Scalability(application=name).work(np.random.default_rng(seed)) for name in APPLICATIONS]
    layouts = layouts_of(works, targets, layout, allocator, seed)
    jobs = [
        (Job(name, user=name, nodes=work.nodes), _sent(dataclasses.replace(work, layouts=tuple(own)), is_open=is_open))
        for name, work, own in zip(APPLICATIONS, works, layouts, strict=True)
    ]
    # Every layout names its targets, so the store has nothing to choose.
    return Scenario(topology=topology(targets), workload=Workload.of(jobs, nodes=NODES), seed=seed, policy="job-fair")


@dataclasses.dataclass(frozen=True)
class Assumption:
    """An answer to what the paper leaves open."""

    server_rate: float
    """Bytes a second of a server."""
    is_open: bool
    """Whether all reads are sent at once, by the times of a trace, and do not wait for each other."""

    def words(self) -> str:
        """A row's name."""
        way = "all reads at once" if self.is_open else "a node sends a read when the one before is done"
        bound = "servers of 100 Gb/s" if self.server_rate == LINK_RATE else "servers as slow as a target"
        return f"{way}, {bound}"

    def gain(self, targets: int, seed: int = 0) -> float:
        """The gain in reads of `balanced` over `lustre-standard` under `SHOWN`."""
        rates = []
        for allocator in (OURS, LUSTRE):
            given = scenario(targets, LAYOUTS[SHOWN], allocator, seed, is_open=self.is_open)
            outcome = run(dataclasses.replace(given, topology=topology(targets, self.server_rate)))
            reading = max(job.reading_seconds for job in outcome.jobs)
            rates.append(sum(job.read_bytes for job in outcome.jobs) / reading)
        return rates[0] / rates[1] - 1


ASSUMPTIONS = [Assumption(rate, is_open) for is_open in (False, True) for rate in (LINK_RATE, TARGET_RATE)]


def causes(targets: int = max(TARGETS)) -> Part:
    """The gain in reads under each assumption."""
    gains = {assumption: assumption.gain(targets) for assumption in ASSUMPTIONS}
    for assumption, gain in gains.items():
        announce(assumption.words(), f"{100 * gain:+.1f} %", "the paper +36.3 %", (1 + gain) / (1 + STATED_GAIN))
    rows = [[assumption.words(), f"{100 * gain:+.1f} %"] for assumption, gain in gains.items()]
    nearest = min(gains.values(), key=lambda gain: abs(gain - STATED_GAIN))
    return Part(
        {f"read_gain_{targets}_nearest": nearest},
        {"scaling-causes": table(["assumption", "gain in reads"], rows)},
    )


def sent_at_once(work: Work) -> Work:
    """The reads of a job without the order in which its nodes send them: each is a stream of its own."""
    steps = work.steps
    kept = np.flatnonzero(steps.kind == Kind.READ)
    alone = Steps.of(
        len(kept),
        stream=np.arange(len(kept)),
        kind=Kind.READ,
        file=steps.file[kept],
        offset=steps.offset[kept],
        bytes=steps.bytes[kept],
    )
    return dataclasses.replace(work, steps=alone, stream_nodes=work.stream_nodes[steps.stream[kept]])


def layouts_of(works: Sequence[Work], targets: int, layout: str, allocator: str, seed: int) -> list[list[str]]:
    """The layouts of the files of each application, with their targets: inputs are placed first, then outputs."""
    places: list[list[tuple[int, int]]] = [[], []]
    waves: list[list[File]] = [[], []]
    for program, (work, volumes) in enumerate(zip(works, APPLICATIONS.values(), strict=True)):
        for number, size in enumerate(sizes_of(work)):
            wave = 0 if work.file_bytes[number] else 1
            places[wave].append((program, number))
            own = _core.contiguous_layout(layout, size, ALIGNMENT_BYTES)
            waves[wave].append(File(program, own, size, volumes.are_shared))
    layouts = [[""] * len(work.file_bytes) for work in works]
    placed = FileSystem(targets, TARGETS_EACH, CAPACITY_BYTES).place(waves, allocator, seed)
    for wave_places, found in zip(places, placed, strict=True):
        for (program, number), named in zip(wave_places, found, strict=True):
            layouts[program][number] = named
    return layouts


def _sent(work: Work, *, is_open: bool) -> Work:
    return sent_at_once(work) if is_open else work


def bandwidths(outcome: Outcome) -> dict[str, float]:
    """Bytes that all applications read, over the time of the slowest, in GB/s; the same of writes."""
    jobs = outcome.jobs
    reading = max(job.reading_seconds for job in jobs)
    writing = max(job.writing_seconds for job in jobs)
    return {
        "read": sum(job.read_bytes for job in jobs) / reading / GB,
        "write": sum(job.written_bytes for job in jobs) / writing / GB,
    }


@dataclasses.dataclass(frozen=True)
class Point:
    """One run."""

    layout: str
    """Name of the layout."""
    targets: int
    allocator: str
    seed: int

    def rates(self) -> dict[str, float]:
        """The bandwidths of the run, see `bandwidths`."""
        return bandwidths(run(scenario(self.targets, LAYOUTS[self.layout], self.allocator, self.seed)))


Rates = Mapping[Point, Mapping[str, float]]


def scaling(_: Path, *, targets: Sequence[int] = TARGETS, seeds: Sequence[int] = SEEDS) -> Part:
    """Every number of targets under every layout and allocator."""
    points = [
        Point(layout, count, allocator, seed)
        for layout in LAYOUTS
        for count in targets
        for allocator in ALLOCATORS
        # The order of the reads is all that a seed changes under the paper's graph.
        for seed in seeds[: 1 if allocator == LINEAR else None]
    ]
    with ProcessPoolExecutor(max_workers=WORKERS) as pool:
        rates = dict(zip(points, pool.map(Point.rates, points), strict=True))
    rows = [_row(rates, layout, count, seeds) for layout in LAYOUTS for count in targets]
    heads = ["layout, targets"]
    for way in WAYS:
        heads += [f"{way}: {OURS}", *ALLOCATORS[1:], "gain"]
    plot(rates, targets)
    return Part(_figures(rates, max(targets), seeds), {"scaling": table(heads, rows)})


def _row(rates: Rates, layout: str, targets: int, seeds: Sequence[int]) -> list[str]:
    """A row of the table."""
    cells = [f"{layout}, {targets:,}"]
    for way in WAYS:
        means = [mean(rates, layout, targets, allocator, way) for allocator in ALLOCATORS]
        gains = gains_over(rates, layout, targets, LUSTRE, way, seeds)
        gain = f"{100 * np.mean(gains):+.1f} % ({100 * min(gains):+.1f} to {100 * max(gains):+.1f})"
        others = ", ".join(f"{name} {rate:.1f}" for name, rate in zip(ALLOCATORS[1:], means[1:], strict=True))
        announce(f"{layout}, {targets}, {way}", f"{means[0]:.1f} GB/s", others, 1 + float(np.mean(gains)))
        cells += [*(f"{rate:.1f}" for rate in means), gain]
    return cells


def mean(rates: Rates, layout: str, targets: int, allocator: str, way: str) -> float:
    """The mean bandwidth over the seeds, in GB/s."""
    same = (layout, targets, allocator)
    return float(
        np.mean([each[way] for point, each in rates.items() if (point.layout, point.targets, point.allocator) == same])
    )


def gains_over(rates: Rates, layout: str, targets: int, other: str, way: str, seeds: Sequence[int]) -> list[float]:
    """The bandwidth of `balanced` over that of another allocator, less 1, for each seed."""
    return [
        rates[Point(layout, targets, OURS, seed)][way] / rates[Point(layout, targets, other, seed)][way] - 1
        for seed in seeds
    ]


def _figures(rates: Rates, most: int, seeds: Sequence[int]) -> dict[str, float]:
    figures = {}
    for way in WAYS:
        for other, suffix in ((LUSTRE, ""), (RANDOM, "_over_random")):
            gains = {name: float(np.mean(gains_over(rates, name, most, other, way, seeds))) for name in LAYOUTS}
            figures[f"{way}_gain{suffix}_{most}"] = gains[SHOWN]
            for name, gain in gains.items():
                figures[f"{way}_gain{suffix}_{most}_{name.replace(' ', '_').lower()}"] = gain
    cases = {(point.layout, point.targets) for point in rates}
    losses = [-float(np.mean(gains_over(rates, *case, LUSTRE, "write", seeds))) for case in cases]
    figures["write_loss_max"] = max(*losses, 0.0)
    return figures


def plot(rates: Rates, targets: Sequence[int]) -> None:
    """Draw figure 23 into `docs/design/scaling.svg`."""
    import matplotlib as mpl

    mpl.use("Agg")
    # A stable file: no date, and names of elements that do not change.
    mpl.rcParams["svg.hashsalt"] = "weir"
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(2, len(LAYOUTS), figsize=(11, 5.5), sharex=True, sharey="row", layout="constrained")
    for row, way in enumerate(WAYS):
        for column, name in enumerate(LAYOUTS):
            axis = axes[row][column]
            for allocator, marker in zip(ALLOCATORS, "osv^", strict=True):
                values = [mean(rates, name, count, allocator, way) for count in targets]
                axis.plot(targets, values, marker=marker, markersize=4, label=allocator)
            axis.grid(alpha=0.3)
            if row == 0:
                axis.set_title(name)
            else:
                axis.set_xlabel("targets")
        axes[row][0].set_ylabel(f"{way}, GB/s")
        # The axis of a row is shared: its limits hold once all columns are drawn.
        axes[row][0].set_ylim(bottom=0)
    axes[0][0].legend()
    figure.savefig(PLOTS / "scaling.svg", metadata={"Date": None})
    plt.close(figure)


def main() -> None:
    """Print the figures."""
    if "--causes" in sys.argv[1:]:
        print(json.dumps(causes().figures))
        return
    quick: dict[str, Any] = {"targets": (160, 3600), "seeds": (0,)} if "--quick" in sys.argv[1:] else {}
    print(json.dumps(scaling(Path(), **quick).figures))


if __name__ == "__main__":
    main()
