"""ThemisIO's figure 12 in virtual time: a pair of jobs under each scheduler, plug-ins among them.

The machines are those of `weir.experiments.figures`: one server with one target of an emulated speed. No server of a
store runs a plug-in, so that a comparison with one is a comparison of simulated runs.
"""

from collections.abc import Sequence
from itertools import accumulate

import numpy as np

from weir.experiments import windows
from weir.experiments.figures import Options, Panel, Say, rows_of
from weir.experiments.jobs import Job, Run
from weir.experiments.windows import Account, Done, Sample
from weir.simulation import workload
from weir.simulation.documents import as_rate
from weir.simulation.outcome import Outcome
from weir.simulation.runs import run
from weir.simulation.scenario import Scenario
from weir.simulation.topology import parse_topology
from weir.simulation.workload import Kind, Work, Workload
from weir.simulation.workloads.sequence import Sequence as Phases

_WINDOW_SECONDS = 1.0
_PROCESSES = 4
"""Processes of a job, each with one request at the store."""
_REQUEST_BYTES = 64 * 1024
_DEVICE = "0.0"
_MACHINES = """name = "figure-12"
clients = {{ nodes = 2, link = {{ rate = "12.5GB/s", latency = "5us" }} }}
[[servers]]
link = {{ rate = "12.5GB/s", latency = "5us" }}
metadata = "50us"
[[servers.targets]]
capacity = "1TiB"
read = "{speed}"
write = "{speed}"
"""


def panels(schedulers: Sequence[str], options: Options, say: Say) -> list[Panel]:
    """Run the pair of jobs under each scheduler.

    Args:
        schedulers: Names of Weir's schedulers, and names or places of plug-ins.
        say: Called with a sentence for each panel.

    Raises:
        PluginError: There is no such scheduler, or a plug-in fails.
    """
    found = []
    for scheduler in schedulers:
        policy = "fifo" if scheduler == "fifo" else "job-fair"
        say(f"{scheduler}: 2 jobs for {options.seconds:g} s of virtual time")
        found.append(_panel(scheduler, policy, options))
    return found


def _panel(scheduler: str, policy: str, options: Options) -> Panel:
    rate = as_rate(options.speed)
    scenario = Scenario(
        topology=parse_topology(_MACHINES.format(speed=options.speed), origin="figure-12"),
        workload=_workload(rate, options.seconds),
        mode="request",
        policy=policy,
        scheduler=None if scheduler == "fifo" else scheduler,
        sample_seconds=_WINDOW_SECONDS,
        until_seconds=options.seconds,
    )
    panel = Panel(f"{scheduler} (simulated)", policy, scheduler)
    panel.request_seconds = _REQUEST_BYTES / rate
    done = _as_run(run(scenario), rate, options.seconds)
    panel.jobs = done.jobs
    panel.rows = rows_of(done, policy)
    tolerance = max(0.02, panel.request_seconds / _WINDOW_SECONDS)
    panel.summaries = windows.summaries(panel.rows, _WINDOW_SECONDS, tolerance=tolerance)
    panel.busy_ratio = windows.busy_ratio(panel.rows, 1)
    return panel


def _workload(rate: float, seconds: float) -> Workload:
    """One job with work all the time, and one that comes after a quarter with the work of half its share of half the
    time."""
    first = (workload.Job("job-1"), _writes(round(rate * seconds)))
    second = (workload.Job("job-2", arrival_seconds=seconds / 4), _writes(round(rate * seconds / 4)))
    return Workload.of([first, second], nodes=2)


def _writes(total: int) -> Work:
    """Processes that each write their part, one request after the other."""
    count = max(-(-total // (_PROCESSES * _REQUEST_BYTES)), 1)
    phases = Phases(_PROCESSES)
    phases.each(Kind.CREATE, file=phases.processes)
    phases.many(
        Kind.WRITE,
        count,
        file=phases.processes[:, None],
        offset=np.arange(count, dtype=np.uint64) * np.uint64(_REQUEST_BYTES),
        bytes=_REQUEST_BYTES,
    )
    return phases.work(1, np.zeros(_PROCESSES, np.uint32), np.zeros(_PROCESSES, np.uint64))


def _as_run(outcome: Outcome, rate: float, seconds: float) -> Run:
    """A simulated run as one of a store: accounts at the edges of windows, and the bytes of the time in them."""
    names = ("job-1", "job-2")
    jobs = [
        Job(name, _PROCESSES, each.ended_seconds - each.started_seconds, each.started_seconds)
        for name, each in zip(names, outcome.jobs, strict=True)
    ]
    count = int(seconds / outcome.sample_seconds)
    series = {
        name: np.pad(each.device_series[:count], (0, max(count - len(each.device_series), 0)))
        for name, each in zip(names, outcome.jobs, strict=True)
    }
    received = {name: [0.0, *accumulate(each.tolist())] for name, each in series.items()}
    made = Run(jobs, outcome.sample_seconds)
    for edge in range(count + 1):
        accounts = {name: Account({_DEVICE: received[name][edge]}, {}, {}, 0) for name in names}
        made.samples.append([Sample(0, edge * outcome.sample_seconds, accounts)])
    # In virtual time a process asks again at once, so that all of its job's requests are always at the store.
    waited = round(_PROCESSES * outcome.sample_seconds * 1e9)
    for name, times in series.items():
        moved = [round(float(time) * rate) for time in times]
        made.done[name] = [Done(each, 0, each // _REQUEST_BYTES, waited if each else 0) for each in moved]
    return made
