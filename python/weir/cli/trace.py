"""`weir trace`: the records of `weir run --trace`."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from weir.cli.common.errors import CommandError, warn
from weir.cli.common.listing import Listing
from weir.cli.common.output import name, output_option, print_table, seconds, show, size
from weir.cli.common.parameters import EXISTING_PATH, FILE
from weir.distribution import install_command

if TYPE_CHECKING:
    from weir.tracing.files import TracedProcess
    from weir.tracing.records import Creation, Run
    from weir.tracing.windows import TracedWindows

_FORMATS = {".csv": "CSV", ".parquet": "Parquet"}
_LOG = ".darshan"
"""Ending of the names of Darshan logs."""


@click.group(cls=Listing)
def trace() -> None:
    """Show or export the files that recorded runs made, and show their requests to the store.

    PATH is a directory that `weir run --trace` filled, a single trace, or a Darshan log.
    """


@trace.command(name="show")
@click.argument("paths", metavar="PATH...", nargs=-1, required=True, type=EXISTING_PATH)
@click.option("--runs", "runs_only", is_flag=True, help="Show the runs without their files.")
@output_option
def show_traces(paths: tuple[Path, ...], runs_only: bool, output: str) -> None:
    """Show runs and the files that they made.

    KIND is `created`, `truncated` (the file existed and lost its bytes) or `overwritten` (it existed and kept them).
    RANK is the MPI rank that made it; WRITERS is the number of ranks that wrote it. SIZE is the offset after the last
    byte written.
    """
    runs = _runs(paths)
    if output != "table":
        show(output, [_document(run, runs_only) for run in runs], (), ())
        return
    print_table(("RUN", "PROGRAM", "RANKS", "STARTED", "SECONDS", "FILES", "WRITTEN"), _run_rows(runs))
    if not runs_only and any(run.creations or run.overwritten for run in runs):
        print()
        print_table(("RUN", "RANK", "ORDER", "KIND", "SIZE", "WRITTEN", "WRITERS", "LAYOUT", "PATH"), _file_rows(runs))


@trace.command(name="export")
@click.argument("paths", metavar="PATH...", nargs=-1, required=True, type=EXISTING_PATH)
@click.option(
    "--to", "target", required=True, type=FILE, help="The file to write, whose name ends with .csv or .parquet."
)
def export_traces(paths: tuple[Path, ...], target: Path) -> None:
    """Write the files of all runs as one table, a row for each."""
    from weir.tracing.export import write_csv, write_parquet

    kind = _FORMATS.get(target.suffix.lower())
    if kind is None:
        raise click.UsageError(f"--to {target}: its name must end with {' or '.join(_FORMATS)}")
    runs = _runs(paths)
    try:
        (write_csv if kind == "CSV" else write_parquet)(runs, target)
    except ImportError as error:
        raise CommandError(
            "pyarrow is not installed", hint=f"{install_command('placement')}, or export as CSV"
        ) from error


@trace.command(name="windows")
@click.argument("paths", metavar="PATH...", nargs=-1, required=True, type=EXISTING_PATH)
@click.option("--processes", "is_each", is_flag=True, help="Show each process by itself.")
@output_option
def show_windows(paths: tuple[Path, ...], is_each: bool, output: str) -> None:
    """Show the requests of recorded runs to the store, by device and window of time.

    PATH is a directory that `weir run --trace` filled, or a single trace. The windows are those of `weir interference
    clients`, and have the numbers of the servers' windows. IOPS counts reads, writes and metadata operations
    together.
    """
    from weir.cli.common import client_lines
    from weir.tracing.files import combined, read_processes

    documents: list[dict[str, object]] = []
    rows: list[Sequence[object]] = []
    runs = [(combined(processes), processes) for processes in read_processes(paths, note=warn)]
    for number, (run, processes) in enumerate(sorted(runs, key=lambda pair: pair[0].started)):
        for traced, windows in _windows_of(processes, is_each):
            place = {} if traced is None else _place(traced)
            documents.append(
                {"run": number, "program": run.program, "started": run.started} | place | _counted(windows)
            )
            of_row = [number, name(run.program), *("-" if each is None else each for each in place.values())]
            rows += [(*of_row, *client_lines.cells(line, windows.window_seconds)) for line in windows.lines]
    headings = ("RUN", "PROGRAM", *(("NODE", "PROCESS", "RANK") if is_each else ()), *client_lines.HEADINGS)
    show(output, documents, headings, rows)


def _windows_of(
    processes: "Sequence[TracedProcess]", is_each: bool
) -> "Iterator[tuple[TracedProcess | None, TracedWindows]]":
    """The windows of a run: of each process with the process, or of all together without one."""
    from weir.tracing.windows import summed, windows_of

    each = ((traced, windows_of(traced, note=warn)) for traced in processes)
    counted = ((traced, windows) for traced, windows in each if windows is not None)
    if is_each:
        yield from sorted(counted, key=lambda pair: pair[0].process["started"])
    else:
        yield from ((None, windows) for windows in summed(windows for _, windows in counted))


def _place(traced: "TracedProcess") -> dict[str, object]:
    return {"node": traced.process["node"], "process": traced.process["process"], "rank": traced.process["rank"]}


def _counted(windows: "TracedWindows") -> dict[str, object]:
    from dataclasses import asdict

    document = asdict(windows)
    # The number of a store only keeps stores apart.
    del document["store"]
    return document


def _runs(paths: Sequence[Path]) -> "list[Run]":
    from weir.tracing.files import read_runs

    logs = [path for path in paths if path.suffix == _LOG]
    traces = [path for path in paths if path.suffix != _LOG]
    runs = read_runs(traces, note=warn)
    return sorted([*runs, *_logged_runs(logs)], key=lambda run: run.started)


def _logged_runs(logs: Sequence[Path]) -> "list[Run]":
    from weir.tracing.darshan import DarshanError, read_logs

    runs = []
    for path, log in read_logs(logs):
        if isinstance(log, DarshanError):
            raise log
        if log.incomplete:
            warn(f"{path}: Darshan's {', '.join(log.incomplete)} ran out of memory, so files are missing")
        runs.append(log.run)
    return runs


def _document(run: "Run", runs_only: bool) -> dict[str, object]:
    from dataclasses import asdict

    document = asdict(run)
    # The creations tell the last names already, and numbers of processes mean nothing after the run.
    del document["makings"], document["process_numbers"]
    if runs_only:
        del document["creations"], document["overwritten"]
    return document


def _run_rows(runs: "Sequence[Run]") -> list[tuple[object, ...]]:
    from datetime import datetime

    from weir.prediction.context import title

    rows: list[tuple[object, ...]] = []
    for number, run in enumerate(runs):
        files = (*run.creations, *run.overwritten)
        rows.append(
            (
                number,
                name(title(run.program, run.arguments)),
                run.ranks,
                datetime.fromtimestamp(run.started).isoformat(" ", "seconds"),
                seconds(run.ended - run.started),
                len(files),
                size(sum(file.written_bytes for file in files)),
            )
        )
    return rows


def _file_rows(runs: "Sequence[Run]") -> list[tuple[object, ...]]:
    rows: list[tuple[object, ...]] = []
    for number, run in enumerate(runs):
        rows += [_file_row(number, file, "truncated" if file.was_there else "created") for file in run.creations]
        rows += [_file_row(number, file, "overwritten") for file in run.overwritten]
    return rows


def _file_row(number: int, file: "Creation", kind: str) -> tuple[object, ...]:
    from weir.tracing.records import SHARED

    path = file.path if file.renamed is None else f"{file.path} -> {file.renamed}"
    return (
        number,
        "shared" if file.rank == SHARED else file.rank,
        file.order,
        kind,
        size(file.size_bytes),
        size(file.written_bytes),
        file.writers,
        file.layout or "-",
        path,
    )
