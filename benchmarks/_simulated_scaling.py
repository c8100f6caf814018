"""Three applications at once on 160 to 3,600 targets: the Tarazu paper's figure 23 (ACM TOS 20-2, 2024, section 7.5).

.venv/bin/python benchmarks/_simulated_scaling.py [--quick]

The volumes and node counts are table 7's, the layouts those of section 7.1.4 and table 8. The paper states no sizes of
files; those of `weir.simulation.workloads.scalability` are taken, with their sources there. Files that are read were
placed before by the same allocator, as the outputs of earlier runs were.
"""

import dataclasses
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from _harness import announce
from _simulated_tables import PLOTS, Part, table
from numpy.typing import NDArray
from weir import _core
from weir.placement.min_cost_flow import NAME as LINEAR
from weir.placement.min_cost_flow import Graph, allocate
from weir.simulation import Scenario, run
from weir.simulation.outcome import Outcome
from weir.simulation.topology import Topology
from weir.simulation.workload import Job, Kind, Work, Workload
from weir.simulation.workloads.scalability import APPLICATIONS, Scalability

GB = 10**9
TARGETS_EACH = 8
CAPACITY_BYTES = 10 * GB
TARGETS = (160, 640, 1280, 2400, 3600)
ALIGNMENT_BYTES = 1 << 17
"""Unit of stripe sizes: twice Lustre's 64 KiB (the paper's section 5.5.2)."""
BATCH = 128
"""Files that the paper's graph places at once."""
LINK_RATE, TARGET_RATE = 12.5e9, 0.2e9
"""Links of 100 Gb/s; a target of 200 MB/s, which four client nodes keep busy."""
OURS, LUSTRE = "balanced", "lustre-standard"
ALLOCATORS = (OURS, LUSTRE, LINEAR)
LAYOUTS = {
    "no PFL": "-c 8",
    "configuration 1": "-E 128M -c 1 -E 512M -c 3 -E 2G -c 8 -E -1 -c 16",
    "configuration 2": "-E 128M -c 1 -E 2G -c 12 -E -1 -c 32",
}
SHOWN = "configuration 1"
"""The layout of the gains in the JSON: the paper gives its bandwidths at 3,600 targets for it."""


NODES = sum(each.nodes for each in APPLICATIONS.values())


def topology(targets: int) -> Topology:
    """A file system of so many targets, eight a server."""

    def link(rate: float) -> dict[str, float]:
        return {"bytes_per_second": rate}

    target = {"capacity_bytes": CAPACITY_BYTES, "read": link(TARGET_RATE), "write": link(TARGET_RATE)}
    server = {"link": link(LINK_RATE), "targets": [target] * TARGETS_EACH}
    clients = {"nodes": NODES, "link": link(LINK_RATE)}
    document = {"name": f"{targets} targets", "clients": clients, "routers": []}
    return Topology({**document, "servers": [server] * (targets // TARGETS_EACH)})


def sizes_of(work: Work) -> list[int]:
    """Bytes of each file of a job at its end."""
    sizes = work.file_bytes.copy()
    wrote = work.steps.kind == Kind.WRITE
    np.maximum.at(sizes, work.steps.file[wrote], work.steps.offset[wrote] + work.steps.bytes[wrote])
    return [int(size) for size in sizes]


def scenario(targets: int, layout: str, allocator: str, seed: int) -> Scenario:
    """All applications at once."""
    works = {name: Scalability(application=name).work(np.random.default_rng(seed)) for name in APPLICATIONS}
    sizes = {name: sizes_of(work) for name, work in works.items()}
    spelled = {size: _core.contiguous_layout(layout, size, ALIGNMENT_BYTES) for each in sizes.values() for size in each}
    layouts = {name: [spelled[size] for size in each] for name, each in sizes.items()}
    if allocator == LINEAR:
        layouts = linear(layouts, sizes, targets)
    jobs = [
        (Job(name, user=name, nodes=work.nodes), dataclasses.replace(work, layouts=tuple(layouts[name])))
        for name, work in works.items()
    ]
    return Scenario(
        topology=topology(targets),
        workload=Workload.of(jobs, nodes=NODES),
        seed=seed,
        policy="job-fair",
        allocator=OURS if allocator == LINEAR else allocator,
    )


def linear(layouts: dict[str, list[str]], sizes: dict[str, list[int]], targets: int) -> dict[str, list[str]]:
    """The layouts with targets by the paper's own graph.

    The files of an application are solved `BATCH` at a time, with the fill of targets and servers that those before
    left: a graph has an edge from every request to every target.
    """
    used = np.zeros(targets)
    named: dict[str, list[str]] = {}
    for name, own in layouts.items():
        named[name] = []
        for first in range(0, len(own), BATCH):
            files = list(zip(own[first : first + BATCH], sizes[name][first : first + BATCH], strict=True))
            named[name] += _solved(files, used)
    return named


def _solved(files: Sequence[tuple[str, int]], used: NDArray[np.float64]) -> list[str]:
    """The layouts of files with their targets; `used` grows by their bytes."""
    targets = len(used)
    components = {layout: _core.parse_layout(layout) for layout, _ in files}
    shares = {
        file: _core.stripe_shares(file[0], file[1], stripe_bytes=1 << 20, stripes=1, targets=targets)
        for file in set(files)
    }
    held = {file: [number for number, share in enumerate(each) if any(share)] for file, each in shares.items()}
    stripe = max(max(share) for each in shares.values() for share in each)
    fills = np.minimum(used / CAPACITY_BYTES, 1.0)
    graph = Graph(
        servers=[target // TARGETS_EACH for target in range(targets)],
        server_loads=fills.reshape(-1, TARGETS_EACH).mean(axis=1).tolist(),
        fills=fills.tolist(),
        capacities=np.maximum((CAPACITY_BYTES - used) // stripe, 0).astype(int).tolist(),
        stripes=[components[file[0]][number]["stripes"] or 1 for file in files for number in held[file]],
    )
    found = iter(allocate(graph))
    named = []
    for file in files:
        chosen = {number: next(found) for number in held[file]}
        named.append(_spelled(components[file[0]], chosen))
        for number, places in chosen.items():
            used[places] += shares[file][number]
    return named


def _spelled(components: Sequence[Any], chosen: dict[int, list[int]]) -> str:
    """A layout with its targets; a component that holds nothing gets the first ones."""
    parts = []
    for number, component in enumerate(components):
        places = chosen.get(number, list(range(component["stripes"])))
        targets = ",".join(f"{place // TARGETS_EACH}.{place % TARGETS_EACH}" for place in places)
        end = "" if len(components) == 1 else f"-E {-1 if component['end'] is None else component['end']} "
        parts.append(f"{end}-S {component['stripe_bytes']} -o {targets}")
    return " ".join(parts)


def bandwidths(outcome: Outcome) -> dict[str, float]:
    """Bytes that all applications read, over the time of the slowest, in GB/s; the same of writes."""
    jobs = outcome.jobs
    reading = max(job.reading_seconds for job in jobs)
    writing = max(job.writing_seconds for job in jobs)
    return {
        "read": sum(job.read_bytes for job in jobs) / reading / GB,
        "write": sum(job.written_bytes for job in jobs) / writing / GB,
    }


def scaling(_: Path, *, targets: Sequence[int] = TARGETS, seeds: Sequence[int] = (0, 1, 2)) -> Part:
    """Every number of targets under every layout and allocator."""
    rates: dict[tuple[str, int, str, str], float] = {}
    rows = []
    for name, layout in LAYOUTS.items():
        for count in targets:
            for allocator in ALLOCATORS:
                # The paper's graph is the same for every seed.
                outcomes = [
                    run(scenario(count, layout, allocator, seed))
                    for seed in seeds[: 1 if allocator == LINEAR else None]
                ]
                figures = [bandwidths(outcome) for outcome in outcomes]
                for way in ("read", "write"):
                    rates[name, count, allocator, way] = float(np.mean([each[way] for each in figures]))
            cells = []
            for way in ("read", "write"):
                own, lustre, flow = (rates[name, count, allocator, way] for allocator in ALLOCATORS)
                announce(
                    f"{name}, {count}, {way}",
                    f"{own:.1f} GB/s",
                    f"{LUSTRE} {lustre:.1f}, {LINEAR} {flow:.1f}",
                    own / lustre,
                )
                cells += [f"{own:.1f}", f"{lustre:.1f}", f"{flow:.1f}", f"{100 * (own / lustre - 1):+.1f} %"]
            rows.append([f"{name}, {count:,}", *cells])
    heads = ["layout, targets"]
    for way in ("read", "write"):
        heads += [f"{way}: {OURS}", LUSTRE, LINEAR, "gain"]
    plot(rates, targets)
    return Part(_gains(rates, max(targets)), {"scaling": table(heads, rows)})


def _gains(rates: dict[tuple[str, int, str, str], float], most: int) -> dict[str, float]:
    figures = {}
    for way in ("read", "write"):
        gains = {name: rates[name, most, OURS, way] / rates[name, most, LUSTRE, way] - 1 for name in LAYOUTS}
        figures[f"{way}_gain_{most}"] = gains[SHOWN]
        figures |= {f"{way}_gain_{most}_{name.replace(' ', '_').lower()}": gain for name, gain in gains.items()}
    return figures


def plot(rates: dict[tuple[str, int, str, str], float], targets: Sequence[int]) -> None:
    """Draw figure 23 into `docs/design/scaling.svg`."""
    import matplotlib as mpl

    mpl.use("Agg")
    # A stable file: no date, and names of elements that do not change.
    mpl.rcParams["svg.hashsalt"] = "weir"
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(2, len(LAYOUTS), figsize=(11, 5.5), sharex=True, sharey="row", layout="constrained")
    for row, way in enumerate(("read", "write")):
        for column, name in enumerate(LAYOUTS):
            axis = axes[row][column]
            for allocator, marker in zip(ALLOCATORS, "os^", strict=True):
                axis.plot(
                    targets, [rates[name, count, allocator, way] for count in targets], marker=marker, label=allocator
                )
            axis.grid(alpha=0.3)
            axis.set_ylim(bottom=0)
            if row == 0:
                axis.set_title(name)
            else:
                axis.set_xlabel("targets")
        axes[row][0].set_ylabel(f"{way}, GB/s")
    axes[0][0].legend()
    figure.savefig(PLOTS / "scaling.svg", metadata={"Date": None})
    plt.close(figure)


def main() -> None:
    """Print the figures; `--quick` takes the least and the greatest number of targets and one seed."""
    quick: dict[str, Any] = {"targets": (160, 3600), "seeds": (0,)} if "--quick" in sys.argv[1:] else {}
    print(json.dumps(scaling(Path(), **quick).figures))


if __name__ == "__main__":
    main()
