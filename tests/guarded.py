"""Stores in virtual time under a guard: each window of each device is a run of the simulator's request model.

The schedulers, their weights and their limits are those of the servers, so leases do here what they do there.
"""

import functools
import json
import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from weir import _core
from weir.guard.decisions import Entry, Guard, Wanted
from weir.guard.observations import Observation, Share, Traits, Use
from weir.simulation.outcome import JobOutcome, decode
from weir.store.observations import JobKey

WINDOW_SECONDS = 0.25
_RATE = {"bytes_per_second": 200e6, "fixed_seconds": 0.001}
_LINK = {"bytes_per_second": 10e9, "latency_seconds": 0.0}
_TOPOLOGY = {
    "name": "device",
    "layout": None,
    "clients": {"nodes": 1, "link": _LINK},
    "routers": [],
    "servers": [
        {
            "link": _LINK,
            "processor_bytes_per_second": None,
            "metadata_seconds": 0.0,
            "targets": [
                {
                    "class": "",
                    "capacity_bytes": 1 << 40,
                    "used_bytes": 0,
                    "read": _RATE,
                    "write": _RATE,
                    "seek_penalty": 0.0,
                    "seek_floor": 1.0,
                    "fullness": [],
                }
            ],
        }
    ],
}


@dataclass(frozen=True, order=True)
class Load:
    """The demand of a job on a device."""

    job: Traits
    streams: int
    bytes: int
    think_seconds: float
    """Pause between two writes of a stream."""


@dataclass(frozen=True)
class Measured:
    """A job at a device in a window."""

    received: float
    """Part of the window in which the device worked for the job."""
    busy: float
    """Part in which the job had requests at the device."""
    owed: float
    """Part that the policy owed the job."""


@functools.cache
def run_window(
    policy: str, shares: tuple[tuple[JobKey, Share], ...], loads: tuple[Load, ...]
) -> dict[JobKey, Measured]:
    """Run a device for a window.

    Args:
        policy: The policy in force.
        shares: Shares under a lease.
        loads: The demand; a job may have several loads.

    Returns:
        What each job came to.
    """
    traits = list(dict.fromkeys(load.job for load in loads))
    kinds = _core.step_kinds()
    streams: list[dict[str, int]] = []
    steps: list[tuple[Any, ...]] = []
    for load in loads:
        for _ in range(load.streams):
            stream = len(streams)
            streams.append({"job": traits.index(load.job), "node": 0})
            steps.append((stream, kinds.index("create"), 0.0, 0.0, stream, 0, 0, 0, 0))
            service = _RATE["fixed_seconds"] + load.bytes / _RATE["bytes_per_second"]
            writes = int(WINDOW_SECONDS / (service + load.think_seconds)) + 2
            for turn in range(writes):
                at = turn * load.bytes
                step = (stream, kinds.index("write"), load.think_seconds, 0.0, stream, at, load.bytes, load.bytes, 1)
                steps.append(step)
    columns = {
        name: np.array([step[place] for step in steps], kind) for place, (name, kind) in enumerate(_core.step_columns())
    }
    jobs = [
        {"name": str(job.key), "user": job.user, "group": job.group, "nodes": job.nodes, "priority": job.priority}
        for job in traits
    ]
    files = [{"job": stream["job"], "bytes": 0, "placement": "usual"} for stream in streams]
    scenario = {
        "mode": "request",
        "policy": policy,
        "entitlements": [{"job": str(job), "weight": share.weight, "limit": share.limit} for job, share in shares],
        "allocator": "balanced",
        "stripe_bytes": 1 << 20,
        "stripe_count": 1,
        "lambda_seconds": 0.1,
        "until_seconds": WINDOW_SECONDS,
        "topology": _TOPOLOGY,
        "workload": {"jobs": jobs, "streams": streams, "files": files, "steps": []},
    }
    outcome = decode(_core.simulate(json.dumps(scenario), columns, lambda *_: None))
    return {job.key: _measured(found) for job, found in zip(traits, outcome.jobs, strict=True)}


def _measured(job: JobOutcome) -> Measured:
    parts = (job.device_seconds, job.writing_seconds, job.owed_seconds)
    return Measured(*(part / WINDOW_SECONDS for part in parts))


def uses_of(measured: Mapping[JobKey, Measured], noise: random.Random) -> dict[JobKey, Use]:
    """The use of a device as a server's window tells it, within a few percent.

    Args:
        measured: The jobs at the device.
        noise: Its choices.

    Returns:
        Uses by job.
    """
    uses = {}
    for name, job in measured.items():
        waiting = max(job.busy - job.received, 0.0)
        others = {other: each.received for other, each in measured.items() if other != name}
        total = sum(others.values())
        part = min(waiting / total, 1.0) if total else 0.0
        waits = {other: received * part * noise.uniform(0.97, 1.03) for other, received in others.items()}
        uses[name] = Use(job.received * noise.uniform(0.97, 1.03), waits)
    return uses


@dataclass
class Turn:
    """A window of a run, the demand in it, the sharing that was in force, and what the guard did after it."""

    window: int
    phase: int
    loads: Mapping[str, tuple[Load, ...]]
    wanted: Wanted
    measured: Mapping[str, Mapping[JobKey, Measured]]
    entries: list[Entry]


def guarded_run(
    guard: Guard, policy: str, phases: list[tuple[int, dict[str, tuple[Load, ...]]]], noise: random.Random
) -> list[Turn]:
    """Run a store under a guard.

    Args:
        guard: The guard.
        policy: Policy that the site has decided.
        phases: Windows, and the demand at each device meanwhile.
        noise: Choices of the errors of measurement.

    Returns:
        All windows.
    """
    turns: list[Turn] = []
    wanted = Wanted()
    known = {load.job for _, devices in phases for loads in devices.values() for load in loads}
    targets = sorted({device for _, devices in phases for device in devices})
    for phase, (windows, devices) in enumerate(phases):
        for _ in range(windows):
            window = len(turns) + 1
            in_force = wanted.policy or policy
            shares = tuple(sorted(wanted.shares.items(), key=lambda each: each[0]))
            placed = _placed(devices, wanted, targets)
            measured = {
                device: run_window(in_force, tuple(each for each in shares if each[0] in _jobs(loads)), loads)
                for device, loads in placed.items()
            }
            uses = {device: uses_of(each, noise) for device, each in measured.items()}
            known_jobs = sorted(known, key=str)
            observation = Observation(window, WINDOW_SECONDS, policy, known_jobs, uses, targets=frozenset(targets))
            entries = guard.decide(observation)
            turns.append(Turn(window, phase, placed, wanted, measured, entries))
            wanted = guard.wanted(policy)
    return turns


def _placed(devices: Mapping[str, tuple[Load, ...]], wanted: Wanted, targets: list[str]) -> dict[str, tuple[Load, ...]]:
    """The demand at each device where all loads are on files of this window. Those that avoid a device go to others."""
    placed: dict[str, tuple[Load, ...]] = dict.fromkeys(targets, ())
    for device, loads in devices.items():
        for number, load in enumerate(loads):
            avoided = wanted.shares.get(load.job.key, Share()).avoid
            others = [target for target in targets if target not in avoided]
            place = others[number % len(others)] if device in avoided else device
            placed[place] = (*placed[place], load)
    return {device: loads for device, loads in placed.items() if loads}


def _jobs(loads: tuple[Load, ...]) -> set[JobKey]:
    return {load.job.key for load in loads}
