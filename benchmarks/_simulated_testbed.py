"""The second check of the Tarazu paper's simulator (ACM TOS 20-2, 2024, section 6.4): IOR and HACC-I/O at once.

.venv/bin/python benchmarks/_simulated_testbed.py

On 35 targets IOR writes 64 GB by 8 processes under configuration 1, and HACC-I/O 50 million particles a process by 8
under configuration 2. The paper states no rate of its disks. `READ_RATE` and `WRITE_RATE` are fitted to its throughput
under Tarazu; the figures under Lustre's allocator (LSA) follow from them.
"""

import json
import statistics
from pathlib import Path
from typing import Any

import numpy as np
from _harness import announce
from _simulated_tables import Part, table
from weir import _core
from weir.simulation import Scenario, run
from weir.simulation.outcome import Outcome
from weir.simulation.topology import Topology, topology_named
from weir.simulation.workload import Job, Kind, Steps, Work, Workload

MB, GIB = 10**6, 1 << 30
ALIGNMENT_BYTES = 1 << 17
PROCESSES = 8
READ_RATE, WRITE_RATE = 16.2e6, 17.9e6
SEEDS = range(16)
OURS, LUSTRE, RANDOM = "balanced", "lustre-standard", "random"
"""`random` stands for Lustre's weighted mode: targets in use differ in fill, and are drawn."""
FILES = {
    "IOR": (8 * GIB, "-E 128M -c 1 -E 512M -c 3 -E 2G -c 8 -E -1 -c 16"),
    "HACC-I/O": (50_000_000 * 38, "-E 128M -c 1 -E 2G -c 12 -E -1 -c 32"),
}
"""Bytes and layout of a process's file."""
LSA = {"cost": 1.46, "read": 428.0, "write": 529.0}
PAPER = {OURS: {"cost": 1.08, "read": 612.0, "write": 490.0}, LUSTRE: LSA, RANDOM: LSA}
"""The paper's figures: OST cost of the real testbed (7.2.4), throughput of its simulator in MB/s (6.4)."""


def testbed() -> Topology:
    """The paper's testbed, with the fitted rates."""
    document: dict[str, Any] = json.loads(json.dumps(topology_named("testbed-35").document))
    for server in document["servers"]:
        for target in server["targets"]:
            target["read"]["bytes_per_second"] = READ_RATE
            target["write"]["bytes_per_second"] = WRITE_RATE
    return Topology(document)


def scenario(allocator: str, seed: int) -> Scenario:
    """Both programs at once, each on a client node of its own: each process writes its file and reads another's."""
    work = []
    streams = np.arange(PROCESSES, dtype=np.uint32)
    for name, (size, layout) in FILES.items():
        phases: list[dict[str, Any]] = []
        for kind, file in ((Kind.WRITE, streams), (Kind.READ, (streams + PROCESSES // 2) % PROCESSES)):
            # All stripes of a file are under way at once, as in the paper's algorithm 3.
            phases.append({"kind": kind, "file": file, "bytes": size, "request_bytes": 1 << 20})
            phases.append({"kind": Kind.BARRIER})
        steps = Steps.joined([Steps.of(PROCESSES, stream=streams, **phase) for phase in phases])
        layouts = (_core.contiguous_layout(layout, size, ALIGNMENT_BYTES),) * PROCESSES
        sizes = np.zeros(PROCESSES, np.uint64)
        own = Work(1, np.zeros(PROCESSES, np.uint32), sizes, steps, layouts)
        work.append((Job(name), own.placed_by(0)))
    return Scenario(
        topology=testbed(), workload=Workload.of(work, nodes=2), seed=seed, policy="job-fair", allocator=allocator
    )


def figures_of(outcome: Outcome) -> dict[str, float]:
    """OST cost, use of the fullest target and of the mean one, and throughput of both programs in MB/s."""
    used = [target.used_bytes / (10 * GIB) for target in outcome.targets]
    reading = max(job.reading_seconds for job in outcome.jobs)
    writing = max(job.writing_seconds for job in outcome.jobs)
    return {
        "cost": outcome.target_cost,
        "fullest": max(used),
        "mean": statistics.fmean(used),
        "read": sum(job.read_bytes for job in outcome.jobs) / reading / MB,
        "write": sum(job.written_bytes for job in outcome.jobs) / writing / MB,
    }


def second(_: Path) -> Part:
    """Both allocators."""
    rows, figures = [], {}
    for allocator, label in ((LUSTRE, "LSA in turn"), (RANDOM, "LSA weighted"), (OURS, "Tarazu")):
        runs = [figures_of(run(scenario(allocator, seed))) for seed in SEEDS]
        mean = {name: statistics.fmean(each[name] for each in runs) for name in runs[0]}
        cells = [f"{allocator} / {label}", f"{100 * mean['fullest']:.1f} %", f"{100 * mean['mean']:.1f} %"]
        for name, unit in (("cost", ""), ("read", " MB/s"), ("write", " MB/s")):
            theirs = PAPER[allocator][name]
            announce(f"second check, {label}: {name}", f"{mean[name]:.2f}", f"paper {theirs:g}", mean[name] / theirs)
            form = ".2f" if name == "cost" else ".0f"
            cells.append(f"{mean[name]:{form}}{unit} (paper {theirs:g}, {100 * (mean[name] / theirs - 1):+.0f} %)")
            figures[f"second_{name}_error_{allocator.replace('-', '_')}"] = mean[name] / theirs - 1
        rows.append(cells)
    heads = ["allocator", "fullest target", "mean target", "OST cost", "read", "write"]
    return Part(figures, {"second": table(heads, rows)})


def main() -> None:
    """Print the figures."""
    print(json.dumps(second(Path()).figures))


if __name__ == "__main__":
    main()
