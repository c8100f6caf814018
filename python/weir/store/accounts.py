"""The job tables of several servers as one, and what happened between two of them."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

Job = dict[str, Any]
"""One entry of `/v1/jobs`, of one server or of all together."""
Waited = dict[str, Any]
"""One entry of `waited_for`: job, user and seconds."""
Times = dict[tuple[str, str], float]
"""Seconds by name and user of a job."""

_COUNTED = (
    "operations",
    "bytes_read",
    "bytes_written",
    "charged_seconds",
    "device_seconds",
    "queue_wait_seconds_total",
    "contended_seconds",
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
_SHARES = {"share_owed": "owed_seconds", "share_received": "received_seconds"}


def merge(answers: Iterable[Sequence[Job]]) -> list[Job]:
    """One entry a job, from the entries of every server; the greatest user of device time first.

    What is counted is summed, waits are those of the worst server, and shares are of the device time that all servers
    gave to anybody while the job was active.
    """
    by_id: dict[str, list[Job]] = {}
    for answer in answers:
        for job in answer:
            by_id.setdefault(job["id"], []).append(job)
    merged = [_merge_job(entries) for entries in by_id.values()]
    return sorted(merged, key=lambda job: (-job["device_seconds"], job["id"]))


def difference(after: Sequence[Job], before: Sequence[Job]) -> list[Job]:
    """The entries of one server for the time between two of its answers.

    A job that is new counts from nothing. Shares, and whom it waited for, are those of this time; the distribution of
    waits (median and percentiles) is left as it is, since the job's beginning.
    """
    earlier = {job["id"]: job for job in before}
    since = [_since(job, earlier.get(job["id"])) for job in after]
    received: Times = {}
    for job in since:
        _add(received, [{**job, "seconds": job["device_seconds"]}], 1)
    for job, later in zip(since, after, strict=True):
        known = earlier.get(job["id"])
        job["waited_for"] = _waited_since(later["waited_for"], known["waited_for"] if known else [], received)
    return since


def worst(job: Job) -> tuple[str, float] | None:
    """The job that this one waited for most and the seconds, or None where it waited for nobody."""
    greatest = max(job["waited_for"], key=lambda entry: entry["seconds"], default=None)
    return (greatest["job"], greatest["seconds"]) if greatest and greatest["seconds"] > 0 else None


def _merge_job(entries: list[Job]) -> Job:
    job = dict(entries[0])
    job["active"] = any(entry["active"] for entry in entries)
    job["last_seen_seconds"] = min(entry["last_seen_seconds"] for entry in entries)
    for name in _SUMMED:
        job[name] = sum(entry[name] for entry in entries)
    for name in _WORST:
        job[name] = max(entry[name] for entry in entries)
    job["devices"] = [device for entry in entries for device in entry["devices"]]
    times: Times = {}
    for entry in entries:
        _add(times, entry["waited_for"], 1)
    job["waited_for"] = _listed(times)
    return _with_shares(job)


def _since(job: Job, earlier: Job | None) -> Job:
    """What a job did since `earlier`, but for whom it waited."""
    since = dict(job)
    if earlier is not None:
        for name in _COUNTED:
            since[name] = max(0, job[name] - earlier[name])
        spent = {device["device"]: device["device_seconds"] for device in earlier["devices"]}
        since["devices"] = [
            {**device, "device_seconds": device["device_seconds"] - spent.get(device["device"], 0.0)}
            for device in job["devices"]
        ]
    return _with_shares(since)


def _waited_since(later: list[Waited], earlier: list[Waited], received: Times) -> list[Waited]:
    """Whom a job waited for between two answers, which both name a few jobs only.

    One that the later answer alone names was waited for before, too, as one of the others. So each is bounded by what
    it received in this time.
    """
    times: Times = {}
    _add(times, later, 1)
    _add(times, [entry for entry in earlier if (entry["job"], entry["user"]) in times], -1)
    return _listed({key: min(seconds, received.get(key, 0.0)) for key, seconds in times.items()})


def _with_shares(job: Job) -> Job:
    for share, part in _SHARES.items():
        contended = job["contended_seconds"]
        job[share] = job[part] / contended if contended > 0 else None
    return job


def _add(times: Times, entries: Iterable[Mapping[str, Any]], sign: int) -> None:
    for entry in entries:
        key = (entry["job"], entry["user"])
        times[key] = times.get(key, 0.0) + sign * entry["seconds"]


def _listed(times: Times) -> list[Waited]:
    order = sorted(times, key=lambda key: (-times[key], key))
    return [{"job": job, "user": user, "seconds": times[job, user]} for job, user in order if times[job, user] > 0]
