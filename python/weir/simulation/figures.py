"""The figures of a run: what its jobs got, beside what they get alone and what the policy owed them."""

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from weir.simulation.alone import Alone
from weir.simulation.outcome import SECONDS_MIN, JobOutcome, Outcome

if TYPE_CHECKING:
    from weir.simulation.workload import Job


@dataclass(frozen=True, slots=True, eq=False)
class JobFigures:
    """A job of a run."""

    name: str
    """Its name."""
    user: str
    """Its user."""
    group: str
    """Its group."""
    nodes: int
    """Compute nodes that it ran on."""
    arrival_seconds: float
    """Moment of its arrival."""
    outcome: JobOutcome
    """The engine's account of it."""
    alone: Alone | None
    """The job by itself on the idle system; None where that was not run."""
    share_owed: float | None
    """Its part of the device time that the policy owed all jobs, 0 to 1; None where nothing was owed, as by `fifo`."""
    share_received: float
    """Its part of the device time that all jobs got, 0 to 1."""

    @property
    def seconds(self) -> float:
        """Time from its arrival to the end of its last step."""
        return self.outcome.ended_seconds - self.arrival_seconds

    @property
    def slowdown(self) -> float | None:
        """Time of the job over its time alone; None where it did not end, or was not run alone."""
        if self.alone is None or not self.outcome.is_complete or self.alone.seconds <= SECONDS_MIN:
            return None
        return self.seconds / self.alone.seconds

    @property
    def io_slowdown(self) -> float | None:
        """Time of the job's I/O over that alone; None where it did not end, was not run alone, or did no I/O."""
        if self.alone is None or not self.outcome.is_complete or self.alone.busy_seconds <= SECONDS_MIN:
            return None
        return self.outcome.busy_seconds / self.alone.busy_seconds


@dataclass(frozen=True, slots=True)
class RunFigures:
    """The figures of a run as a whole; each is None where no job has it."""

    jobs: int
    """Number of jobs."""
    jobs_complete: int
    """Jobs that ended."""
    refused_files: int
    """Files that could not be made, because no target was left for them."""
    seconds: float
    """Moment of the last event."""
    io_slowdown_mean: float | None
    """Mean of the jobs' slowdowns of I/O."""
    io_slowdown_median: float | None
    """Median of the jobs' slowdowns of I/O."""
    io_slowdown_max: float | None
    """Greatest slowdown of a job's I/O."""
    slowdown_mean: float | None
    """Mean of the jobs' slowdowns."""
    slowdown_max: float | None
    """Greatest slowdown of a job."""
    bytes_per_second: float
    """Bytes that all jobs moved, over the time of the run."""
    job_bytes_per_second: float | None
    """Mean of the jobs' bytes a second in their time of I/O."""
    share_error: float | None
    """Part of the device time that went to other jobs than the policy owed it: half the sum of the differences between
    shares owed and received, 0 to 1; None where nothing was owed, as under `fifo`."""
    target_cost: float
    """Greatest use of a target's capacity by the workload, divided by the mean use."""
    target_busy: float
    """Mean part of the run in which a target worked, 0 to 1."""


def figures_of_jobs(
    outcome: Outcome, jobs: "Sequence[Job]", alone: Sequence[Alone | None] | None = None
) -> tuple[JobFigures, ...]:
    """Derive the figures of a run's jobs.

    Args:
        jobs: The jobs of its workload.
        alone: Each job by itself; None where that was not run.

    Returns:
        The figures, in the order of the workload.
    """
    owed = math.fsum(job.owed_seconds for job in outcome.jobs)
    received = math.fsum(job.device_seconds for job in outcome.jobs)
    return tuple(
        JobFigures(
            name=job.name,
            user=job.user,
            group=job.group,
            nodes=job.nodes,
            arrival_seconds=job.arrival_seconds,
            outcome=part,
            alone=idle,
            share_owed=part.owed_seconds / owed if owed else None,
            share_received=part.device_seconds / received if received else 0.0,
        )
        for job, part, idle in zip(jobs, outcome.jobs, alone or [None] * len(jobs), strict=True)
    )


def figures_of_run(outcome: Outcome, jobs: Sequence[JobFigures]) -> RunFigures:
    """Derive the figures of a run as a whole."""
    io_slowdowns = _known(job.io_slowdown for job in jobs)
    slowdowns = _known(job.slowdown for job in jobs)
    rates = _known(job.outcome.bytes_per_second for job in jobs)
    moved = sum(job.outcome.read_bytes + job.outcome.written_bytes for job in jobs)
    busy = [target.busy_seconds for target in outcome.targets]
    errors = [abs(job.share_owed - job.share_received) for job in jobs if job.share_owed is not None]
    return RunFigures(
        jobs=len(jobs),
        jobs_complete=sum(job.outcome.is_complete for job in jobs),
        refused_files=sum(job.outcome.refused_files for job in jobs),
        seconds=outcome.seconds,
        io_slowdown_mean=_mean(io_slowdowns),
        io_slowdown_median=_median(io_slowdowns),
        io_slowdown_max=max(io_slowdowns, default=None),
        slowdown_mean=_mean(slowdowns),
        slowdown_max=max(slowdowns, default=None),
        bytes_per_second=moved / outcome.seconds if outcome.seconds > SECONDS_MIN else 0.0,
        job_bytes_per_second=_mean(rates),
        share_error=math.fsum(errors) / 2 if errors else None,
        target_cost=outcome.target_cost,
        target_busy=math.fsum(busy) / len(busy) / outcome.seconds if busy and outcome.seconds > SECONDS_MIN else 0.0,
    )


def _known(values: Iterable[float | None]) -> list[float]:
    return [value for value in values if value is not None]


def _mean(values: Sequence[float]) -> float | None:
    return statistics.fmean(values) if values else None


def _median(values: Sequence[float]) -> float | None:
    return statistics.median(values) if values else None
