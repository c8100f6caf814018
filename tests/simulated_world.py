"""A large store of the simulator in a history: 1,000 jobs on 3,600 targets, as a recorder would have kept them.

Each job writes at four targets, and pairs of jobs share some of these. Each target divides its own time, so each part
of a job is a job of the simulator, whose series is the job's work at the target.
"""

import math
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from weir.history.database import Database
from weir.history.samples import Sample
from weir.history.tables import STATES
from weir.simulation import Scenario, run
from weir.simulation.outcome import Outcome
from weir.simulation.topology import Topology
from weir.simulation.workload import Job, Kind, Steps, Work, Workload
from weir.store.answers import WaitedFor
from weir.store.observations import ObservedDevice, ObservedJob, Statistic, Window

SERVERS, TARGETS_OF_SERVER, JOBS, PARTS = 300, 12, 1_000, 4
TARGETS = SERVERS * TARGETS_OF_SERVER
USERS = 40
SECONDS = 12
WINDOW = 1_000
"""Milliseconds."""
_RATE, _CAPACITY = 500e6, 1 << 40
_REQUEST = 16 << 20
_LINK = {"bytes_per_second": 25e9, "latency_seconds": 0.0}
_COST = {"bytes_per_second": _RATE, "fixed_seconds": 0.0}


def kept(folder: Path, begin: int) -> int:
    """Simulate the store, and keep its history in a folder.

    Args:
        begin: Unix time in seconds of the first window.

    Returns:
        The end of the last window, in Unix milliseconds.
    """
    outcome = run(_scenario())
    database = Database(folder, bytes_max=1 << 30)
    try:
        for second in range(SECONDS):
            sample = Sample((begin + second + 1) * WINDOW, WINDOW)
            number = begin + second
            sample.add_windows(number, list(_windows(outcome, number, second)), {})
            sample.rows[STATES] = [
                (
                    0,
                    number * WINDOW,
                    each.name,
                    each.used_bytes * (second + 1) // SECONDS,
                    _CAPACITY,
                    None,
                    0,
                    *[None] * 4,
                )
                for each in outcome.targets
            ]
            database.add(sample)
    finally:
        database.close()
    return (begin + SECONDS) * WINDOW


def job_name(job: int) -> str:
    """The name of a job, by its number."""
    return f"job-{job}"


def _scenario() -> Scenario:
    target = {
        **{"class": "", "capacity_bytes": _CAPACITY, "used_bytes": 0, "read": _COST, "write": _COST},
        **{"seek_penalty": 0.0, "seek_floor": 1.0, "fullness": []},
    }
    server = {"link": _LINK, "processor_bytes_per_second": None, "metadata_seconds": 0.0}
    servers = [{**server, "targets": [target] * TARGETS_OF_SERVER} for _ in range(SERVERS)]
    clients = {"nodes": JOBS, "link": _LINK}
    topology = Topology({"name": "large", "layout": None, "clients": clients, "routers": [], "servers": servers})
    works = [
        (Job(job_name(job), f"user-{job % USERS}"), _part(job, part)) for job in range(JOBS) for part in range(PARTS)
    ]
    return Scenario(
        topology=topology,
        workload=Workload.of(works, nodes=JOBS),
        policy="job-fair",
        stripe_bytes=_REQUEST,
        sample_seconds=WINDOW / 1000,
        until_seconds=float(SECONDS),
    )


def _target(job: int, part: int) -> tuple[int, int]:
    """The server and the index of the target at which a part of a job writes."""
    return divmod((job * PARTS + part) % TARGETS, TARGETS_OF_SERVER)


def _part(job: int, part: int) -> Work:
    """A part of a job: one file at its target, written from front to end."""
    server, index = _target(job, part)
    steps = Steps.of(1, kind=Kind.WRITE, bytes=(1 + job % 7) * 10**9, request_bytes=_REQUEST, depth=4)
    return Work(1, np.zeros(1, np.uint32), np.zeros(1, np.uint64), steps, (f"-o {server}.{index} -c 1",), (server,))


def _windows(outcome: Outcome, number: int, second: int) -> Iterator[Window]:
    """The window of each server in a second of the run."""
    busy = {each.name: _at(each.busy_series, second) for each in outcome.targets}
    parts: dict[str, list[tuple[int, float, int]]] = {}
    for place, each in enumerate(outcome.jobs):
        job, part = divmod(place, PARTS)
        spent = _at(each.device_series, second)
        if spent:
            server, index = _target(job, part)
            moved = round(each.written_bytes * spent / each.device_seconds)
            parts.setdefault(f"{server}.{index}", []).append((job, spent, moved))
    for server in range(SERVERS):
        names = [f"{server}.{index}" for index in range(TARGETS_OF_SERVER)]
        lines = tuple(line for name in names for line in _lines(name, parts.get(name, ())))
        devices = tuple(_device(name, busy[name], parts.get(name, ())) for name in names)
        yield Window(number, devices, lines, 0)


def _at(series: NDArray[np.float32], second: int) -> float:
    return float(series[second]) if second < len(series) else 0.0


def _lines(target: str, parts: Sequence[tuple[int, float, int]]) -> Iterator[ObservedJob]:
    """The work of the jobs at a target. A job that writes has requests queued all the time: it waits for the others."""
    for job, spent, moved in parts:
        others = [
            WaitedFor(job_name(each), f"user-{each % USERS}", each % USERS, time)
            for each, time, _ in parts
            if each != job
        ]
        counts = dict.fromkeys(("reads", "read_bytes", "stats", "opens", "closes", "lists"), 0)
        counts |= dict.fromkeys(("makes", "removes", "renames", "changes"), 0)
        yield ObservedJob(
            job=job_name(job),
            user=f"user-{job % USERS}",
            uid=job % USERS,
            device=target,
            writes=math.ceil(moved / _REQUEST),
            written_bytes=moved,
            request_seconds=4 * (spent + sum(other.seconds for other in others)),
            device_seconds=spent,
            waited_for=tuple(others),
            waited_for_others_seconds=0.0,
            under_way_max=4,
            **counts,
        )


def _device(name: str, busy: float, parts: Sequence[tuple[int, float, int]]) -> ObservedDevice:
    moved = sum(each for _, _, each in parts)
    counters = dict.fromkeys(("reads", "read_sectors", "read_milliseconds", "in_progress"), 0.0)
    counters |= {
        "writes": moved / _REQUEST,
        "written_sectors": moved / 512,
        "write_milliseconds": 4 * busy * WINDOW,
        "busy_milliseconds": busy * WINDOW,
        "queued_milliseconds": 4 * busy * WINDOW,
    }
    return ObservedDevice(name, **{name: Statistic(value, value / 10, 0.0) for name, value in counters.items()})
