"""How servers that first know only their own jobs come to owe what is right for the whole store.

The delayed fairness of ThemisIO (SC'23, sections 3.1 and 5.6).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from weir.experiments.jobs import Run
from weir.experiments.policies import shares_owed_by_device
from weir.experiments.windows import Row, Sample

_RIGHT = 0.005
"""A weight is right when it is this close."""


@dataclass(frozen=True)
class Exchange:
    """How servers that first know only their own jobs came to owe what is right for the whole store."""

    lambda_milliseconds: int
    right_seconds: float | None
    """When every server owed what is right and did not owe anything else later; None if never in the time watched."""
    exchanges: int | None
    """Intervals until then, begun ones as whole."""
    poll_seconds: float | None
    """Mean time between two looks: how well `right_seconds` is known."""
    share_error_max: float | None
    """Greatest distance of a job's share from the right one, over the second that followed."""


def exchange_of(run: Run, policy: str, rows: Sequence[Row], interval: int) -> Exchange:
    """When the servers of a run came to owe what is right, and what the jobs received then.

    Args:
        run: Jobs with targets, that all begin at once, and polls of the servers.
        policy: A policy that owes shares.
        rows: The table of the run's windows.
        interval: That of the exchange, in milliseconds.
    """
    right = shares_owed_by_device(policy, run.jobs, {job.name: job.targets for job in run.jobs})
    if right is None:
        raise ValueError(f"policy {policy} owes nothing, so there are no right weights")
    moment = moment_of_right_weights(run.polls, right)
    looks = sorted(poll.time_seconds for poll in run.polls if poll.server == 0)
    return Exchange(
        lambda_milliseconds=interval,
        right_seconds=moment,
        exchanges=None if moment is None else math.ceil(moment / (interval / 1000)),
        poll_seconds=(looks[-1] - looks[0]) / (len(looks) - 1) if len(looks) > 1 else None,
        share_error_max=None if moment is None else _error_after(rows, moment),
    )


def moment_of_right_weights(polls: Sequence[Sample], right: Mapping[str, Mapping[str, float]]) -> float | None:
    """The time from which on every server said that it owes what is right, by its samples; None if it never did.

    Args:
        polls: Samples of every server; those that come before the first request say nothing.
        right: The right share of each job, by device.
    """
    moment = None
    for device, shares in right.items():
        server = int(device.partition(".")[0])
        since = None
        for poll in sorted(polls, key=lambda poll: poll.time_seconds):
            if poll.server != server or poll.time_seconds < 0:
                continue
            if not _owes(poll, device, shares):
                since = None
            elif since is None:
                since = poll.time_seconds
        if since is None:
            return None
        moment = since if moment is None else max(moment, since)
    return moment


def _owes(poll: Sample, device: str, shares: Mapping[str, float]) -> bool:
    """Whether a server owes `shares` of a device."""
    return all(
        job in poll.jobs and abs(poll.jobs[job].owed.get(device, math.inf) - share) <= _RIGHT
        for job, share in shares.items()
    )


def _error_after(rows: Sequence[Row], moment: float) -> float | None:
    """Greatest distance of a job's share from what it is owed, over the second of windows that begins at `moment`."""
    received: dict[str, float] = {}
    owed: dict[str, float] = {}
    for row in rows:
        if moment <= row.start_seconds + 1e-6 and row.start_seconds < moment + 1.0 and row.share_owed is not None:
            received[row.job] = received.get(row.job, 0.0) + row.device_ratio
            owed[row.job] = row.share_owed
    whole = sum(received.values())
    return max((abs(received[job] / whole - owed[job]) for job in owed), default=None) if whole else None
