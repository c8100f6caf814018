"""The evaluation of one point, on whichever machine it runs, and the figures that it is reduced to."""

import dataclasses
import statistics
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from weir.simulation.engine import Prepared, simulate
from weir.simulation.errors import ScenarioError
from weir.simulation.figures import JobFigures, figures_of_jobs, figures_of_run
from weir.simulation.sweeps.engine import engine_digest

if TYPE_CHECKING:
    from weir.simulation.alone import Alone, Baseline
    from weir.simulation.outcome import Outcome


@dataclass(frozen=True, eq=False)
class Task:
    """A point as it travels to the machine that evaluates it: whole, so that the machine reads no file."""

    key: str
    """Digest of the point."""
    prepared: Prepared
    """The scenario in the engine's shape."""
    has_slowdowns: bool
    """Whether each job also runs alone, for its slowdown."""


@dataclass(frozen=True)
class Answer:
    """The answer to a task."""

    figures: dict[str, Any] | None
    """The figures; None where the engine refused the scenario, or the answer was no longer wanted."""
    refusal: str | None
    """The engine's reason; None where it ran."""
    build: str
    """Digest of the engine that ran."""


@dataclass(frozen=True)
class Objective:
    """A figure by which settings are compared."""

    name: str
    """Name of the figure, and of the objective in commands."""
    is_greater_better: bool
    meaning: str
    is_of_jobs_alone: bool = False
    """Whether the figure needs the runs of each job alone."""


OBJECTIVES = {
    each.name: each
    for each in (
        Objective("seconds", False, "moment of the last event, in seconds"),
        Objective("io_slowdown_mean", False, "mean of the jobs' time in I/O by that alone", True),
        Objective("io_slowdown_max", False, "greatest of the jobs' time in I/O by that alone", True),
        Objective("slowdown_mean", False, "mean of the jobs' time by their time alone", True),
        Objective("slowdown_max", False, "greatest of the jobs' time by their time alone", True),
        Objective("job_bytes_per_second", True, "mean of the jobs' bytes by their time in I/O"),
        Objective("read_bytes_per_second", True, "mean of the jobs' bytes read by their time in reads"),
        Objective("write_bytes_per_second", True, "mean of the jobs' bytes written by their time in writes"),
        Objective("io_seconds", False, "mean of the jobs' time in I/O, in seconds"),
        Objective("share_error", False, "part of the device time that went to other jobs than the policy owed it"),
        Objective("target_cost", False, "fullest target by the mean of all (Tarazu's equation 4)"),
    )
}
"""The objectives by their names."""
USUAL_OBJECTIVES = ("io_slowdown_mean", "job_bytes_per_second", "share_error", "target_cost")
"""The objectives of a table where none are named."""

_baseline: "Baseline | None" = None


def evaluate(task: Task, is_wanted: Callable[[], bool]) -> Answer:
    """Run a point and reduce its outcome to figures.

    The run ends early where the answer is no longer wanted.

    Args:
        is_wanted: Tells whether the answer is still wanted.

    Returns:
        The figures, or the engine's refusal.
    """
    watch = partial(_watch, is_wanted)
    build = engine_digest()
    try:
        outcome = simulate(task.prepared, progress=watch)
        alone = _alone(task.prepared, watch) if task.has_slowdowns and is_wanted() else None
    except ScenarioError as error:
        return Answer(None, error.message, build)
    except KeyboardInterrupt:
        return Answer(None, None, build)
    if outcome.is_interrupted:
        return Answer(None, None, build)
    return Answer(figures_of(outcome, task.prepared, alone), None, build)


def figures_of(outcome: "Outcome", prepared: Prepared, alone: "list[Alone | None] | None") -> dict[str, Any]:
    """Reduce a run to figures.

    Args:
        alone: Each job alone; None leaves the slowdowns out.

    Returns:
        Values for JSON by their names: the figures of the run, and the table `job_figures`. A figure that the run does
        not have is None, such as the bandwidth of reads where nothing was read.
    """
    from weir.simulation.workload import Job

    jobs = figures_of_jobs(outcome, [Job(**job) for job in prepared.document["workload"]["jobs"]], alone)
    return {
        "is_complete": outcome.is_complete,
        **dataclasses.asdict(figures_of_run(outcome, jobs)),
        "read_bytes_per_second": _mean([job.outcome.read_bytes_per_second for job in jobs]),
        "write_bytes_per_second": _mean([job.outcome.write_bytes_per_second for job in jobs]),
        "io_seconds": _mean([job.outcome.busy_seconds for job in jobs]),
        "events": outcome.events,
        "job_figures": [_row(job) for job in jobs],
    }


def _watch(is_wanted: Callable[[], bool], *_: object) -> None:
    """End a run whose answer is not wanted any more, as its caller's Ctrl-C would."""
    if not is_wanted():
        raise KeyboardInterrupt


def _row(job: JobFigures) -> dict[str, Any]:
    return {
        "name": job.name,
        "user": job.user,
        "group": job.group,
        "nodes": job.nodes,
        "arrival_seconds": job.arrival_seconds,
        "is_complete": job.outcome.is_complete,
        "seconds": job.seconds,
        "io_seconds": job.outcome.busy_seconds,
        "read_bytes_per_second": job.outcome.read_bytes_per_second,
        "write_bytes_per_second": job.outcome.write_bytes_per_second,
        "share_owed": job.share_owed,
        "share_received": job.share_received,
        "slowdown": job.slowdown,
        "io_slowdown": job.io_slowdown,
    }


def _alone(prepared: Prepared, watch: Callable[..., None]) -> "list[Alone | None]":
    """Each job alone. Runs are kept for the life of the process: points of a sweep share most of them."""
    from weir.simulation.alone import Baseline

    global _baseline
    if _baseline is None:
        # Points run beside each other already, so the runs of one are done one after the other.
        _baseline = Baseline(threads=1)
    return _baseline.of_jobs(prepared, progress=watch)


def _mean(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.fmean(known) if known else None
