"""The convergence of the servers' shares: at first servers know only their own jobs, and an exchange later all jobs.

It is the delayed fairness of ThemisIO (SC'23, sections 3.1 and 5.6).
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from weir.experiments.jobs import Run
from weir.experiments.policies import shares_owed_by_device
from weir.experiments.windows import Row, Sample

_RIGHT = 0.005
"""Largest distance of a right weight from the exact one."""


@dataclass(frozen=True)
class Convergence:
    """The time until servers that first knew only their own jobs owed the shares that are right for the whole store.

    Times count from the moment of the first request. Exchanges count from the moment at which each server has met its
    own jobs: before, the system still wakes the jobs' processes, and there is nothing to exchange. An exchange that has
    begun counts whole, and its messages' time counts, too.
    """

    lambda_milliseconds: int
    """Interval of the exchange."""
    right_seconds: float | None
    """Time from which on every server owed the right shares; None if none was found."""
    met_seconds: float
    """Time of the last sample before the one in which the last server had met all of its own jobs."""
    exchanges: int | None
    """Number of exchanges from then until all shares were right."""
    share_error_max: float | None
    """Greatest distance of a job's share from the right one, over the second that followed."""


def convergence_of(run: Run, policy: str, rows: Sequence[Row], interval: int) -> Convergence:
    """Find the time from which the servers of a run owed the right shares, and the error of the shares after it.

    Args:
        run: Jobs with targets, which all begin at once, and polls of the servers.
        policy: A policy that owes shares.
        rows: The table of the run's windows.
        interval: Interval of the exchange, in milliseconds.

    Returns:
        The convergence; its figures are None where the servers never owed the right shares to the end.

    Raises:
        ValueError: The policy owes no shares.
    """
    right = shares_owed_by_device(policy, run.jobs, {job.name: job.targets for job in run.jobs})
    if right is None:
        raise ValueError(f"the policy {policy} owes no shares, so no weights are right")
    moment = right_since(run.polls, right)
    met = met_since(run.polls, right)
    if moment is None:
        return Convergence(interval, None, met, None, None)
    exchanges = math.ceil(max(moment - met, 0.0) / (interval / 1000))
    return Convergence(interval, moment, met, exchanges, _error_after(rows, moment))


def met_since(polls: Sequence[Sample], right: Mapping[str, Mapping[str, float]]) -> float:
    """Find the time until which a server had not met all of its own jobs.

    Args:
        polls: Samples of every server; samples before the first request do not count.
        right: The right share of each job, by device.

    Returns:
        Seconds from the first request: the time of the last sample before the one in which the last server knew all its
        jobs.
    """
    met = 0.0
    for device, shares in right.items():
        server = int(device.partition(".")[0])
        looks = [poll for poll in polls if poll.server == server and poll.time_seconds >= 0]
        for poll in looks:
            if _knows(poll, device, shares):
                break
            met = max(met, poll.time_seconds)
    return met


def right_since(polls: Sequence[Sample], right: Mapping[str, Mapping[str, float]]) -> float | None:
    """Find the time from which on every server owed the right shares.

    Args:
        polls: Samples of every server; samples before the first request do not count.
        right: The right share of each job, by device.

    Returns:
        Seconds from the first request; None where the last sample of a server owes other shares.
    """
    moment = 0.0
    for device, shares in right.items():
        server = int(device.partition(".")[0])
        looks = [poll for poll in polls if poll.server == server and poll.time_seconds >= 0]
        wrong = max((poll.time_seconds for poll in looks if not _owes(poll, device, shares)), default=-1.0)
        first = next((poll for poll in looks if poll.time_seconds > wrong), None)
        if first is None:
            return None
        owed_for = min(first.jobs[job].owed_for_seconds[device] for job in shares)
        moment = max(moment, first.time_seconds - owed_for, wrong)
    return moment


def _knows(poll: Sample, device: str, jobs: Iterable[str]) -> bool:
    """Whether each of `jobs` is active on a device."""
    return all(job in poll.jobs and poll.jobs[job].owed.get(device, 0.0) > 0.0 for job in jobs)


def _owes(poll: Sample, device: str, shares: Mapping[str, float]) -> bool:
    """Whether a server owes `shares` of a device."""
    return all(
        job in poll.jobs and abs(poll.jobs[job].owed.get(device, math.inf) - share) <= _RIGHT
        for job, share in shares.items()
    )


def _error_after(rows: Sequence[Row], moment: float) -> float | None:
    """Greatest distance of a job's share from its owed share, over the second of windows that begins at `moment`."""
    received: dict[str, float] = {}
    owed: dict[str, float] = {}
    for row in rows:
        if moment <= row.start_seconds + 1e-6 and row.start_seconds < moment + 1.0 and row.share_owed is not None:
            received[row.job] = received.get(row.job, 0.0) + row.device_ratio
            owed[row.job] = row.share_owed
    whole = sum(received.values())
    return max((abs(received[job] / whole - owed[job]) for job in owed), default=None) if whole else None
