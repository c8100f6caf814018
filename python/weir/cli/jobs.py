"""`weir jobs`: the jobs of a store, their shares, and the jobs that they wait for."""

from typing import TYPE_CHECKING

import click

from weir.cli.errors import FAILED
from weir.cli.output import name, output_option, seconds, share_or_dash, show, size
from weir.store.home import Home

if TYPE_CHECKING:
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


@click.command()
@click.option("--all", "everyone", is_flag=True, help="Show also jobs that are not active.")
@output_option
@click.pass_obj
def jobs(home: Home, everyone: bool, output: str) -> int:
    """Show the jobs that use the store.

    DEVICE is the time that targets and metadata services really worked for the job. CHARGED is the time that its
    requests were expected to take. OWED and RECEIVED are shares of the device time that all servers gave to all jobs
    while the job was active at any of them. WAIT is the time that a request waits for its turn, on the worst server.
    WAITS FOR is the job that received most while this one had requests queued, with the device time it received
    meanwhile. --output json has more. The policy fifo owes no shares. While a lease of `weir guard` is in force, LEASE
    has the terms of each job under it, for who can read the site's key. The exit code is 1 where a server does not
    answer.
    """
    from weir.cli.asking import ask_store
    from weir.cli.leases import leases_of, tell_leases, terms_of, terms_words
    from weir.store.accounts import merge
    from weir.store.control import Server
    from weir.store.decoding import encode

    answers = ask_store(home, Server.jobs)
    known = [table for _, table in answers if table is not None]
    leases = leases_of(server for server, table in answers if table is not None)
    merged = [job for job in merge(known) if everyone or job.active]
    terms = [terms_of(job, leases) for job in merged]
    header: tuple[str, ...] = _HEADER
    rows = [_row(job) for job in merged]
    if everyone:
        header += ("ACTIVE",)
        rows = [(*row, "yes" if job.active else "no") for row, job in zip(rows, merged, strict=True)]
    if leases:
        header += ("LEASE",)
        rows = [(*row, terms_words(each)) for row, each in zip(rows, terms, strict=True)]
    document = [
        {**encode(job), "lease": None if each is None else encode(each)}
        for job, each in zip(merged, terms, strict=True)
    ]
    show(output, document, header, rows)
    tell_leases(leases)
    return 0 if len(known) == len(answers) else FAILED


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
