"""The job tables of several servers as one, and the difference between two of them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from weir.store.answers import Job, WaitedFor

Times = dict[tuple[str, str, int], float]
"""Seconds by the name of a job, its user, and the number of the user."""

_COUNTED = (
    "operations",
    "bytes_read",
    "bytes_written",
    "charged_seconds",
    "device_seconds",
    "queue_wait_seconds_total",
    "contended_seconds",
    "owing_seconds",
    "owed_seconds",
    "received_seconds",
    "waited_for_others_seconds",
)
_SUMMED = ("connections", *_COUNTED)
_WORST = (
    "queue_wait_seconds_median",
    "queue_wait_seconds_p90",
    "queue_wait_seconds_p99",
    "queue_wait_seconds_max",
)


def merge(answers: Iterable[Sequence[Job]]) -> list[Job]:
    """Make one entry for each job, from the entries of all servers.

    Counts are added up. Waits are those of the worst server. Shares are parts of the device time that all servers gave
    to all jobs while the job was active at any of them.

    Args:
        answers: The job table of each server.

    Returns:
        The entries, the greatest user of device time first.
    """
    by_id: dict[str, list[Job]] = {}
    for answer in answers:
        for job in answer:
            by_id.setdefault(job.id, []).append(job)
    merged = [_merge_job(entries) for entries in by_id.values()]
    return sorted(merged, key=lambda job: (-job.device_seconds, job.id))


def difference(after: Sequence[Job], before: Sequence[Job]) -> list[Job]:
    """Make the entries of one server for the time between two of its answers.

    A new job counts from nothing. Shares, and the jobs that a job waited for, are those of this time. The distribution
    of waits (median and percentiles) stays that since the job's beginning.

    Args:
        after: The later job table.
        before: The earlier job table.

    Returns:
        An entry for each job of the later table.
    """
    earlier = {job.id: job for job in before}
    received: Times = {}
    gains: list[dict[str, Any]] = []
    for job in after:
        gained = _gained(job, earlier.get(job.id))
        gains.append(gained)
        _add(received, [WaitedFor(job.job, job.user, job.uid, gained["device_seconds"])], 1)
    return [
        replace(job, **gained, waited_for=_waited_since(job.waited_for, known.waited_for if known else (), received))
        for job, gained in zip(after, gains, strict=True)
        for known in (earlier.get(job.id),)
    ]


def worst(job: Job) -> tuple[str, float] | None:
    """Find the job that a job waited for most.

    Args:
        job: Entry of the waiting job.

    Returns:
        Name of the other job and the waited seconds; None where the job waited for no other.
    """
    greatest = max(job.waited_for, key=lambda entry: entry.seconds, default=None)
    return (greatest.job, greatest.seconds) if greatest and greatest.seconds > 0 else None


def _merge_job(entries: list[Job]) -> Job:
    times: Times = {}
    for entry in entries:
        _add(times, entry.waited_for, 1)
    sums = {name: sum(getattr(entry, name) for entry in entries) for name in _SUMMED}
    worsts = {name: max(getattr(entry, name) for entry in entries) for name in _WORST}
    return replace(
        entries[0],
        active=any(entry.active for entry in entries),
        last_seen_seconds=min(entry.last_seen_seconds for entry in entries),
        devices=tuple(device for entry in entries for device in entry.devices),
        waited_for=_listed(times),
        **sums,
        **worsts,
        **_shares(sums),
    )


def _gained(job: Job, earlier: Job | None) -> dict[str, Any]:
    """The fields of a job for the time since `earlier`, without the jobs that it waited for."""
    if earlier is None:
        counted = {name: getattr(job, name) for name in _COUNTED}
        return {**counted, **_shares(counted)}
    counted = {name: max(0, getattr(job, name) - getattr(earlier, name)) for name in _COUNTED}
    spent = {device.device: device.device_seconds for device in earlier.devices}
    devices = tuple(
        replace(device, device_seconds=device.device_seconds - spent.get(device.device, 0.0)) for device in job.devices
    )
    return {**counted, **_shares(counted), "devices": devices}


def _waited_since(later: Sequence[WaitedFor], earlier: Sequence[WaitedFor], received: Times) -> tuple[WaitedFor, ...]:
    """The jobs that a job waited for between two answers, each of which names a few jobs only.

    A job that the later answer alone names may have been waited for before, too, as one of the others. So its time is
    bounded by the time that it received between the answers.
    """
    times: Times = {}
    _add(times, later, 1)
    _add(times, [entry for entry in earlier if _key(entry) in times], -1)
    return _listed({key: min(seconds, received.get(key, 0.0)) for key, seconds in times.items()})


def _shares(counted: Mapping[str, Any]) -> dict[str, Any]:
    """The shares that follow from the counts of a job."""
    whole, owing = counted["contended_seconds"], counted["owing_seconds"]
    return {
        "share_owed": counted["owed_seconds"] / owing if owing > 0 else None,
        "share_received": counted["received_seconds"] / whole if whole > 0 else None,
    }


def _add(times: Times, entries: Iterable[WaitedFor], sign: int) -> None:
    for entry in entries:
        key = _key(entry)
        times[key] = times.get(key, 0.0) + sign * entry.seconds


def _listed(times: Times) -> tuple[WaitedFor, ...]:
    order = sorted(times, key=lambda key: (-times[key], key))
    return tuple(WaitedFor(*key, times[key]) for key in order if times[key] > 0)


def _key(entry: WaitedFor) -> tuple[str, str, int]:
    return entry.job, entry.user, entry.uid
