"""`weir top`: the present work of a store's jobs, interval by interval."""

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from weir.cli.common.asking import servers_up, warn_of_silence
from weir.cli.common.errors import FAILED
from weir.cli.common.history_options import MOMENT, history_option
from weir.cli.common.output import bold, output_option, share, sharing_name, show, table_lines
from weir.cli.common.parameters import Number
from weir.plain_text import plain
from weir.store.home import Home
from weir.store.observations import METADATA

if TYPE_CHECKING:
    from weir.cli.top.screen import Picture, View
    from weir.store.activity import Active, Interval
    from weir.store.control import Server

_HEADER = (
    "JOB",
    "USER",
    "NODES",
    "READ/S",
    "WRITTEN/S",
    "OP/S",
    "DEVICE",
    "OWED",
    "RECEIVED",
    "WAIT",
    "WAITS FOR",
)
_NAMES = 2
"""Columns of names, before those of figures."""
_DEVICES_LISTED_MAX = 8
"""Most devices listed one by one, as many as fit a line; of more the mean and the busiest are shown."""
_FIRST_COLUMN = _HEADER.index("DEVICE")
"""The column by which jobs are sorted at first."""


@click.command()
@click.option("--once", is_flag=True, help="Print one interval and end.")
@click.option(
    "--interval",
    "interval_seconds",
    type=Number(0.1, 3600),
    default=1.0,
    help="Seconds between two samples of the servers.",
)
@click.option("--at", type=MOMENT, help="Show this moment of the past, as `weir record` kept it.")
@history_option
@output_option
@click.pass_context
def top(
    context: click.Context,
    /,
    once: bool,
    interval_seconds: float,
    at: str | None,
    history: Path | None,
    output: str,
) -> int:
    """Show the work of jobs over the last interval: rates, and shares owed and received.

    DEVICE is the time that devices worked for the job, as a fraction of the interval. OWED and RECEIVED are shares of
    all device time that servers gave to jobs while this job was active on at least one server. WAIT is the mean time
    that a request waited for its turn. WAITS FOR is the job that received most device time while this one had
    requests queued, and that time.

    --at 14:02, 2h (ago) or yesterday shows a moment of the past, also of a store that is down. The interval is then
    at least as long as the history's resolution at that age.

    On a terminal the keys up and down choose a job and Enter opens its details, left and right sort by another column,
    r turns the order round, and q leaves. If standard output is no terminal, or with --output json, the command
    prints one interval and ends.
    """
    import os

    from weir.store.activity import interval, sample_of

    home: Home = context.obj
    if at is not None:
        from weir.cli.top.past import show_past

        return show_past(home, at, interval_seconds, history, output)
    if history is not None:
        raise click.UsageError("--history needs --at", context)
    servers = servers_up(home)
    if not once and output == "table" and sys.stdout.isatty() and os.environ.get("TERM", "dumb") != "dumb":
        _follow(servers, interval_seconds)
        return 0
    before = sample_of(servers)
    time.sleep(interval_seconds)
    after = sample_of(servers)
    for server in servers:
        if server.number in after.silent:
            warn_of_silence(home, server, after.silent[server.number])
    shown = interval(before, after)
    if output == "table":
        first, *lines = _headline(shown)
        print(bold(first), *lines, "", sep="\n")
    show(output, shown.document(), _HEADER, [_row(job) for job in shown.jobs])
    return FAILED if after.silent else 0


def _follow(servers: Sequence["Server"], interval_seconds: float) -> None:
    """Show interval after interval on the terminal until the user leaves."""
    from functools import partial

    from weir.cli.top.screen import Show, View, follow
    from weir.store.activity import interval, sample_of

    show = Show(
        sample=partial(sample_of, servers),
        interval=interval,
        jobs=_numbers,
        picture=_picture,
        columns=len(_HEADER),
    )
    follow(show, View(_FIRST_COLUMN), interval_seconds)


def _picture(shown: "Interval", view: "View") -> "Picture":
    """The jobs of an interval, or the details of one."""
    from weir.cli.top.screen import Picture

    head, jobs = _headline(shown), _ordered(shown, view)
    if view.is_open:
        title, *rows = _details(next((each for each in jobs if each.job.id == view.chosen), None))
        return Picture(head, title, rows)
    mark = "↓" if _is_falling(view) else "↑"
    titles = [f"{title}{mark}" if place == view.column else title for place, title in enumerate(_HEADER)]
    title, *rows = table_lines(titles, [_row(each) for each in jobs])
    chosen = next((place for place, each in enumerate(jobs) if each.job.id == view.chosen), None)
    return Picture(head, title, rows, chosen)


def _ordered(shown: "Interval", view: "View") -> "list[Active]":
    """The jobs by the chosen column: names from A to Z, figures from the greatest on, or the other way round."""
    return sorted(shown.jobs, key=lambda each: _figures(each)[view.column], reverse=_is_falling(view))


def _numbers(shown: "Interval", view: "View") -> list[str]:
    return [each.job.id for each in _ordered(shown, view)]


def _is_falling(view: "View") -> bool:
    return view.is_reversed != (view.column >= _NAMES)


def _figures(active: "Active") -> tuple[Any, ...]:
    """What jobs are sorted by, in the order of the columns; a figure that is missing is the least."""
    from weir.store.accounts import worst

    job, waited_for = active.job, worst(active.job)
    figures = (
        job.nodes,
        job.bytes_read,
        job.bytes_written,
        job.operations,
        job.device_seconds,
        job.share_owed,
        job.share_received,
        active.wait_seconds,
        waited_for[1] if waited_for else None,
    )
    return (job.job, job.user, *(-1 if figure is None else figure for figure in figures))


def _details(active: "Active | None") -> list[str]:
    """Everything about one job in an interval; the first line is its title."""
    from weir.cli.common.output import Quantity, seconds, share_or_dash

    if active is None:
        return ["the job does nothing now", "Escape goes back"]
    job, length = active.job, active.seconds
    waits = (job.queue_wait_seconds_median, job.queue_wait_seconds_p90, job.queue_wait_seconds_p99)
    since_begin = ", ".join(f"{part} {seconds(wait)}" for part, wait in zip(("50%", "90%", "99%"), waits, strict=True))
    devices = [
        (
            each.device,
            share(each.device_seconds / length),
            share_or_dash(each.share_owed),
            seconds(each.share_owed_for_seconds),
        )
        for each in sorted(job.devices, key=lambda each: -each.device_seconds)
    ]
    others = [
        (each.job, each.user, share(each.seconds / length))
        for each in sorted(job.waited_for, key=lambda each: -each.seconds)
        if each.seconds > 0
    ]
    further = job.waited_for_others_seconds / length
    lines = [
        f"{job.job} of {job.user} ({job.uid}) in {job.group}",
        f"{job.nodes} nodes, priority {job.priority}, {job.connections} connections, number {job.id}",
        *table_lines(_HEADER, [_row(active)]),
        "",
        f"waits since the job's begin: {since_begin}, longest {seconds(job.queue_wait_seconds_max)}",
        "",
        *table_lines(("DEVICE", "TIME", "OWED", "FOR"), devices),
        "",
        *table_lines(("WAITS FOR", "USER", "DEVICE TIME"), others or [("nobody", "-", Quantity("-"))]),
    ]
    return [plain(line) for line in (*lines, *([f"and for all others {share(further)}"] if further > 0 else []))]


def _headline(shown: "Interval") -> list[str]:
    """Policy, scheduler and the load of devices; a line for each server that does not answer."""
    differ = "policies that differ" if shown.up else "no answer"
    sharing = sharing_name(*shown.sharing) if shown.sharing else differ
    lines = [
        f"weir top  {time.strftime('%H:%M:%S')}  last {shown.seconds:.1f} s"
        f"  {len(shown.up)} of {len(shown.up) + len(shown.silent)} servers  {sharing}"
    ]
    for kind in ("targets", "metadata"):
        devices = [each for each in shown.devices if each.device.endswith(METADATA) == (kind == "metadata")]
        if len(devices) <= _DEVICES_LISTED_MAX:
            loads = "  ".join(f"{each.device} {share(each.load)} ({each.queued})" for each in devices)
        else:
            mean = sum(each.load for each in devices) / len(devices)
            busiest = max(devices, key=lambda each: each.load)
            queued = sum(each.queued for each in devices)
            loads = f"{len(devices)}: mean {share(mean)}, most {share(busiest.load)} ({busiest.device})"
            loads += f", {queued} queued"
        lines.append(f"{kind:<8}  {loads or 'none'}")
    return [plain(line) for line in [*lines, *(error.message for error in shown.silent.values())]]


def _row(active: "Active") -> tuple[object, ...]:
    from weir.cli.common.output import Quantity, name, seconds, share, share_or_dash, size
    from weir.store.accounts import worst

    job, length = active.job, active.seconds
    waited_for, waited = worst(job), active.wait_seconds
    return (
        name(job.job),
        name(job.user),
        job.nodes,
        size(job.bytes_read / length),
        size(job.bytes_written / length),
        Quantity(f"{job.operations / length:.0f}"),
        share(job.device_seconds / length),
        share_or_dash(job.share_owed),
        share_or_dash(job.share_received),
        seconds(waited) if waited is not None else Quantity("-"),
        f"{name(waited_for[0])} {share(waited_for[1] / length)}" if waited_for else "-",
    )
