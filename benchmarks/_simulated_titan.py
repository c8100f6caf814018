"""IOR on Titan as the Tarazu paper measured it (ACM TOS 20-2, 2024, table 6), and as the simulator has it.

.venv/bin/python benchmarks/_simulated_titan.py [--fit]

Each process writes a file of its own, with the file system's default of four stripes. A file's targets are drawn at
random: a production file system whose targets differ in fill is in Lustre's weighted mode. So the time of a run is that
of the target with the most stripes, which explains why twice the nodes bring far less than twice the bandwidth. Three
numbers are fitted to the nine rows (`FITTED`); all others are those of the topology `titan`, with their sources there.

`--fit` prints the three numbers, and those that fit eight rows, with the error of the ninth.
"""

import dataclasses
import itertools
import json
import statistics
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from _harness import announce
from _simulated_tables import Part, table
from numpy.typing import NDArray
from weir.simulation import Scenario, run
from weir.simulation.topology import Topology, topology_named
from weir.simulation.workload import Job, Kind, Steps, Work, Workload

MB, GB = 10**6, 10**9
STRIPES = 4
"""Stripes of a file: the default of OLCF's Atlas file systems."""
SEEDS = range(16)
"""Draws of the files' targets, over which bandwidths are averaged."""


@dataclass(frozen=True)
class Row:
    """A row of table 6."""

    file_bytes: int
    nodes: int
    real: float
    """Bandwidth on Titan, in GB/s."""
    paper: float
    """Bandwidth in the paper's simulator, in GB/s."""


ROWS = tuple(
    Row(size * MB, nodes, real, paper)
    for size, nodes, real, paper in (
        (128, 32, 7.9, 6.2),
        (128, 256, 38.4, 33.5),
        (128, 512, 54.3, 48.7),
        (128, 1024, 72.1, 69.9),
        (128, 2048, 90.8, 88.1),
        (128, 4096, 111.4, 105.6),
        (512, 1024, 76.5, 75.8),
        (512, 2048, 111.6, 110.5),
        (512, 4096, 132.5, 130.4),
    )
)


@dataclass(frozen=True)
class Numbers:
    """The numbers that are fitted."""

    startup_seconds: float
    """Time of a run beside creates and transfers."""
    create_seconds: float
    """Time of a create, with all metadata services together: the inverse of creates a second."""
    target_rate: float
    """Bytes a second of a target, in files of many nodes."""


FITTED = Numbers(0.1996, 48.57e-6, 247.9e6)


def with_numbers(topology: Topology, numbers: Numbers) -> Topology:
    """The topology with other numbers."""
    document: dict[str, Any] = json.loads(json.dumps(topology.document))
    for server in document["servers"]:
        # Titan had one metadata server. Here every server does its part of the creates, at once with the others.
        server["metadata_seconds"] = numbers.create_seconds * len(document["servers"])
        for target in server["targets"]:
            target["write"]["bytes_per_second"] = numbers.target_rate
    return Topology(document)


def work_of(row: Row, startup_seconds: float, machine_nodes: int) -> Workload:
    """IOR of a row: each process makes its file, waits for the others, and writes; its nodes lie all over Titan."""
    count = row.nodes
    streams = np.arange(count)
    common = {"stream": streams, "file": streams}
    steps = Steps.joined(
        [
            Steps.of(count, **common, kind=Kind.CREATE, after_seconds=startup_seconds),
            Steps.of(count, **common, kind=Kind.BARRIER),
            Steps.of(count, **common, kind=Kind.WRITE, bytes=row.file_bytes, request_bytes=1 << 20),
        ]
    )
    nodes = (streams * machine_nodes // count).astype(np.uint32)
    work = Work(count, nodes, np.zeros(count, np.uint64), steps)
    return Workload.of([(Job("ior", nodes=count), work)], nodes=machine_nodes)


def simulated(topology: Topology, row: Row, numbers: Numbers, seed: int) -> tuple[float, int]:
    """The seconds of one run, and the stripes of its fullest target."""
    scenario = Scenario(
        topology=with_numbers(topology, numbers),
        workload=work_of(row, numbers.startup_seconds, topology.nodes),
        seed=seed,
        policy="job-fair",
        allocator="random",
        stripe_count=STRIPES,
    )
    outcome = run(scenario)
    if not outcome.is_complete:
        sys.exit(f"the run of {row} did not end")
    return outcome.seconds, max(target.stripes for target in outcome.targets)


def bandwidth(row: Row, seconds: Sequence[float]) -> float:
    """The mean bandwidth of runs, in GB/s."""
    return statistics.fmean(row.file_bytes * row.nodes / each / GB for each in seconds)


def predicted(row: Row, fullest: Sequence[int], numbers: Numbers) -> float:
    """The bandwidth by the three numbers and the stripes of the fullest targets: what the flow model comes to here."""
    fixed = numbers.startup_seconds + numbers.create_seconds * row.nodes
    stripe_seconds = row.file_bytes / STRIPES / numbers.target_rate
    seconds = fixed + np.asarray(fullest) * stripe_seconds
    return float(np.mean(row.file_bytes * row.nodes / seconds)) / GB


def fit(rows: Sequence[Row], fullest: dict[Row, list[int]]) -> Numbers:
    """The numbers with the least greatest error over the rows."""
    from scipy.optimize import minimize

    def numbers(logarithms: NDArray[np.float64]) -> Numbers:
        startup, create, rate = np.exp(logarithms).tolist()
        return Numbers(startup, create, rate)

    def error(logarithms: NDArray[np.float64]) -> float:
        guess = numbers(logarithms)
        return max(abs(predicted(row, fullest[row], guess) / row.real - 1) for row in rows)

    begins = itertools.product((0.05, 0.3), (1e-5, 2e-4), (150e6, 300e6))
    options: Any = {"maxiter": 4000, "xatol": 1e-7, "fatol": 1e-8}
    found = [minimize(error, np.log(np.array(begin)), method="Nelder-Mead", options=options) for begin in begins]
    return numbers(min(found, key=lambda each: float(each.fun)).x)


def titan(_: Path) -> Part:
    """Every row in the simulator, beside Titan and the paper's simulator, and with numbers fitted to the other rows."""
    topology = topology_named("titan")
    rows: list[list[str]] = []
    runs = {row: [simulated(topology, row, FITTED, seed) for seed in SEEDS] for row in ROWS}
    fullest = {row: [count for _, count in runs[row]] for row in ROWS}
    errors, papers, left_out = [], [], []
    for row in ROWS:
        ours = bandwidth(row, [seconds for seconds, _ in runs[row]])
        others = fit([each for each in ROWS if each is not row], fullest)
        apart = predicted(row, fullest[row], others)
        errors.append(ours / row.real - 1)
        papers.append(row.paper / row.real - 1)
        left_out.append(apart / row.real - 1)
        what = f"{row.file_bytes // MB} MB, {row.nodes} nodes"
        announce(what, f"{ours:.1f} GB/s", f"Titan {row.real}; paper's simulator {row.paper}", ours / row.real)
        rows.append(
            [
                f"{row.file_bytes // MB} MB",
                f"{row.nodes:,}",
                f"{row.real}",
                f"{row.paper} ({100 * papers[-1]:+.1f} %)",
                f"{ours:.1f}",
                f"{100 * errors[-1]:+.1f} %",
                f"{apart:.1f} ({100 * left_out[-1]:+.1f} %)",
            ]
        )
    heads = ["file", "nodes", "Titan, GB/s", "paper's simulator", "Weir's, GB/s", "error", "fitted to the other rows"]
    return Part(
        {
            "titan_error_max": max(map(abs, errors)),
            "titan_error_mean": statistics.fmean(map(abs, errors)),
            "titan_left_out_error_max": max(map(abs, left_out)),
            "titan_paper_error_max": max(map(abs, papers)),
        },
        {"titan": table(heads, rows)},
    )


def main() -> None:
    """Print the errors, or the numbers that fit."""
    if "--fit" not in sys.argv[1:]:
        print(json.dumps(titan(Path()).figures))
        return
    topology = topology_named("titan")
    # The draws of targets depend on neither of the three numbers.
    fullest = {row: [simulated(topology, row, FITTED, seed)[1] for seed in SEEDS] for row in ROWS}
    print("all rows", json.dumps(dataclasses.asdict(fit(ROWS, fullest))))
    for row in ROWS:
        numbers = fit([each for each in ROWS if each is not row], fullest)
        error = predicted(row, fullest[row], numbers) / row.real - 1
        print(row, json.dumps(dataclasses.asdict(numbers)), f"{100 * error:+.1f} %")


if __name__ == "__main__":
    main()
