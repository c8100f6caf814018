"""`weir report`: one page about a job: what it was owed and received, what slowed it, and what to do."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from weir.cli.common.errors import say, warn
from weir.cli.common.history_options import MOMENT, history_option, opened, stretch
from weir.cli.common.output import output_option, show
from weir.cli.common.parameters import EXISTING_FILE, EXISTING_PATH, FILE, Number
from weir.cli.common.report_file import write_report
from weir.plain_text import plain
from weir.store.home import Home

if TYPE_CHECKING:
    from weir.report.facts import Facts
    from weir.report.findings import Finding


@click.command()
@click.argument("job", required=False)
@click.option("--user", help="The job's user, if several users have a job of this name.")
@click.option("--since", type=MOMENT, help="Start of the stretch of time.  [default: that of the job's last run]")
@click.option("--until", type=MOMENT, help="End of that stretch.  [default: now]")
@history_option
@click.option(
    "--trace",
    "traces",
    multiple=True,
    type=EXISTING_PATH,
    help="Traces of `weir run --trace`, of which the last run is reported; without JOB the report has the traces"
    " alone.",
)
@click.option("--darshan", type=EXISTING_FILE, help="A Darshan log in place of a job of the store.")
@click.option(
    "--windows",
    multiple=True,
    type=EXISTING_PATH,
    help="Recorded windows in place of a job of the store; JOB then names a run in them.",
)
@click.option(
    "--window", "window_seconds", type=Number(0.001, 3600), default=1.0, help=("Length of these windows, in seconds.")
)
@click.option(
    "--html", metavar="FILE", type=FILE, help=("Write the report as one HTML page, which loads no other file.")
)
@output_option
@click.pass_obj
def report(
    home: Home,
    job: str | None,
    user: str | None,
    since: str | None,
    until: str | None,
    history: Path | None,
    traces: tuple[Path, ...],
    darshan: Path | None,
    windows: tuple[Path, ...],
    window_seconds: float,
    html: Path | None,
    output: str,
) -> None:
    """Report what a job was owed and received, what slowed it, and what to do, the most valuable remedy first.

    JOB is a job of the store that `weir record` saw. The report covers its last run, or the time from --since to
    --until. With --trace the report also covers its files and single accesses. A Darshan log, traces or recorded
    windows also give a report without a store. `weir run --report FILE` watches a run and writes its report.

    Each finding has its number, an estimate of the time that it cost where there is one, its confidence, and a command
    that mends it. --html has figures, where matplotlib is installed.
    """  # fmt: skip
    from weir.report.rules import findings_of

    _check(job, darshan, traces, windows, is_timed=since is not None or until is not None)
    if darshan is not None:
        from weir.report import logged

        facts = logged.facts_of(darshan)
    elif windows:
        from weir.report import windowed

        facts = windowed.facts_of(windows, job, window_seconds)
    elif job is None:
        from weir.report import traced

        facts = traced.facts_of(traced.read(traces, note=warn), f"the traces in {', '.join(map(str, traces))}")
    else:
        facts = _stored(home, job, user, since, until, history, traces)
    findings = findings_of(facts)
    if html is not None:
        write_report(html, facts, findings)
        say(f"the page is {html}")
    _show(facts, findings, output)


def _check(
    job: str | None, darshan: Path | None, traces: Sequence[Path], windows: Sequence[Path], *, is_timed: bool
) -> None:
    """Refuse questions that have no answer, or two."""
    named = [name for name, value in (("--darshan", darshan), ("--windows", windows)) if value]
    if len(named) > 1 or (named and traces):
        raise click.UsageError(f"{' and '.join([*named, *(['--trace'] if traces else [])])} do not go together")
    if darshan is not None and job is not None:
        raise click.UsageError("a Darshan log is of one job, so JOB does not go with --darshan")
    if is_timed and (job is None or windows):
        raise click.UsageError("--since and --until are for a JOB of the store")
    if job is None and not (named or traces):
        raise click.UsageError("name a JOB, or give --darshan LOG, --trace DIR or --windows FILE")


def _stored(
    home: Home,
    job: str,
    user: str | None,
    since: str | None,
    until: str | None,
    history: Path | None,
    traces: Sequence[Path],
) -> "Facts":
    """Facts of a job of the store, with its traces where there are some."""
    from weir.report import stored, traced

    if until is not None and since is None:
        raise click.UsageError("--until needs --since")
    found = opened(home, history)
    try:
        between = None if since is None else stretch(since, until)
        facts = stored.facts_of(found, stored.stretch_of(found, job, user, between))
    finally:
        found.close()
    return traced.with_trace(facts, traced.read(traces, note=warn)) if traces else facts


def _show(facts: "Facts", findings: "Sequence[Finding]", output: str) -> None:
    from weir.report.words import document, lines_of

    if output != "table":
        show(output, document(facts, findings), (), ())
        return
    for line in lines_of(facts, findings):
        print(plain(line))
