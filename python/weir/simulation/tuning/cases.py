"""The workloads of a search: some to find a setting with, others, which the search never sees, to judge it by."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weir.simulation.errors import ScenarioError
from weir.simulation.tuning.errors import TuningError
from weir.simulation.workload import SkippedLog

if TYPE_CHECKING:
    from weir.simulation.topology import Topology


@dataclass(frozen=True)
class Case:
    """A workload, as changes of the base scenario."""

    name: str
    changes: dict[str, Any]


@dataclass(frozen=True)
class Cases:
    """The workloads of a search."""

    training: tuple[Case, ...]
    held_out: tuple[Case, ...]


@dataclass(frozen=True)
class Log:
    """A log of a search."""

    path: Path
    kept_bytes: int
    """Bytes that the files of its job hold at the end."""


@dataclass(frozen=True)
class Mixes:
    """The way in which logs become workloads."""

    training: int
    """Number of workloads to search with."""
    held_out: int
    """Workloads to judge by, beside each log that was held out by itself."""
    room_bytes: int
    """Free bytes of the targets, which the logs of a workload share."""
    at_once: int = 3
    """Logs of a workload at most."""
    within_seconds: float = 60.0
    """The jobs of a workload arrive within this time."""
    held_out_ratio: float = 1 / 3
    """Part of the logs that the search never sees."""


def cases_of_seeds(first: int, training: int, held_out: int) -> Cases:
    """Repeat one scenario with different dice.

    Args:
        first: The scenario's own seed, the first of the training.
        training: Number of seeds to search with.
        held_out: Number of seeds to judge by.

    Returns:
        The cases; no seed is in both parts.
    """
    seeds = [Case(f"seed {seed}", {"seed": seed}) for seed in range(first, first + training + held_out)]
    return Cases(tuple(seeds[:training]), tuple(seeds[training:]))


def find_logs(
    folder: Path,
    topology: "Topology",
    *,
    skip_unreadable: Callable[[SkippedLog], object] | None = None,
    skip_too_large: Callable[[SkippedLog], object] | None = None,
) -> list[Log]:
    """Find the Darshan logs in a folder and below it.

    Args:
        skip_unreadable: Called with each log that cannot be read or has no I/O, which is then left out; None makes the
            first of them an error.
        skip_too_large: Called with each log whose files the targets cannot hold, which is then left out; None makes
            the first of them an error.

    Returns:
        The logs by their paths, at least two.

    Raises:
        ScenarioError: There are none, or one cannot be read or is too large.
        TuningError: Fewer than two can be used.
    """
    from weir.simulation.workloads.logs import SUFFIX, logs_in, read_jobs

    paths = logs_in(folder)
    unreadable: list[SkippedLog] = []
    jobs = read_jobs(paths, skip=unreadable.append if skip_unreadable else None)
    if skip_unreadable is not None:
        for log in unreadable:
            skip_unreadable(log)
    left_out = {log.path for log in unreadable}
    readable = [path for path in paths if path not in left_out]
    logs = [Log(path, job.work.kept_bytes) for path, job in zip(readable, jobs, strict=True)]
    fitting = [log for log in logs if _fits(log, topology, skip_too_large)]
    if len(fitting) < 2:
        raise TuningError(
            f"{len(fitting)} of {len(paths)} logs in {folder} can be used: one part of the logs is to search with, "
            "the other to judge by",
            hint=f"give a folder with at least two files that end with {SUFFIX} and fit the targets",
        )
    return fitting


def _fits(log: Log, topology: "Topology", skip: Callable[[SkippedLog], object] | None) -> bool:
    """Whether the targets can hold the files of a log; a log that is too large is an error where none is skipped."""
    if log.kept_bytes <= topology.free_bytes:
        return True
    reason = (
        f"the files of {log.path} hold {log.kept_bytes} bytes at the end, and the targets of {topology.name} have "
        f"room for {topology.free_bytes}"
    )
    if skip is None:
        raise ScenarioError(reason, hint="leave such logs out by `skip_too_large`, or give the targets more capacity")
    skip(SkippedLog(log.path, reason))
    return False


def cases_of_logs(logs: Sequence[Log], seed: int, mixes: Mixes) -> Cases:
    """Draw workloads from logs: mixes of logs that run at once, and each log that was held out alone.

    Args:
        logs: The logs, at least two.
        seed: Start of the dice that divide and mix the logs.
        mixes: The way to mix them.

    Returns:
        The cases; no log is in both parts.
    """
    import numpy

    dice = numpy.random.default_rng(seed)
    order = [logs[place] for place in dice.permutation(len(logs))]
    kept = min(max(1, round(len(logs) * mixes.held_out_ratio)), len(logs) - 1)
    held_out, training = (sorted(part, key=lambda log: log.path) for part in (order[:kept], order[kept:]))

    def mix(pool: Sequence[Log], name: str, number: int) -> Case:
        chosen = _together([pool[place] for place in dice.permutation(len(pool))], mixes)
        arrivals = [0.0, *sorted(dice.uniform(0.0, mixes.within_seconds, len(chosen) - 1).tolist())]
        jobs = [_job(log, arrival) for log, arrival in zip(chosen, arrivals, strict=True)]
        return Case(
            f"{name} mix {number}: {', '.join(log.path.stem for log in chosen)}", {"jobs": jobs, "seed": number}
        )

    return Cases(
        training=tuple(mix(training, "training", number) for number in range(mixes.training)),
        held_out=(
            *(mix(held_out, "held-out", mixes.training + number) for number in range(mixes.held_out)),
            *(Case(f"{log.path.stem} alone", {"jobs": [_job(log, 0.0)], "seed": 0}) for log in held_out),
        ),
    )


def _together(logs: Sequence[Log], mixes: Mixes) -> list[Log]:
    """The first of these logs that the targets hold together, as many as run at once."""
    chosen: list[Log] = []
    left = mixes.room_bytes
    for log in logs:
        if len(chosen) < mixes.at_once and log.kept_bytes <= left:
            chosen.append(log)
            left -= log.kept_bytes
    return chosen


def _job(log: Log, arrival_seconds: float) -> dict[str, Any]:
    return {"log": str(log.path.absolute()), "arrival": f"{round(arrival_seconds * 1000)}ms"}
