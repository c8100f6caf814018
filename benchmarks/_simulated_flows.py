"""Flows over shared links in the simulator and in SimGrid: completion times, processor time, memory.

.venv/bin/python benchmarks/_simulated_flows.py

SimGrid (Debian's libsimgrid-dev) is the oracle of the flow model: an independent max-min solver of more than twenty
years. Both get the same clients, servers, targets and flows. Both run on one thread, and their processor time is
compared, since other work on the machine would disturb elapsed time.
"""

import json
import resource
import subprocess
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from _harness import ROOT, announce
from _simulated_tables import Part, table
from numpy.typing import NDArray
from weir import _core
from weir.simulation import Scenario
from weir.simulation.topology import Topology
from weir.simulation.workload import Job, Kind, Steps, Workload

CLIENTS, SERVERS, TARGETS_EACH, FLOWS = 448, 450, 8, 100_000
LINK_RATE = 12.5e9
TARGET_RATES = (0.5e9, 1.5e9)
SIZES = (1 << 20, 1 << 30)
SPANS_SECONDS = (400.0, 200.0)
"""Times over which the flows begin: some 150, and some 300 flows are under way at once."""
CAPACITY = 1 << 50
REQUEST_BYTES, DEPTH = 4096, 64
"""Requests so small that a flow is a fluid, and so many that only links and targets bound it."""
WAIT_SECONDS = 600


@dataclass(frozen=True, eq=False)
class Problem:
    """Flows from targets to clients."""

    clients: int
    client_rate: float
    """Bytes a second of each client's link."""
    server_rates: NDArray[np.float64]
    target_rates: NDArray[np.float64]
    """Bytes a second of each target, shape (servers, targets each)."""
    begins: NDArray[np.float64]
    """Begin of each flow in seconds, ascending."""
    client: NDArray[np.int64]
    """Client of each flow."""
    target: NDArray[np.int64]
    """Target of each flow, server by server."""
    sizes: NDArray[np.int64]
    """Bytes of each flow."""

    @staticmethod
    def drawn(
        seed: int, clients: int, servers: int, targets_each: int, flows: int, span_seconds: float, link_rate: float
    ) -> "Problem":
        """A random problem whose flows begin within `span_seconds`."""
        random = np.random.default_rng(seed)
        return Problem(
            clients=clients,
            client_rate=link_rate,
            server_rates=random.uniform(0.5, 1.0, servers) * link_rate,
            target_rates=random.uniform(*TARGET_RATES, (servers, targets_each)),
            begins=np.sort(random.uniform(0.0, span_seconds, flows)),
            client=random.integers(0, clients, flows),
            target=random.integers(0, servers * targets_each, flows),
            sizes=random.integers(*SIZES, flows),
        )

    def text(self) -> str:
        """The problem as `flows_simgrid.cpp` reads it: the links of clients, of servers, of targets."""
        servers, each = self.target_rates.shape
        rates = [*[self.client_rate] * self.clients, *self.server_rates, *self.target_rates.ravel()]
        lines = [f"{len(rates)} {' '.join(map(str, rates))}", str(servers * each)]
        lines += [
            f"2 {self.clients + servers + target} {self.clients + target // each}" for target in range(servers * each)
        ]
        lines.append(str(self.clients))
        lines += [f"1 {client}" for client in range(self.clients)]
        lines.append(str(len(self.sizes)))
        flows = zip(self.begins.tolist(), self.target.tolist(), self.client.tolist(), self.sizes.tolist(), strict=True)
        lines += [f"{begin!r} {target} {client} {size}" for begin, target, client, size in flows]
        return "\n".join(lines)

    def scenario(self, *, jobs: int) -> Scenario:
        """The problem as a scenario: each flow reads a file that lies on its target; flow `i` is of job `i % jobs`."""
        count = len(self.sizes)
        _, each = self.target_rates.shape
        numbers = np.arange(count, dtype=np.uint32)
        steps = Steps.of(
            count,
            stream=numbers,
            file=numbers,
            kind=Kind.READ,
            not_before_seconds=self.begins,
            bytes=self.sizes,
            request_bytes=REQUEST_BYTES,
            depth=DEPTH,
        )
        workload = Workload(
            jobs=tuple(Job(f"job-{number}") for number in range(jobs)),
            stream_jobs=numbers % jobs,
            stream_nodes=self.client.astype(np.uint32),
            file_jobs=numbers % jobs,
            file_bytes=self.sizes.astype(np.uint64),
            layouts=tuple(f"-o {target // each}.{target % each}" for target in self.target.tolist()),
            steps=steps,
        )
        return Scenario(topology=self._topology(), workload=workload, policy="fifo")

    def _topology(self) -> Topology:
        def link(rate: float) -> dict[str, float]:
            return {"bytes_per_second": rate}

        servers = [
            {
                "link": link(rate),
                "targets": [
                    {"capacity_bytes": CAPACITY, "read": link(target), "write": link(target)} for target in targets
                ],
            }
            for rate, targets in zip(self.server_rates.tolist(), self.target_rates.tolist(), strict=True)
        ]
        clients = {"nodes": self.clients, "link": link(self.client_rate)}
        return Topology({"name": "flows", "clients": clients, "routers": [], "servers": servers})


@dataclass(frozen=True, eq=False)
class Solved:
    """A solved problem."""

    seconds: float
    """Processor time."""
    memory_mib: float
    """Peak of the process's memory."""
    ends: NDArray[np.float64]
    """End of each job, or of each flow, in virtual seconds."""


def simgrid(program: Path, problem: Problem) -> Solved:
    """Solve a problem in SimGrid."""
    words = [str(program), "--log=xbt_cfg.thres:warning"]
    answer = subprocess.run(words, input=problem.text(), capture_output=True, text=True, timeout=WAIT_SECONDS)
    if answer.returncode != 0:
        sys.exit(f"{program} failed: {answer.stderr}")
    first, *ends = answer.stdout.splitlines()
    built, ran, memory = map(float, first.split())
    return Solved(built + ran, memory, np.array(ends, dtype=float))


def compiled_oracle(directory: Path) -> Path:
    """Compile `flows_simgrid.cpp`.

    Raises:
        subprocess.CalledProcessError: SimGrid's headers are missing.
    """
    program = directory / "flows_simgrid"
    source = ROOT / "benchmarks/flows_simgrid.cpp"
    subprocess.run(["c++", "-O2", "-Wall", "-Werror", "-o", program, source, "-lsimgrid"], check=True)
    return program


def ours(problem: Problem, *, jobs: int) -> Solved:
    """Solve a problem in the simulator, in this process."""
    scenario = problem.scenario(jobs=jobs)
    document, steps = json.dumps(scenario.document()), scenario.workload.steps.columns()
    before = time.process_time()
    answer: dict[str, Any] = json.loads(_core.simulate(document, steps))
    seconds = time.process_time() - before
    if not answer["is_complete"]:
        sys.exit("the simulator did not solve the flows")
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return Solved(seconds, memory, np.array([job["ended_seconds"] for job in answer["jobs"]]))


def flows(directory: Path) -> Part:
    """100,000 flows on 3,600 targets, in both, and the agreement of their ends."""
    program = compiled_oracle(directory)
    ratios, differences, memories, rows = [], [], [], []
    for span in SPANS_SECONDS:
        problem = Problem.drawn(1, CLIENTS, SERVERS, TARGETS_EACH, FLOWS, span, LINK_RATE)
        theirs = simgrid(program, problem)
        # A process of its own, so that its peak of memory is the simulator's.
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
            solved = pool.submit(ours, problem, jobs=1).result(WAIT_SECONDS)
        ratios.append(solved.seconds / theirs.seconds)
        memories.append(solved.memory_mib)
        differences.append(abs(float(solved.ends.max() / theirs.ends.max()) - 1))
        busy = float((theirs.ends - problem.begins).sum() / theirs.ends.max())
        announce(
            f"flows, {busy:.0f} at once",
            f"{solved.seconds:.2f} s, {solved.memory_mib:.0f} MiB",
            f"SimGrid {theirs.seconds:.2f} s, {theirs.memory_mib:.0f} MiB",
            ratios[-1],
        )
        cells = [f"{solved.seconds:.2f} s", f"{theirs.seconds:.2f} s", f"{ratios[-1]:.2f}"]
        rows.append([f"{busy:.0f}", *cells, f"{solved.memory_mib:.0f} MiB", f"{theirs.memory_mib:.0f} MiB"])
    heads = ["flows at once", "Weir's", "SimGrid", "ratio", "Weir's memory", "SimGrid's memory"]
    figures = {
        "flows_vs_simgrid": max(ratios),
        "flows_end_difference_max": max(differences),
        "memory_mib": max(memories),
    }
    return Part(figures, {"flows": table(heads, rows)})


def main() -> None:
    """Print the figures."""
    with TemporaryDirectory(prefix="weir-bench-") as directory:
        print(json.dumps(flows(Path(directory)).figures))


if __name__ == "__main__":
    main()
