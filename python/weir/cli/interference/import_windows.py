"""`weir interference import`: windows of Darshan logs, traces, and the files of others."""

from pathlib import Path

import click

from weir.cli.common.errors import warn
from weir.cli.common.interference_packages import needed
from weir.cli.common.output import output_option
from weir.cli.common.parameters import PATH, Number
from weir.cli.interference.window_output import TO, show_written


@click.command(name="import")
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=PATH)
@TO
@click.option(
    "--window",
    "window_seconds",
    type=Number(0.001, 3600),
    default=1.0,
    help="Length of the windows of Darshan logs, in seconds; windows of traces are as long as those of the store.",
)
@output_option
def import_windows(files: tuple[Path, ...], target: Path, window_seconds: float, output: str) -> None:
    """Import windows from Darshan logs, from traces, or from files that the interference paper's authors published.

    FILE is a log (.darshan) with traced accesses (DXT), a trace or folder of `weir run --trace`, or one of the
    authors' JSON files, also compressed by gzip. The folder of a JSON file is the workload's name. Windows of logs
    and traces have no counters of servers and no labels.
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
    show_written(output, {**counts, "file": str(target)})
