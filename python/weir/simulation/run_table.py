"""Simulated runs as tables for notebooks."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from weir.amounts import Quantity, rate_text, seconds, share_or_dash, size
from weir.html_table import html_table

if TYPE_CHECKING:
    from weir.simulation.figures import JobFigures
    from weir.simulation.outcome import JobOutcome, Outcome
    from weir.simulation.records import Record

_WORK = ("ended", "read", "written", "rate", "device time")


def outcome_html(outcome: "Outcome") -> str:
    """Show an outcome as HTML, with its jobs by their places in the workload."""
    rows = [(number, *_work(job)) for number, job in enumerate(outcome.jobs)]
    return html_table(_title("Simulated run", outcome), ("job", *_WORK), rows)


def record_html(record: "Record") -> str:
    """Show a run with its settings and the figures of its jobs as HTML."""
    settings = ("policy", "scheduler", "allocator", "servers", "targets")
    notes = [", ".join(f"{name} {record.settings[name]}" for name in settings if record.settings.get(name))]
    header = ("job", "user", "nodes", *_WORK, "owed", "received", "slowdown of I/O")
    return html_table(_title(record.name, record.outcome), header, [_job(job) for job in record.jobs], notes=notes)


def _title(name: str, outcome: "Outcome") -> str:
    ending = "" if outcome.is_complete else ", which did not end"
    return f"{name}: {len(outcome.jobs)} jobs in {seconds(outcome.seconds)} of virtual time{ending}"


def _job(job: "JobFigures") -> Sequence[object]:
    slowdown = None if job.io_slowdown is None else Quantity(f"{job.io_slowdown:.2f}")
    shares = (share_or_dash(job.share_owed), share_or_dash(job.share_received))
    return (job.name, job.user, job.nodes, *_work(job.outcome), *shares, slowdown)


def _work(job: "JobOutcome") -> Sequence[object]:
    rate = job.bytes_per_second
    return (
        *(seconds(job.ended_seconds), size(job.read_bytes), size(job.written_bytes)),
        *(None if rate is None else Quantity(rate_text(rate)), seconds(job.device_seconds)),
    )
