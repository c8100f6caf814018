"""The workloads of a search: some to find a setting with, others, which the search never sees, to judge it by."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from weir.simulation.tuning.errors import TuningError
from weir.simulation.workload import SkippedLog


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
class Mixes:
    """The way in which logs become workloads."""

    training: int
    """Workloads to search with."""
    held_out: int
    """Workloads to judge by, beside each log that was held out by itself."""
    at_once: int = 3
    """Logs of a workload."""
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


def find_logs(folder: Path, *, skip: Callable[[SkippedLog], object] | None = None) -> list[Path]:
    """Find the Darshan logs in a folder and below it.

    Args:
        folder: The folder.
        skip: Called with each log that cannot be used, which is then left out; None reads none of them yet.

    Returns:
        Paths of the logs, sorted.

    Raises:
        ScenarioError: There are none, or none that can be used.
        TuningError: There is one.
    """
    from weir.simulation.workloads.logs import SUFFIX, logs_in, read_jobs

    logs = logs_in(folder)
    if skip is not None:
        skipped: list[SkippedLog] = []
        read_jobs(logs, skip=skipped.append)
        for log in skipped:
            skip(log)
        left_out = {log.path for log in skipped}
        logs = [log for log in logs if log not in left_out]
    if len(logs) < 2:
        raise TuningError(
            f"{folder} has one log, {logs[0].name}: one part of the logs is to search with, the other to judge by",
            hint=f"give a folder with at least two files that end with {SUFFIX}",
        )
    return logs


def cases_of_logs(logs: Sequence[Path], seed: int, mixes: Mixes) -> Cases:
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
    held_out, training = sorted(order[:kept]), sorted(order[kept:])

    def mix(pool: Sequence[Path], name: str, number: int) -> Case:
        chosen = [pool[place] for place in dice.permutation(len(pool))[: mixes.at_once]]
        arrivals = [0.0, *sorted(dice.uniform(0.0, mixes.within_seconds, len(chosen) - 1).tolist())]
        jobs = [_job(log, arrival) for log, arrival in zip(chosen, arrivals, strict=True)]
        return Case(f"{name} mix {number}: {', '.join(log.stem for log in chosen)}", {"jobs": jobs, "seed": number})

    return Cases(
        training=tuple(mix(training, "training", number) for number in range(mixes.training)),
        held_out=(
            *(mix(held_out, "held-out", mixes.training + number) for number in range(mixes.held_out)),
            *(Case(f"{log.stem} alone", {"jobs": [_job(log, 0.0)], "seed": 0}) for log in held_out),
        ),
    )


def _job(log: Path, arrival_seconds: float) -> dict[str, Any]:
    return {"log": str(log.absolute()), "arrival": f"{round(arrival_seconds * 1000)}ms"}
