"""What jobs would have had under another policy: their recorded demand in the simulator, by the store's own scheduler.

The same demand is replayed under the policy of then as well, and what this gives beside what was recorded tells how far
the replay can be trusted.
"""

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from weir.history.demand import ROUNDS, Place, work_of
from weir.history.errors import HistoryError
from weir.history.reading import Cell, Gap, History, JobPast
from weir.simulation.outcome import Outcome
from weir.simulation.runs import run
from weir.simulation.scenario import Scenario, store_settings
from weir.simulation.topology import Topology
from weir.simulation.workload import Job, Workload
from weir.store.observations import METADATA, JobKey

_LINK_BYTES_PER_SECOND = 12.5e9
_CAPACITY_BYTES = 1 << 50
"""Room of a target: a replay asks for time, and not for room."""
_STRIPE_BYTES = 1 << 30
"""Larger than any request, so that none is cut."""
_UNBOUNDED = 1e12
"""Rate of a device whose bytes cost nothing."""
_LATER = 9
"""Stretches behind the one in question in which a job's later work is looked for."""
_FIT_SLACK = 0.05
"""Distance by which a demand with fewer bursts may fit worse: a record is not exact to a window."""
STEPS_MAX = 20_000_000
"""Most steps of a replay: some 2 GB of memory."""


@dataclass(frozen=True, slots=True)
class Had:
    """What a job had in a stretch of time.

    Attributes:
        moved_bytes: Bytes read and written.
        device_seconds: Device time of targets.
        share: The job's part of the device time that all jobs had, 0 to 1.
        started_seconds: Begin of its first work, from the begin of the stretch.
        ended_seconds: End of its last work; None where it went on.
    """

    moved_bytes: int
    device_seconds: float
    share: float
    started_seconds: float
    ended_seconds: float | None

    def bytes_per_second(self, stretch_seconds: float) -> float:
        """Bytes moved a second, from the begin of the first work to the end of the last, pauses included.

        Args:
            stretch_seconds: Length of the stretch.
        """
        end = stretch_seconds if self.ended_seconds is None else self.ended_seconds
        return self.moved_bytes / max(end - self.started_seconds, 1e-9)

    def distance(self, other: "Had") -> float:
        """Tell how far another account of the same job is from this one.

        Returns:
            The relative difference of the times from begin to end where the job ended in both, else of the bytes moved.
        """
        if self.ended_seconds is not None and other.ended_seconds is not None:
            own, others = self.ended_seconds - self.started_seconds, other.ended_seconds - other.started_seconds
            return abs(others / max(own, 1e-9) - 1)
        return abs(other.moved_bytes / max(self.moved_bytes, 1) - 1)


@dataclass(frozen=True, slots=True)
class JobReplay:
    """A job of a replay."""

    job: str
    user: str
    uid: int
    nodes: int
    streams: int
    """Requests that it has under way at most."""
    had: Had
    """The recorded figures."""
    replayed: Had | None
    """The figures of a replay under the policy then in force; None if the policy changed in the stretch."""
    would_have: Had
    """The figures of the replay under the policy in question."""


@dataclass(frozen=True, slots=True)
class Replay:
    """A stretch of time under another policy."""

    policies: tuple[str, ...]
    """Policies that were in force, in their order."""
    policy: str
    jobs: tuple[JobReplay, ...]
    gaps: tuple[Gap, ...]
    seconds: float

    @property
    def error_max(self) -> float | None:
        """Greatest distance between what was recorded and the replay under the policy of then; None as above."""
        errors = [job.had.distance(job.replayed) for job in self.jobs if job.replayed is not None]
        return max(errors, default=None)


def replay(
    history: History,
    since: int,
    until: int,
    policy: str,
    *,
    scheduler: str | None = None,
    configuration: Mapping[str, Any] | None = None,
) -> Replay:
    """Replay a stretch of a history under a policy.

    Args:
        since: Begin in Unix milliseconds.
        until: End. A job that went on has the work that it did later, too, where the policy leaves it time for that.
        policy: The policy in question.
        scheduler: Its scheduler; None is the policy's own.
        configuration: Document of the store's cluster.toml, for the shares that it grants and the interval of its
            exchange; None for none.

    Raises:
        HistoryError: Nothing is known of that time, or the replay would be too large.
        ScenarioError: The policy or the scheduler does not exist.
    """
    cells = _cells_by_job(history, since, until)
    if not cells:
        raise HistoryError("no work is recorded in that time", hint="`weir jobs --since` shows what the history knows")
    policies = _policies(history, since, until)
    within = [cell for of_job in cells.values() for cell in of_job if cell.begin < until]
    past = {JobKey(each.job, each.uid): each for each in history.jobs(since, until)}
    keys = [key for key in sorted(cells) if key in past]
    topology, places = _machines(history.states(until), within)
    had = _had(keys, within, since, until)
    document = configuration or {}
    name, _, enforced = (policies[0] if policies else policy).partition(" by ")
    usual = _settings(name, enforced or None, document, topology)

    def scenario(rounds: int) -> Scenario:
        works = [(_identity(past[key]), work_of(cells[key], places, since, rounds)) for key in keys]
        if sum(len(work.steps) for _, work in works) > STEPS_MAX:
            raise HistoryError("that is more work than a replay takes", hint="replay a shorter stretch")
        return Scenario(
            topology=topology,
            workload=Workload.of(works, nodes=topology.nodes),
            mode="request",
            stripe_bytes=_STRIPE_BYTES,
            until_seconds=(until - since) / 1000,
            **usual,
        )

    asked = _settings(policy, scheduler, document, topology)
    known = [had[key] for key in keys]
    best, then = _fitted(scenario, known) if len(policies) == 1 else (scenario(ROUNDS[0]), None)
    would = _of_jobs(run(dataclasses.replace(best, **asked)), best)
    streams = np.bincount(best.workload.stream_jobs, minlength=len(keys))
    jobs = tuple(
        JobReplay(
            key.job,
            past[key].user,
            key.uid,
            past[key].nodes or 1,
            int(streams[place]),
            had[key],
            then[place] if then else None,
            would[place],
        )
        for place, key in enumerate(keys)
    )
    gaps = tuple(history.gaps(since, until))
    return Replay(policies, str(asked["policy"]), jobs, gaps, (until - since) / 1000)


def _fitted(scenario: Callable[[int], Scenario], had: Sequence[Had]) -> tuple[Scenario, list[Had]]:
    """The demand with the fewest bursts that fits the record under the policy of then, and what jobs have by it."""
    found = []
    for rounds in ROUNDS:
        candidate = scenario(rounds)
        replayed = _of_jobs(run(candidate), candidate)
        distance = max(own.distance(other) for own, other in zip(had, replayed, strict=True))
        found.append((distance, candidate, replayed))
    least = min(distance for distance, _, _ in found)
    return next((best, replayed) for distance, best, replayed in found if distance <= least + _FIT_SLACK)


def _cells_by_job(history: History, since: int, until: int) -> dict[JobKey, list[Cell]]:
    """The work of jobs that were active in the stretch, and what they did next, as far as a replay can come."""
    found: dict[JobKey, list[Cell]] = {}
    times: dict[tuple[JobKey, str], float] = {}
    full: set[JobKey] = set()
    end = until + _LATER * (until - since)
    for cell in history.cells(since, end):
        if cell.begin >= until and (cell.job not in found or cell.job in full):
            continue
        found.setdefault(cell.job, []).append(cell)
        times[cell.job, cell.device] = times.get((cell.job, cell.device), 0.0) + cell.device_seconds
        # No policy gives a job more than all of a device's time.
        if times[cell.job, cell.device] > (until - since) / 1000:
            full.add(cell.job)
    span = history.span()
    end = min(end, until if span is None else span[1])
    return {key: cells if key in full else _continued(cells, since, end) for key, cells in found.items()}


def _continued(cells: list[Cell], since: int, end: int) -> list[Cell]:
    """The work of a job that was at work when the record ends, followed by the same once more."""
    last = cells[-1]
    if last.begin + 2 * last.width < end:
        return cells
    length = max(last.begin + last.width - since, last.width)
    return [*cells, *(dataclasses.replace(cell, begin=cell.begin + length) for cell in cells)]


def _policies(history: History, since: int, until: int) -> tuple[str, ...]:
    """The policies in force, in their order; servers that follow at a change of the policy say each twice."""
    first = [value for (_, subject), value in history.in_force(since).items() if subject == "policy" and value]
    later = [each.value for each in history.decisions(since, until) if each.subject == "policy" and each.value]
    return tuple(dict.fromkeys([*first, *later]))


def _machines(states: Mapping[str, Mapping[str, Any]], cells: Sequence[Cell]) -> tuple[Topology, dict[str, Place]]:
    """The servers and targets, as fast as they were: by the expected costs, and by the times that were measured."""
    names = sorted({*states, *(cell.device for cell in cells)}, key=_order)
    servers = sorted({_order(name)[0] for name in names})
    link = {"bytes_per_second": _LINK_BYTES_PER_SECOND, "latency_seconds": 0.0}
    described = []
    places: dict[str, Place] = {}
    for number, server in enumerate(servers):
        own = [name for name in names if _order(name)[0] == server and not name.endswith(METADATA)]
        for index, name in enumerate(own):
            places[name] = Place(f"-o {number}.{index} -c 1", number)
        metadata = f"{server}{METADATA}"
        places[metadata] = Place(None, number)
        described.append(
            {
                "link": link,
                "processor_bytes_per_second": None,
                "metadata_seconds": _metadata_seconds([cell for cell in cells if cell.device == metadata]),
                "targets": [
                    _target(states.get(name, {}), [cell for cell in cells if cell.device == name]) for name in own
                ],
            }
        )
    clients = {"nodes": 1, "link": {**link, "bytes_per_second": _UNBOUNDED}}
    document = {"name": "history", "layout": None, "clients": clients, "routers": [], "servers": described}
    return Topology(document), places


def _order(device: str) -> tuple[int, int]:
    server, _, index = device.partition(".")
    return int(server), int(index) if index.isdigit() else -1


def _metadata_seconds(cells: Sequence[Cell]) -> float:
    """The mean device time of a metadata request."""
    count = sum(cell.metadata for cell in cells)
    return sum(cell.device_seconds for cell in cells) / count if count else 0.0


def _target(state: Mapping[str, Any], cells: Sequence[Cell]) -> dict[str, Any]:
    ways = {}
    for way, prefix in (("read", "read"), ("write", "write")):
        fixed, rate = state.get(f"{prefix}_fixed_ns") or 0, state.get(f"{prefix}_rate") or _UNBOUNDED
        ways[way] = (fixed / 1e9, float(rate))
    expected = sum(
        cell.reads * ways["read"][0]
        + cell.read_bytes / ways["read"][1]
        + cell.writes * ways["write"][0]
        + cell.written_bytes / ways["write"][1]
        for cell in cells
    )
    measured = sum(cell.device_seconds for cell in cells)
    factor = measured / expected if expected > 0 and measured > 0 else 1.0
    return {
        "class": "",
        "capacity_bytes": _CAPACITY_BYTES,
        "used_bytes": 0,
        **{
            way: {"bytes_per_second": min(rate / factor, _UNBOUNDED), "fixed_seconds": fixed * factor}
            for way, (fixed, rate) in ways.items()
        },
        "seek_penalty": 0.0,
        "seek_floor": 1.0,
        "fullness": [],
    }


def _identity(past: JobPast) -> Job:
    return Job(past.job, past.user, past.group or "group", past.nodes or 1, past.priority or 1)


def _settings(
    policy: str, scheduler: str | None, configuration: Mapping[str, Any], topology: Topology
) -> dict[str, Any]:
    """The settings of a store under a policy."""
    from weir.simulation.documents import Document
    from weir.simulation.stores import settings_of_configuration

    values: dict[str, Any] = {"policy": policy, **({} if scheduler is None else {"scheduler": scheduler})}
    values |= {key: value for key, value in settings_of_configuration(configuration).items() if key != "layout"}
    settings = store_settings(Document(values, {}, origin="the store's settings", folder=Path()).table(), topology)
    return {key: settings[key] for key in ("policy", "scheduler", "entitlements", "lambda_seconds")}


def _had(keys: Sequence[JobKey], cells: Sequence[Cell], since: int, until: int) -> dict[JobKey, Had]:
    """The recorded work of jobs at targets."""
    times = dict.fromkeys(keys, 0.0)
    moved = dict.fromkeys(keys, 0)
    last = dict.fromkeys(keys, 0)
    first: dict[JobKey, int] = {}
    for cell in cells:
        if cell.job in times:
            first.setdefault(cell.job, cell.begin)
            last[cell.job] = max(last[cell.job], cell.begin + cell.width)
            if not cell.device.endswith(METADATA):
                times[cell.job] += cell.device_seconds
                moved[cell.job] += cell.read_bytes + cell.written_bytes
    whole = math.fsum(times.values())
    return {
        key: Had(
            moved[key],
            times[key],
            times[key] / whole if whole else 0.0,
            (first[key] - since) / 1000,
            (last[key] - since) / 1000 if last[key] < until else None,
        )
        for key in keys
    }


def _of_jobs(outcome: Outcome, scenario: Scenario) -> list[Had]:
    """The figures of each job in a run."""
    whole = math.fsum(each.device_seconds for each in outcome.jobs)
    end = scenario.until_seconds or outcome.seconds
    return [
        Had(
            job.read_bytes + job.written_bytes,
            job.device_seconds,
            job.device_seconds / whole if whole else 0.0,
            job.started_seconds,
            job.ended_seconds if job.is_complete and job.ended_seconds < end else None,
        )
        for job in outcome.jobs
    ]
