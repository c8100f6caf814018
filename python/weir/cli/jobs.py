"""`weir jobs`: the jobs of a store, their shares, and the jobs that they wait for, now or in a stretch of the past."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from weir.cli.common.errors import FAILED
from weir.cli.common.history_options import MOMENT, history_option, opened, stretch, warn_of_gaps
from weir.cli.common.output import name, output_option, seconds, share_or_dash, show, size
from weir.store.home import Home

if TYPE_CHECKING:
    from weir.history.reading import JobPast
    from weir.store.answers import Job

_HEADER = (
    "JOB",
    "USER",
    "NODES",
    "READ",
    "WRITTEN",
    "DEVICE",
    "CHARGED",
    "OWED",
    "RECEIVED",
    "WAIT P90",
    "WAIT P99",
    "WAITS FOR",
)
_CODES = (
    *("server-down", "server-silent", "server-unproven", "identity-refused", "version-differs"),
    "job-blocked",
)
"""Codes of findings that are told: those of servers without an answer, and of jobs."""
_PAST_HEADER = ("JOB", "USER", "NODES", "READ", "WRITTEN", "DEVICE", "OWED", "RECEIVED", "WAITED", "WAITED FOR")


@click.command()
@click.option("--all", "everyone", is_flag=True, help="Also show jobs that are not active.")
@click.option("--since", type=MOMENT, help="Show past jobs from this moment on, as `weir record` kept them.")
@click.option("--until", type=MOMENT, help="End of that stretch of time.  [default: now]")
@history_option
@output_option
@click.pass_context
def jobs(
    context: click.Context,
    /,
    everyone: bool,
    since: str | None,
    until: str | None,
    history: Path | None,
    output: str,
) -> int:
    """Show the jobs that use the store.

    DEVICE is the measured time that targets and metadata services worked for the job. CHARGED is the time that the
    job's requests were expected to take. OWED and RECEIVED are shares of all device time that servers gave to jobs
    while this job was active on at least one server. WAIT is the time that a request waits for its turn, on the
    server where it waits longest. WAITS FOR is the job that received most device time while this one had requests
    queued, and that time. --output json has more. The policy fifo owes no shares. While a lease of `weir guard` is in
    force, LEASE shows its terms for each job, to users who can read the site's key. While a server does not answer,
    FINDING shows the code of `weir health` for each job that may wait for that server, and the exit code is 1.

    --since 14:00, yesterday, 2h, 3d or 2026-03-01T14:00 shows the same of the past, also of a store that is down.
    WAITED is then the device time that other jobs received while the job had requests queued. Times that were not
    recorded are shown as gaps.
    """
    home: Home = context.obj
    if since is not None:
        return _show_past(home, *stretch(since, until), history, output)
    if until is not None or history is not None:
        raise click.UsageError("--until and --history need --since", context)
    from weir.cli.common.findings import warn_of
    from weir.cli.common.leases import tell_leases, terms_of, terms_words
    from weir.health import gather, job_words, judge
    from weir.store.accounts import merge
    from weir.store.control import TIMEOUT_SECONDS
    from weir.store.decoding import encode

    facts = gather(home, TIMEOUT_SECONDS, with_hosts=False)
    known = [each.jobs for each in facts.servers if each.jobs is not None]
    leases = {each.server.number: each.lease for each in facts.servers if each.lease and each.lease.is_leased}
    found = [each for each in judge(facts) if each.code in _CODES]
    blocked = {each.object for each in found}
    merged = [job for job in merge(known) if everyone or job.active or job_words(job) in blocked]
    terms = [terms_of(job, leases) for job in merged]
    header: tuple[str, ...] = _HEADER
    rows = [_row(job) for job in merged]
    if everyone:
        header += ("ACTIVE",)
        rows = [(*row, "yes" if job.active else "no") for row, job in zip(rows, merged, strict=True)]
    if leases:
        header += ("LEASE",)
        rows = [(*row, terms_words(each)) for row, each in zip(rows, terms, strict=True)]
    codes = [[each.code for each in found if each.object == job_words(job)] for job in merged]
    if any(codes):
        header += ("FINDING",)
        rows = [(*row, " ".join(own) or "-") for row, own in zip(rows, codes, strict=True)]
    document = [
        {**encode(job), "lease": None if each is None else encode(each), "findings": own}
        for job, each, own in zip(merged, terms, codes, strict=True)
    ]
    show(output, document, header, rows)
    tell_leases(leases)
    warn_of(found)
    return 0 if len(known) == len(facts.servers) else FAILED


def _row(job: "Job") -> tuple[object, ...]:
    from weir.store.accounts import worst

    waited_for = worst(job)
    return (
        name(job.job),
        name(job.user),
        job.nodes,
        size(job.bytes_read),
        size(job.bytes_written),
        seconds(job.device_seconds),
        seconds(job.charged_seconds),
        share_or_dash(job.share_owed),
        share_or_dash(job.share_received),
        seconds(job.queue_wait_seconds_p90),
        seconds(job.queue_wait_seconds_p99),
        f"{name(waited_for[0])} {seconds(waited_for[1])}" if waited_for else "-",
    )


def _show_past(home: Home, since: int, until: int, history: Path | None, output: str) -> int:
    """Show the jobs of a stretch of time, in Unix milliseconds."""
    from dataclasses import asdict

    found = opened(home, history)
    try:
        past, gaps = found.jobs(since, until), found.gaps(since, until)
        decisions = found.decisions(since, until)
    finally:
        found.close()
    warn_of_gaps(gaps)
    document = {
        "since": since / 1000,
        "until": until / 1000,
        "jobs": [asdict(job) for job in past],
        "gaps": [{"server": gap.server, "since": gap.begin / 1000, "until": gap.end / 1000} for gap in gaps],
        "decisions": [{**asdict(change), "at": change.at / 1000} for change in decisions],
    }
    show(output, document, _PAST_HEADER, [_past_row(job) for job in past])
    return 0


def _past_row(job: "JobPast") -> tuple[object, ...]:
    longest = next(iter(job.culprits), None)
    return (
        name(job.job) if job.job else "(further)",
        name(job.user) if job.user else "-",
        "-" if job.nodes is None else job.nodes,
        size(job.read_bytes),
        size(job.written_bytes),
        seconds(job.device_seconds),
        share_or_dash(job.share_owed),
        share_or_dash(job.share_received),
        seconds(job.waited_seconds),
        f"{name(longest[0])} {seconds(longest[2])}" if longest else "-",
    )
