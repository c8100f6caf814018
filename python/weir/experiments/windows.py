"""Windows of time: the share that each job received in each, by the servers' accounts and by its own counts, beside the
owed share.

A share is computed from the emulated devices' own busy time, and again from the bytes that the jobs' processes counted;
never from the charges of a scheduler.
"""

import itertools
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from weir.store.observations import METADATA

if TYPE_CHECKING:
    from weir.store import answers

OUTSTANDING_MIN = 2.0
"""Requests of a job at the store, on average over a window, from which the job is backlogged: one is served, one waits.
A job of one process that waits for each request never is."""


@dataclass(frozen=True)
class Account:
    """The account of one job on one server."""

    device_seconds: Mapping[str, float]
    """Time that each target worked for the job, since the server started."""
    owed: Mapping[str, float]
    """Share of each target that the job is owed now."""
    owed_for_seconds: Mapping[str, float]
    """Time for which the job has been owed this share of each target."""
    bytes_total: int


@dataclass(frozen=True)
class Sample:
    """The accounts of one server at one time."""

    server: int
    time_seconds: float
    """Time since the beginning of the experiment."""
    jobs: Mapping[str, Account]
    """Accounts by the names of the jobs."""


@dataclass(frozen=True)
class Done:
    """The work of a job's processes in one window, by their own counts."""

    bytes_written: int
    bytes_read: int
    requests: int
    waited_nanoseconds: int
    """Time inside requests, added up over the processes."""


class TimedJob(Protocol):
    """A job with its time of work."""

    @property
    def name(self) -> str:
        """Name of the job."""

    @property
    def start_seconds(self) -> float:
        """Begin of its work."""

    @property
    def end_seconds(self) -> float:
        """End of its work."""


@dataclass(frozen=True)
class Row:
    """One job in one window."""

    window: int
    start_seconds: float
    job: str
    phase: int | None
    """Number of the span of time in which the same jobs have work; None for a window that two of them share."""
    device_ratio: float
    """Seconds that all targets worked for the job in a second."""
    device_ratios: Mapping[str, float]
    """Seconds that each target worked for the job in a second."""
    bytes_written: int
    bytes_read: int
    requests: int
    outstanding: float
    """Requests of the job that were at the store, on average."""
    share_device: float | None
    """Share of the time that the targets worked; None where they did not work."""
    share_bytes: float | None
    """Share of the bytes that all jobs moved; None where none moved any."""
    share_owed: float | None
    """Share that the policy owes, if every job with work is backlogged; None under a policy that owes nothing."""
    is_counted: bool
    """Whether every job with work was backlogged in this window and in the one before, in one phase."""

    @property
    def bytes_total(self) -> int:
        """Bytes in both directions."""
        return self.bytes_written + self.bytes_read


@dataclass(frozen=True)
class Summary:
    """One job in one phase, over the windows that count."""

    job: str
    phase: int
    start_seconds: float
    end_seconds: float
    windows: int
    bytes_per_second_median: float
    bytes_per_second_mean: float
    bytes_per_second_deviation: float | None
    """Standard deviation of the windows; None with fewer than two."""
    share_owed: float | None
    share_device: float
    """Mean of the windows."""
    share_bytes: float
    share_deviation: float | None
    share_error_max: float | None
    """Greatest distance of a window's share by device time from the owed share."""
    windows_within: int | None
    """Number of windows in which this distance is no greater than the tolerance."""


def accounts(table: "Sequence[answers.Job]") -> dict[str, Account]:
    """Read the accounts in a server's job table.

    Returns:
        The accounts by the names of the jobs, of targets alone.
    """
    found = {}
    for job in table:
        targets = [device for device in job.devices if not device.device.endswith(METADATA)]
        seconds = {device.device: device.device_seconds for device in targets}
        owed = {device.device: device.share_owed for device in targets if device.share_owed is not None}
        owed_for = {device.device: device.share_owed_for_seconds for device in targets}
        found[job.job] = Account(seconds, owed, owed_for, job.bytes_read + job.bytes_written)
    return found


def phase_of(jobs: Iterable[TimedJob], start_seconds: float, end_seconds: float) -> int | None:
    """Find the phase of a window: the span of time in which the same jobs have work.

    Args:
        jobs: All jobs of the run.
        start_seconds: Begin of the window.

    Returns:
        Number of the phase; None where jobs come or go inside the window.
    """
    edges = sorted({edge for job in jobs for edge in (job.start_seconds, job.end_seconds)})
    if any(start_seconds + 1e-6 < edge < end_seconds - 1e-6 for edge in edges):
        return None
    return sum(edge <= start_seconds + 1e-6 for edge in edges)


def working(jobs: Sequence[TimedJob], start_seconds: float, end_seconds: float) -> list[str]:
    """Find the jobs that have work throughout a window.

    Args:
        jobs: All jobs of the run.
        start_seconds: Begin of the window.

    Returns:
        Names of the jobs.
    """
    return [
        job.name for job in jobs if job.start_seconds <= start_seconds + 1e-6 and job.end_seconds >= end_seconds - 1e-6
    ]


def table(
    jobs: Sequence[TimedJob],
    samples: Sequence[Sequence[Sample]],
    done: Mapping[str, Sequence[Done]],
    window_seconds: float,
    owed_of: Callable[[Sequence[str]], Mapping[str, float] | None],
    *,
    outstanding_min: float = OUTSTANDING_MIN,
) -> list[Row]:
    """Make the table of each job in each window.

    Args:
        jobs: All jobs of the run.
        samples: At each edge of a window, one sample of each server.
        done: Each job's own counts of each window, by its name.
        owed_of: Called with the names of the jobs that have work; returns the shares that the policy owes them.
        outstanding_min: Requests of a job at the store, on average, from which it is backlogged.

    Returns:
        One row for each job and window, window after window.
    """
    rows: list[Row] = []
    backlogged_before: tuple[int | None, bool] = (None, False)
    for window, (before, after) in enumerate(itertools.pairwise(samples)):
        start, end = window * window_seconds, (window + 1) * window_seconds
        phase, present = phase_of(jobs, start, end), working(jobs, start, end)
        owed = owed_of(present) if phase is not None and present else None
        ratios = {job.name: _device_ratios(job.name, before, after) for job in jobs}
        counts = {job.name: done[job.name][window] for job in jobs}
        outstanding = {name: count.waited_nanoseconds / 1e9 / window_seconds for name, count in counts.items()}
        backlogged = phase is not None and all(outstanding[name] >= outstanding_min for name in present)
        worked = sum(sum(each.values()) for each in ratios.values())
        moved = sum(count.bytes_written + count.bytes_read for count in counts.values())
        for job in jobs:
            count, ratio = counts[job.name], sum(ratios[job.name].values())
            rows.append(
                Row(
                    window=window,
                    start_seconds=start,
                    job=job.name,
                    phase=phase if job.name in present else None,
                    device_ratio=ratio,
                    device_ratios=ratios[job.name],
                    bytes_written=count.bytes_written,
                    bytes_read=count.bytes_read,
                    requests=count.requests,
                    outstanding=outstanding[job.name],
                    share_device=ratio / worked if worked else None,
                    share_bytes=(count.bytes_written + count.bytes_read) / moved if moved else None,
                    share_owed=owed.get(job.name) if owed else None,
                    is_counted=job.name in present and backlogged and backlogged_before == (phase, True),
                )
            )
        backlogged_before = (phase, backlogged)
    return rows


def summaries(rows: Sequence[Row], window_seconds: float, *, tolerance: float = 0.02) -> list[Summary]:
    """Summarise each job in each phase, over the windows that count.

    Args:
        rows: The table of a run.
        tolerance: Tolerance of a window's share, as a fraction.

    Returns:
        One summary for each phase and job.
    """
    groups: dict[tuple[int, str], list[Row]] = {}
    for row in rows:
        if row.is_counted and row.phase is not None:
            groups.setdefault((row.phase, row.job), []).append(row)
    return [_summary(phase, job, group, window_seconds, tolerance) for (phase, job), group in groups.items()]


def disagreement_max(rows: Iterable[Row]) -> float | None:
    """Find the greatest distance between a share by device time and the same by the jobs' own bytes.

    Args:
        rows: The table of a run.

    Returns:
        The distance in windows that count; None where none counts.
    """
    return max(
        (
            abs(row.share_device - row.share_bytes)
            for row in rows
            if row.is_counted and row.share_device is not None and row.share_bytes is not None
        ),
        default=None,
    )


def busy_ratio(rows: Iterable[Row], devices: int) -> float | None:
    """Compute the part of their time in which the devices worked.

    Args:
        rows: The table of a run.
        devices: Number of devices.

    Returns:
        The part in windows that count, from 0 to 1; None where none counts.
    """
    windows: dict[int, float] = {}
    for row in rows:
        if row.is_counted:
            windows[row.window] = windows.get(row.window, 0.0) + row.device_ratio
    return statistics.fmean(windows.values()) / devices if windows else None


def deviation(values: Sequence[float]) -> float | None:
    """Compute the standard deviation of a sample.

    Args:
        values: The sample.

    Returns:
        The deviation; None of fewer than two values.
    """
    return statistics.stdev(values) if len(values) > 1 else None


def _summary(phase: int, job: str, rows: Sequence[Row], window_seconds: float, tolerance: float) -> Summary:
    rates = [row.bytes_total / window_seconds for row in rows]
    shares = [row.share_device or 0.0 for row in rows]
    errors = [
        abs(row.share_device - row.share_owed)
        for row in rows
        if row.share_device is not None and row.share_owed is not None
    ]
    return Summary(
        job=job,
        phase=phase,
        start_seconds=rows[0].start_seconds,
        end_seconds=rows[-1].start_seconds + window_seconds,
        windows=len(rows),
        bytes_per_second_median=statistics.median(rates),
        bytes_per_second_mean=statistics.fmean(rates),
        bytes_per_second_deviation=deviation(rates),
        share_owed=rows[0].share_owed,
        share_device=statistics.fmean(shares),
        share_bytes=statistics.fmean(row.share_bytes or 0.0 for row in rows),
        share_deviation=deviation(shares),
        share_error_max=max(errors, default=None),
        windows_within=sum(error <= tolerance for error in errors) if errors else None,
    )


def _device_ratios(job: str, before: Sequence[Sample], after: Sequence[Sample]) -> dict[str, float]:
    """Seconds that each target worked for a job in a second, between two samples of each server."""
    ratios: dict[str, float] = {}
    for earlier, later in zip(before, after, strict=True):
        if job in later.jobs and later.time_seconds > earlier.time_seconds:
            had = earlier.jobs[job].device_seconds if job in earlier.jobs else {}
            elapsed = later.time_seconds - earlier.time_seconds
            for device, seconds in later.jobs[job].device_seconds.items():
                ratios[device] = (seconds - had.get(device, 0.0)) / elapsed
    return ratios
