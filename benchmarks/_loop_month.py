"""A month of a centre's jobs in the simulator: plans that learn, plans that never do, and the best in hindsight.

python _loop_month.py    the last line is one JSON object

Programs run again and again. Each run is planned by the tables that come with Weir. Its real time is that of the
simulator on the devices that the site has, which are not the tables' own, times the noise of a real benchmark job.
"""

import csv
import gzip
import json
import math
import random
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import fmean, median

import msgspec
from _harness import ROOT, announce
from _loop_cases import MONTH
from weir.provisioning.behaviour import classes
from weir.provisioning.behaviour.identity import Identity
from weir.provisioning.deployments import Deployment
from weir.provisioning.jobs.directives import Directives
from weir.provisioning.jobs.job import Job
from weir.provisioning.jobs.wishes import Wishes
from weir.provisioning.objectives import shipped, sslo_tables
from weir.provisioning.objectives.device_classes import DEVICES, DeviceClass
from weir.provisioning.outcomes.archive import RUNS_MAX
from weir.provisioning.outcomes.outcome import Calls, Kind, Outcome, job_key
from weir.provisioning.planning.needs import work
from weir.provisioning.planning.planner import Plan, Planner
from weir.provisioning.resources.model import Device, Node, Resources
from weir.simulation.runs import run
from weir.simulation.scenario import parse_scenario

NODES = 4
"""Nodes of each class of devices, with one device each."""
CALLS = 256
"""Calls of a process in a simulated run; a program's run is such runs, one after the other."""
TRANSFERS = (4 << 10, 64 << 10, 1 << 20, 4 << 20)
DAY = 86_400.0
NETWORK, LATENCY = 12.5e9, 5e-6
WAYS: tuple[Kind, Kind] = ("read", "write")
REPEATS_MIN = 20
"""Least jobs of a kind in NERSC's year whose spread counts as noise."""


@dataclass(frozen=True)
class Program:
    """A program of the centre."""

    name: str
    processes: int
    transfer: int
    passes: int
    """Times `CALLS` that each process writes, or reads."""
    read_part: float
    runs: int
    is_right: bool
    """Whether the devices are as the tables have them."""

    def moved(self, way: str) -> int:
        """Bytes that a run moves one way."""
        part = self.read_part if way == "read" else 1.0 - self.read_part
        return int(self.processes * self.transfer * CALLS * self.passes * part)

    @property
    def job(self) -> Job:
        """The job as its scheduler knows it."""
        return Job(command=(self.name,), nodes=1, processes=self.processes)

    @property
    def identity(self) -> Identity:
        """The job as its log tells."""
        read, written = self.moved("read"), self.moved("write")
        return Identity(
            name=self.name,
            program=self.name,
            processes=self.processes,
            seconds=600.0,
            read_bytes=read,
            written_bytes=written,
            read_operations=read // self.transfer,
            write_operations=written // self.transfer,
            small_fraction=float(self.transfer < 10_000),
            large_fraction=float(self.transfer >= 1_000_000),
            sequential_fraction=1.0,
            io_fraction=0.5,
            interface="posix",
        )


def programs(dice: random.Random) -> list[Program]:
    """The programs of the centre."""
    least, most = map(math.log, MONTH.runs)
    return [
        Program(
            name=f"program-{number}",
            processes=dice.choice((2, 4, 8)),
            transfer=dice.choice(TRANSFERS),
            passes=round(math.exp(dice.uniform(math.log(4), math.log(400)))),
            read_part=dice.choice((0.0, 0.2, 0.5, 0.8, 1.0)),
            runs=round(math.exp(dice.uniform(least, most))),
            is_right=dice.random() < MONTH.is_right_part,
        )
        for number in range(MONTH.programs)
    ]


def real_devices(dice: random.Random) -> dict[str, DeviceClass]:
    """The devices that the site has."""

    def other(value: float) -> float:
        return value * dice.lognormvariate(0.0, MONTH.device_spread)

    return {
        name: msgspec.structs.replace(
            usual,
            read_bytes_per_second=other(usual.read_bytes_per_second),
            write_bytes_per_second=other(usual.write_bytes_per_second),
            read_fixed_seconds=other(usual.read_fixed_seconds),
            write_fixed_seconds=other(usual.write_fixed_seconds),
        )
        for name, usual in DEVICES.items()
    }


def noise() -> list[float]:
    """Times of NERSC's benchmark jobs over the median of their kind."""
    times: dict[tuple[str, ...], list[float]] = defaultdict(list)
    with gzip.open(ROOT / "benchmarks/data/tokio-cori.csv.gz", "rt") as file:
        for row in csv.DictReader(file):
            ways = ("read", "write")
            seconds = sum(float(row[f"darshan_tot_f_{way}_time_posix"]) for way in ways)
            moved = (row["darshan_tot_bytes_read_posix"], row["darshan_tot_bytes_written_posix"])
            kind = (Path(row["darshan_app"]).name, row["_file_system"], row["darshan_nprocs"], *moved)
            if seconds > 0:
                times[kind].append(seconds)
    return [each / median(found) for found in times.values() if len(found) >= REPEATS_MIN for each in found]


@cache
def simulated_rate(device: DeviceClass, servers: int, settings: str, way: str, processes: int, transfer: int) -> float:
    """Bytes per second of one simulated run."""
    text = f"""
policy = "fifo"
mode = "request"
{settings}
[[jobs]]
generator = "ior"
processes = {processes}
processes_per_node = 1
mode = "file-per-process"
transfer = {transfer}
block = {transfer * CALLS}
write = {str(way == "write").lower()}
read = {str(way == "read").lower()}
[topology]
clients = {{ nodes = {processes}, link = {{ rate = {NETWORK}, latency = {LATENCY} }} }}
[[topology.servers]]
count = {servers}
link = {{ rate = {NETWORK}, latency = {LATENCY} }}
[[topology.servers.targets]]
capacity = "10TiB"
read = {{ rate = {device.read_bytes_per_second}, fixed = {device.read_fixed_seconds} }}
write = {{ rate = {device.write_bytes_per_second}, fixed = {device.write_fixed_seconds} }}
"""
    outcome = run(parse_scenario(text, origin="a month", folder=Path()))
    return processes * transfer * CALLS / outcome.seconds


def seconds_of(program: Program, deployment: Deployment, devices: Mapping[str, DeviceClass]) -> dict[Kind, float]:
    """The real time of a program's reads and writes on a deployment, without noise."""
    system = deployment.system
    layout = {name: system.settings[name] for name in ("stripe_count", "stripe_size") if name in system.settings}
    inner = ", ".join(f"{name} = {text if text.isdecimal() else json.dumps(text)}" for name, text in layout.items())
    settings = f"layout = {{ {inner} }}" if layout else ""
    found: dict[Kind, float] = {}
    for way in WAYS:
        if moved := program.moved(way):
            device = (DEVICES if program.is_right else devices)[system.device]
            rate = simulated_rate(device, system.servers, settings, way, program.processes, program.transfer)
            found[way] = moved / rate
    return found


def resources() -> Resources:
    """The nodes of the site."""
    return Resources(
        nodes=tuple(
            Node(
                name=f"{kind}-{number}",
                network_bytes_per_second=NETWORK,
                devices=(Device(path=f"/{kind}", kind=kind, capacity_bytes=10**13),),
            )
            for kind in DEVICES
            for number in range(NODES)
        )
    )


def outcome_of(program: Program, deployment: Deployment, seconds: Mapping[Kind, float], begun: float) -> Outcome:
    """The outcome that the measurement of a run would have."""
    identity = program.identity
    return Outcome(
        begun=begun,
        job=job_key(program.job),
        behaviour_class=deployment.behaviour_class,
        sslo=deployment.sslo,
        system=deployment.system,
        planned=identity,
        done=identity,
        predicted=deployment.expected,
        calls={
            way: Calls(operations=program.moved(way) // program.transfer, bytes=program.moved(way), seconds=each)
            for way, each in seconds.items()
        },
        covered=1.0,
    )


def latest(outcomes: Sequence[Outcome]) -> list[Outcome]:
    """The outcomes that an archive would keep."""
    counts: dict[str, int] = defaultdict(int)
    kept = []
    for each in reversed(outcomes):
        counts[each.job] += 1
        if counts[each.job] <= RUNS_MAX:
            kept.append(each)
    return kept[::-1]


@dataclass(frozen=True)
class Ran:
    """One job of the month: its I/O time by each way of planning, without noise."""

    day: float
    is_right: bool
    never: float
    learned: float
    best: float
    asked: float
    """I/O time at the rates that the storage should reach, by the plan that never learns: the fewest devices that reach
    these are taken."""
    never_devices: int
    learned_devices: int


def month() -> list[Ran]:
    """Run the month."""
    dice = random.Random(MONTH.seed)
    found, devices, ratios = programs(dice), real_devices(dice), noise()
    planner = Planner(classes.built_in(), shipped.built_in(), sslo_tables.measured().sslos)
    site = resources()

    def planned(program: Program, outcomes: Sequence[Outcome] = (), *only: str) -> Plan:
        wishes = Wishes(devices=only, directives=Directives(policy="performance"))
        return planner.plan(program.identity, program.job, site, wishes=wishes, outcomes=outcomes)

    def real(program: Program, plan: Plan) -> float:
        return sum(seconds_of(program, plan.deployment, devices).values())

    arrivals = sorted(
        (dice.uniform(0, MONTH.days), number) for number, each in enumerate(found) for _ in range(each.runs)
    )
    first = {each.name: planned(each) for each in found}
    never = {each.name: real(each, first[each.name]) for each in found}
    hindsight = {each.name: min(real(each, planned(each, (), kind)) for kind in DEVICES) for each in found}
    asked = {
        each.name: sum(work(each.identity, way) / rate for way in WAYS if (rate := first[each.name].needs.rate(way)))
        for each in found
    }
    outcomes: list[Outcome] = []
    ran = []
    for day, number in arrivals:
        program = found[number]
        deployment = planned(program, latest(outcomes)).deployment
        took = seconds_of(program, deployment, devices)
        factor = dice.choice(ratios)
        outcomes.append(outcome_of(program, deployment, {way: each * factor for way, each in took.items()}, day * DAY))
        learned = sum(took.values())
        best = min(hindsight[program.name], never[program.name], learned)
        ran.append(
            Ran(
                day=day,
                is_right=program.is_right,
                never=never[program.name],
                learned=learned,
                best=best,
                asked=asked[program.name],
                never_devices=first[program.name].deployment.system.servers,
                learned_devices=deployment.system.servers,
            )
        )
    return ran


def regret(ran: Sequence[Ran], way: str) -> float:
    """Mean of the I/O time over that of the best in hindsight, less one."""
    return fmean(getattr(each, way) / each.best for each in ran) - 1.0


def shortfall(ran: Sequence[Ran], way: str) -> float:
    """Mean of the I/O time over what was asked, or over the best where that is more, less one; 0 where enough."""
    return fmean(max(0.0, getattr(each, way) / max(each.best, each.asked) - 1.0) for each in ran)


def measure(_: Path = ROOT) -> dict[str, float]:
    """Run the month.

    Returns:
        Regrets of all jobs, of the first and the last week, and of the jobs whose devices are as the tables have them;
        how far the I/O fell short of what was asked; the devices of a job, and their time in I/O, learned over never;
        and the I/O time of the whole month over the best.
    """
    ran = month()
    weeks = {
        "first": [each for each in ran if each.day < 7],
        "last": [each for each in ran if each.day >= MONTH.days - 7],
    }
    right = [each for each in ran if each.is_right]
    hours = {way: sum(getattr(each, way) for each in ran) / 3600 for way in ("never", "learned", "best")}
    figures = {
        "month_jobs": float(len(ran)),
        "month_regret_never": regret(ran, "never"),
        "month_regret_learned": regret(ran, "learned"),
        "month_regret_first_week": regret(weeks["first"], "learned"),
        "month_regret_last_week": regret(weeks["last"], "learned"),
        "month_regret_right_never": regret(right, "never"),
        "month_regret_right_learned": regret(right, "learned"),
        "month_shortfall_never": shortfall(ran, "never"),
        "month_shortfall_learned": shortfall(ran, "learned"),
        "month_devices_never": fmean(each.never_devices for each in ran),
        "month_devices_learned": fmean(each.learned_devices for each in ran),
        "month_device_time": sum(each.learned * each.learned_devices for each in ran)
        / sum(each.never * each.never_devices for each in ran),
        "month_io_over_best_never": hours["never"] / hours["best"],
        "month_io_over_best_learned": hours["learned"] / hours["best"],
    }
    words = f"regret {figures['month_regret_learned']:.2f}"
    announce("a month of jobs", words, f"never {figures['month_regret_never']:.2f}", hours["learned"] / hours["never"])
    return figures


if __name__ == "__main__":
    print(json.dumps(measure()))
