"""`weir interference import` and `weir interference join`: data sets of windows from other files, and of parts."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from weir.cli.errors import warn
from weir.cli.interference_packages import needed
from weir.cli.output import output_option, show
from weir.cli.parameters import FILE, PATH, Checked, Number

_file = FILE
_to = click.option("--to", "target", required=True, type=_file, help="The data set that is written.")


def _read_name(text: str) -> tuple[str, str]:
    """Read `NAME=SERVER`."""
    name, is_given, server = text.partition("=")
    if not (name and is_given and server):
        raise ValueError(f"{text!r} is no pair of names such as files=sda")
    return name, server


@click.command(name="import")
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=PATH)
@_to
@click.option(
    "--window",
    "window_seconds",
    type=Number(0.001, 3600),
    default=1.0,
    help="Length of the windows of Darshan logs, in seconds; traces have that of their store.",
)
@output_option
def import_windows(files: tuple[Path, ...], target: Path, window_seconds: float, output: str) -> None:
    """Import windows from Darshan logs, from traces, or from files that the interference paper's authors published.

    FILE is a log (.darshan) with traced accesses (DXT), or a trace or folder of `weir run --trace`. Their windows have
    no counters of servers and no labels. Or FILE is one of the authors' JSON files, also compressed by gzip, whose
    folder is the workload's name.
    """
    needed("numpy", "pyarrow")
    from weir.interference import dxt, quanterference, traces
    from weir.interference.windows import of_rows, write, write_rows

    logs = [file for file in files if dxt.is_log(file)]
    traced = [file for file in files if traces.is_trace(file)]
    if not logs and not traced:
        windows = quanterference.read_windows(files)
        write(windows, target)
    elif len(files) not in (len(logs), len(traced)):
        raise click.UsageError("Darshan logs, traces and other files go into different data sets")
    else:
        rows = dxt.read_rows(logs, window_seconds) if logs else traces.read_rows(traced, note=warn)
        windows = of_rows(rows)
        write_rows(rows, target)
    counts = {"windows": len(windows), "runs": len(set(windows.runs)), "workloads": len(set(windows.workloads))}
    _show(output, {**counts, "file": str(target)})


@click.command()
@click.argument("data", metavar="JOBS...", nargs=-1, required=True, type=PATH)
@click.option(
    "--servers",
    "servers",
    required=True,
    multiple=True,
    type=PATH,
    help="Windows of servers, as of `weir stats windows` or `weir interference record`; repeat for more.",
)
@click.option(
    "--server",
    "names",
    metavar="NAME=SERVER",
    multiple=True,
    type=Checked("names", _read_name),
    help="Server of which the jobs' windows speak by another name, such as files=sda; repeat for more.",
)
@_to
@output_option
def join(data: tuple[Path, ...], servers: tuple[Path, ...], names: tuple[str, ...], target: Path, output: str) -> None:
    """Join windows of jobs with those of servers, by the number of the window and the server's name.

    JOBS are data sets of `weir run --observe`, of Darshan logs or of traces. OST0003 stands for the server whose name
    ends so.
    """
    needed("numpy", "pyarrow")
    from weir.interference import joining
    from weir.interference.windows import has_simulated, read_rows, write_rows

    joined = joining.join(read_rows(data), read_rows(servers), dict(_read_name(each) for each in names))
    write_rows(joined.rows, target, is_simulated=has_simulated((*data, *servers)))
    if joined.without_server:
        warn(f"{joined.without_server} rows of jobs have no window of their server, and are left out")
    _show(output, {"rows": len(joined.rows), "left_out": joined.without_server, "file": str(target)})


def _show(output: str, document: dict[str, Any]) -> None:
    headings: Sequence[str] = [name.replace("_", " ").upper() for name in document]
    show(output, document, tuple(headings), [tuple(document.values())])
