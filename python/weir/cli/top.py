"""`weir top`: the present work of a store's jobs, interval by interval."""

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from weir.cli.asking import servers_up, warn_of_silence
from weir.cli.errors import FAILED
from weir.cli.history_options import MOMENT, history_option
from weir.cli.output import bold, output_option, share, sharing_name, show, table_lines
from weir.cli.parameters import Number
from weir.plain_text import plain
from weir.store.home import Home
from weir.store.observations import METADATA

if TYPE_CHECKING:
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
_DEVICES_LISTED_MAX = 8
"""Most devices listed one by one, as many as fit a line; of more the mean and the busiest are shown."""
_ENTER = "\x1b[?1049h\x1b[?25l"
"""The terminal's other screen, without a cursor (xterm, "Private Modes"); its own is as it was after `_LEAVE`."""
_LEAVE = "\x1b[?25h\x1b[?1049l"
_HOME, _END_OF_LINE, _END_OF_SCREEN = "\x1b[H", "\x1b[K", "\x1b[J"


@click.command()
@click.option("--once", is_flag=True, help="Print one interval and end.")
@click.option(
    "--interval",
    "interval_seconds",
    type=Number(0.1, 3600),
    default=1.0,
    help="Seconds between two samples of the servers.",
)
@click.option("--at", type=MOMENT, help="Show that moment of the past, as `weir record` kept it.")
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
    """Show the present work of jobs: rates, and shares owed and received, over the last interval.

    DEVICE is the time that devices worked for the job, as a part of the interval. OWED and RECEIVED are shares of the
    device time that all servers gave to all jobs while the job was active at any of them. WAIT is the mean time that a
    request waited for its turn. WAITS FOR is the job that received most while this one had requests queued, with the
    device time it received meanwhile.

    --at 14:02, 2h (ago) or yesterday shows a moment of the past, also of a store that is down. The interval then is as
    long as what the history keeps of that age, if that is longer.

    End it with Ctrl-C. Where standard output is no terminal, or with --output json, it prints one interval and ends.
    """
    import os

    from weir.store.activity import interval, sample_of

    home: Home = context.obj
    if at is not None:
        from weir.cli.top_past import show_past

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
    """Show interval after interval on the terminal until Ctrl-C, and leave it as it was."""
    from weir.store.activity import interval, sample_of

    before = sample_of(servers)
    _write(_ENTER)
    try:
        _write(f"{_HOME}the first interval ends in {interval_seconds:g} s{_END_OF_SCREEN}")
        due = before.time_seconds
        while True:
            # Samples lie on a grid, so that slow servers do not stretch intervals, but never without a pause.
            due = max(due + interval_seconds, time.monotonic() + interval_seconds / 10)
            time.sleep(due - time.monotonic())
            after = sample_of(servers)
            _write(_frame(interval(before, after)))
            before = after
    except KeyboardInterrupt:
        pass
    finally:
        _write(_LEAVE)


def _frame(shown: "Interval") -> str:
    """One picture. It is drawn over the one before without clearing it first, so that nothing flickers."""
    import shutil

    size = shutil.get_terminal_size()
    headline = _headline(shown)
    title, *rows = table_lines(_HEADER, [_row(job) for job in shown.jobs])
    lines = [*headline, "", title, *rows][: size.lines - 1]
    cut = [line[: size.columns] for line in lines]
    decorated = [bold(line) if index in (0, len(headline) + 1) else line for index, line in enumerate(cut)]
    return _HOME + "".join(f"{line}{_END_OF_LINE}\n" for line in decorated) + _END_OF_SCREEN


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
    from weir.cli.output import Quantity, name, seconds, share, share_or_dash, size
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


def _write(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()
