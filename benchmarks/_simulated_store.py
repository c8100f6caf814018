"""The real store on this machine beside the simulator: shares, bandwidth, slowdowns, OST cost.

.venv/bin/python benchmarks/_simulated_store.py [--repeats N] [EXPERIMENT ...]

The real targets serve at an emulated speed, which is the one number that the simulator is told: nothing is fitted to
any of these runs. `figure-*` are the experiments of `weir bench` (ThemisIO, SC'23), `placement` are cases of
`_placement.py` (Tarazu's workloads on 7 servers x 5 targets).
"""

import argparse
import json
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from _harness import announce
from _placement import CASES, LAYOUTS, LUSTRE, OURS, SERVERS, TARGETS_EACH, Application, Bench, Runs
from _placement import GIB as SCALED_GIB
from _simulated_tables import Part, table
from weir.experiments import jobs as experiments
from weir.experiments.figures import SPEED, Options, Panel, run
from weir.simulation import Scenario
from weir.simulation import run as simulate
from weir.simulation.outcome import Outcome
from weir.simulation.topology import Topology
from weir.simulation.workload import Job, Kind, Steps, Work, Workload

MB = 10**6
SECONDS = 12.0
"""Length of the first job of a figure."""
SIMULATED_SECONDS = 20.0
CAPACITY_BYTES = 1 << 50
LINK_RATE = 5e9
"""Loopback moves several GB a second: no link binds."""
PLACEMENT_SPEED = 4e6
PLACEMENT = (("IOR 16 x 2", "no PFL"), ("IOR 16 x 8", "C1"), ("HACC 16 x 20 M", "C2"), ("IOR and HACC", "C1"))
"""Cases and layouts of `placement`: each application, each layout, one and two programs."""


@dataclass(frozen=True)
class Compared:
    """A figure of the real store and of the simulator."""

    experiment: str
    what: str
    figure: str
    real: float
    simulated: float

    @property
    def error(self) -> float:
        """The simulator's error, relative to the real figure."""
        return self.simulated / self.real - 1


def store_topology(servers: int, targets: int, rate: float, capacity_bytes: int = CAPACITY_BYTES) -> Topology:
    """The experiment's store."""
    link = {"bytes_per_second": LINK_RATE}
    transfer = {"bytes_per_second": rate}
    target = {"capacity_bytes": capacity_bytes, "read": transfer, "write": transfer}
    server = {"link": link, "targets": [target] * targets}
    clients = {"nodes": 1, "link": link}
    return Topology({"name": "store", "clients": clients, "routers": [], "servers": [server] * servers})


def sharing(panel: Panel, members: Sequence[experiments.Job], rate: float, servers: int) -> Outcome:
    """The jobs that work at once, each process one request at a time, all the time."""
    work = []
    for job in members:
        streams = np.arange(job.processes, dtype=np.uint32)
        size = int(rate * SIMULATED_SECONDS * servers)
        steps = Steps.of(
            job.processes,
            stream=streams,
            file=streams,
            kind=Kind.READ,
            bytes=size,
            request_bytes=job.request_bytes,
            depth=1,
        )
        places = job.targets or ("0.0",)
        layouts = tuple(f"-o {places[process % len(places)]}" for process in range(job.processes))
        sizes = np.full(job.processes, size, dtype=np.uint64)
        identity = Job(job.name, user=job.user, group=job.group, nodes=job.nodes, priority=job.priority)
        work.append((identity, Work(1, np.zeros(job.processes, np.uint32), sizes, steps, layouts)))
    lambda_seconds = panel.convergence.lambda_milliseconds / 1000 if panel.convergence else 0.1
    return simulate(
        Scenario(
            topology=store_topology(servers, 1, rate),
            workload=Workload.of(work, nodes=1),
            mode="request",
            policy=panel.policy,
            scheduler=panel.scheduler,
            lambda_seconds=lambda_seconds,
            until_seconds=SIMULATED_SECONDS,
        )
    )


def figure(name: str) -> list[Compared]:
    """An experiment of `weir bench`, and its phase in which all jobs work."""
    found: list[Compared] = []
    for panel in run(name, Options(SECONDS), lambda _: None).panels:
        if panel.refused:
            raise SystemExit(f"{name}, {panel.title}: {panel.refused}")
        servers = 2 if name == "figure-14" else 1
        rate = float(SPEED.removesuffix("MB/s")) * MB
        together = sharing(panel, panel.jobs, rate, servers)
        phase = max(summary.phase for summary in panel.summaries if summary.job == panel.jobs[-1].name)
        worked = sum(job.device_seconds for job in together.jobs)
        for job, simulated in zip(panel.jobs, together.jobs, strict=True):
            real = next(each for each in panel.summaries if each.job == job.name and each.phase == phase)
            bandwidth = simulated.read_bytes / SIMULATED_SECONDS
            where = f"{panel.title}: {job.name}"
            found.append(Compared(name, where, "share", real.share_bytes, simulated.device_seconds / worked))
            found.append(Compared(name, where, "MB/s", real.bytes_per_second_mean / MB, bandwidth / MB))
        alone = [each for each in panel.summaries if each.job == panel.jobs[0].name and each.phase != phase]
        if alone:
            beside = next(each for each in panel.summaries if each.job == panel.jobs[0].name and each.phase == phase)
            real_slowdown = alone[0].bytes_per_second_mean / beside.bytes_per_second_mean
            idle = sharing(panel, panel.jobs[:1], rate, servers).jobs[0].read_bytes
            slowdown = idle / together.jobs[0].read_bytes
            found.append(Compared(name, f"{panel.title}: {panel.jobs[0].name}", "slowdown", real_slowdown, slowdown))
    return found


def application_work(application: Application, layouts: Sequence[str]) -> Work:
    """A program of a placement case: each process writes, then reads what the process half the number away wrote."""
    count = application.processes
    streams = np.arange(count, dtype=np.uint32)
    is_shared = len(application.sizes) == 1
    size = application.sizes[0] // count if is_shared else application.sizes[0]
    if application.program == "hacc_like":
        particles = (size - 4096) // 38
        calls = [4096, *(particles * width for width in (4, 4, 4, 4, 4, 4, 4, 8, 2))]
    else:
        calls = [size]
    offsets = np.cumsum([0, *calls[:-1]]).tolist()
    phases: list[dict[str, Any]] = []
    owners = (streams + count // 2) % count
    for kind, owner in ((Kind.WRITE, streams), (Kind.READ, owners)):
        base = owner.astype(np.uint64) * np.uint64(size) if is_shared else np.uint64(0)
        file = np.zeros(count, np.uint32) if is_shared else owner
        for offset, call in zip(offsets, calls, strict=True):
            phases.append({"kind": kind, "file": file, "offset": base + np.uint64(offset), "bytes": call})
        phases.append({"kind": Kind.BARRIER})
    steps = Steps.joined([Steps.of(count, stream=streams, **phase) for phase in phases])
    files = len(application.sizes)
    work = Work(1, np.zeros(count, np.uint32), np.zeros(files, np.uint64), steps, tuple(layouts))
    return work.placed_by(0)


def placed(case: str, layout: str, allocator: str) -> dict[str, float]:
    """A placement case in the simulator: the figures of `_placement.Measured`.

    Seed 0 throws the dice of the product. The files are so small that a stripe of a call is one request: the flow
    model, in which transfers share a target at every moment, is not for these.
    """
    work = []
    for application in CASES[case]:
        spelling = LAYOUTS[layout].spelling(application.sizes[0])
        work.append((Job(application.program), application_work(application, [spelling] * len(application.sizes))))
    outcome = simulate(
        Scenario(
            topology=store_topology(SERVERS, TARGETS_EACH, PLACEMENT_SPEED, 256 << 20),
            workload=Workload.of(work, nodes=1),
            seed=0,
            mode="request",
            policy="fifo",
            allocator=allocator,
            stripe_bytes=SCALED_GIB,
        )
    )
    rates = {"write": 0.0, "read": 0.0}
    for job in outcome.jobs:
        rates["write"] += job.written_bytes / job.writing_seconds / (1 << 20)
        rates["read"] += job.read_bytes / job.reading_seconds / (1 << 20)
    return {"ost_cost": outcome.target_cost, **rates}


def placement(directory: Path, repeats: int) -> list[Compared]:
    """Cases of the placement benchmark, under the store's allocator and under Lustre's rules."""
    bench = Bench(directory)
    found = []
    for case, layout in PLACEMENT:
        runs = {LUSTRE: bench.lustre(case, LAYOUTS[layout], repeats), OURS: Runs()}
        runs[OURS] = bench.ours(case, LAYOUTS[layout], repeats)[1]
        for allocator, real in runs.items():
            simulated = placed(case, layout, allocator)
            for name, unit in (("ost_cost", "OST cost"), ("write", "write MiB/s"), ("read", "read MiB/s")):
                where = f"{case}, {layout}, {allocator}"
                found.append(Compared("placement", where, unit, real.median(name), simulated[name]))
    return found


EXPERIMENTS = ("figure-8", "figure-9", "figure-10", "figure-12", "figure-14", "placement")


def real(directory: Path, *, only: Sequence[str] = EXPERIMENTS, repeats: int = 3) -> Part:
    """Every figure of the experiments, in both."""
    found: list[Compared] = []
    for name in only:
        found += placement(directory, repeats) if name == "placement" else figure(name)
    for each in found:
        announce(
            f"{each.experiment}, {each.what}: {each.figure}",
            f"{each.simulated:.3f}",
            f"real {each.real:.3f}",
            1 + each.error,
        )
    figures = {"real_store_error_max": max(abs(each.error) for each in found)}
    for name in only:
        errors = [abs(each.error) for each in found if each.experiment == name]
        figures[f"real_store_error_max_{name.replace('-', '_')}"] = max(errors)
    figures["real_store_error_median"] = statistics.median(abs(each.error) for each in found)
    rows = [
        [
            f"{each.experiment}, {each.what}",
            each.figure,
            f"{each.real:.3f}",
            f"{each.simulated:.3f}",
            f"{100 * each.error:+.1f} %",
        ]
        for each in found
    ]
    return Part(figures, {"real": table(["run", "figure", "real", "simulated", "error"], rows)})


def main() -> None:
    """Run the experiments that are named, or all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=3, help="runs of each placement case")
    parser.add_argument("only", nargs="*", choices=[*EXPERIMENTS, []], metavar="EXPERIMENT")
    given = parser.parse_args()
    with TemporaryDirectory(prefix="weir-bench-") as directory:
        print(json.dumps(real(Path(directory), only=given.only or EXPERIMENTS, repeats=given.repeats).figures))


if __name__ == "__main__":
    main()
