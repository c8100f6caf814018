"""`weir jobs`: who uses a store, and what share each job gets."""

from typing import Any

import click

from weir.cli.home import Home
from weir.cli.output import output_option

_HEADER = (
    "JOB",
    "USER",
    "GROUP",
    "NODES",
    "PRIORITY",
    "ACTIVE",
    "OPERATIONS",
    "READ",
    "WRITTEN",
    "DEVICE TIME",
    "WAIT P50",
    "WAIT P99",
    "OWED",
    "RECEIVED",
)
_SUMMED = (
    "operations",
    "bytes_read",
    "bytes_written",
    "device_seconds",
    "contended_seconds",
    "owed_seconds",
    "received_seconds",
)
_WORST = ("queue_wait_seconds_median", "queue_wait_seconds_p99")
_SHARES = {"share_owed": "owed_seconds", "share_received": "received_seconds"}


@click.command()
@click.option("--all", "everyone", is_flag=True, help="Also jobs that are not active.")
@output_option
@click.pass_obj
def jobs(home: Home, everyone: bool, output: str) -> None:
    """Show the jobs that use the store.

    Numbers of several servers are summed; waits are those of the worst server. Shares are of the device time that all
    servers gave to anybody while the job was active.
    """
    from weir.cli.control import servers_of
    from weir.cli.home import find_cluster
    from weir.cli.output import show

    answers = [server.ask("GET", "/v1/jobs")["jobs"] for server in servers_of(find_cluster(home))]
    merged = [job for job in merge(answers) if everyone or job["active"]]
    show(output, merged, _HEADER, [_row(job) for job in merged])


def merge(answers: list[list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """One entry a job, from the entries of every server; the greatest user of device time first."""
    by_id: dict[str, list[dict[str, Any]]] = {}
    for answer in answers:
        for job in answer:
            by_id.setdefault(job["id"], []).append(job)
    merged = [_merge_job(entries) for entries in by_id.values()]
    return sorted(merged, key=lambda job: (-job["device_seconds"], job["id"]))


def _merge_job(entries: list[dict[str, Any]]) -> dict[str, Any]:
    job = dict(entries[0])
    job["active"] = any(entry["active"] for entry in entries)
    job["last_seen_seconds"] = min(entry["last_seen_seconds"] for entry in entries)
    for name in _SUMMED:
        job[name] = sum(entry[name] for entry in entries)
    for name in _WORST:
        job[name] = max(entry[name] for entry in entries)
    for share, part in _SHARES.items():
        contended = job["contended_seconds"]
        job[share] = job[part] / contended if contended > 0 else None
    return job


def _row(job: dict[str, Any]) -> tuple[object, ...]:
    from weir.cli.output import Quantity, seconds, share, size

    return (
        job["job"],
        job["user"],
        job["group"],
        job["nodes"],
        job["priority"],
        "yes" if job["active"] else "no",
        job["operations"],
        size(job["bytes_read"]),
        size(job["bytes_written"]),
        seconds(job["device_seconds"]),
        seconds(job["queue_wait_seconds_median"]),
        seconds(job["queue_wait_seconds_p99"]),
        share(job["share_owed"]) if job["share_owed"] is not None else Quantity("-"),
        share(job["share_received"]) if job["share_received"] is not None else Quantity("-"),
    )
