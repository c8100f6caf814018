"""`weir simulate report`: runs side by side, or the settings of a sweep, and as a page."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from weir.cli.common.errors import CommandError, say
from weir.cli.common.output import Quantity, output_option, seconds, share, share_or_dash, show, size
from weir.cli.common.parameters import FILE, PATH
from weir.ways import write_whole

if TYPE_CHECKING:
    from weir.simulation.records import Record

_RUNS_MAX = 16
"""Most runs of a page: a figure has a panel for each."""


@click.command()
@click.argument("runs", metavar="RUN...|SWEEP", nargs=-1, required=True, type=PATH)
@click.option("--html", metavar="FILE", type=FILE, help="Write an HTML page with figures, which loads no other file.")
@output_option
def report(runs: tuple[Path, ...], html: Path | None, output: str) -> None:
    """Compare runs of one workload, or the settings of a sweep.

    RUN is a folder that `weir simulate run --out` wrote, or the run.json in it. SWEEP is a folder of `weir simulate
    sweep`, even of one that has not ended; its page has intervals over the seeds.
    """
    from weir.simulation.records import read
    from weir.simulation.sweeps.ledger import is_sweep

    if any(is_sweep(path) for path in runs):
        if len(runs) > 1:
            raise click.UsageError("the folder of a sweep is reported alone")
        _report_sweep(runs[0], html, output)
        return
    if html is not None and len(runs) > _RUNS_MAX:
        raise click.UsageError(f"a page compares at most {_RUNS_MAX} runs, and {len(runs)} are given")
    records = _named(runs, [read(path) for path in runs])
    if html is not None:
        from weir.simulation.report.page import page

        _write(html, page(records))
    _show(records, output)


def _report_sweep(folder: Path, html: Path | None, output: str) -> None:
    from weir.cli.simulate.sweep import checked_objectives, show_results
    from weir.simulation.sweeps.results import read_results

    results = read_results(folder)
    if html is not None:
        from weir.simulation.report.sweep import sweep_page

        _write(html, sweep_page(folder.resolve().name, results))
    known = {name for cell in results.cells for name in cell.figures}
    usual = [name for name in checked_objectives((), has_slowdowns=True) if name in known]
    show_results(results, usual, output)


def _write(html: Path, text: str) -> None:
    try:
        write_whole(html, text, mode=None)
    except OSError as error:
        raise CommandError(f"cannot write {html}: {error.strerror}", hint="is its folder there?") from error
    say(f"the page is {html}")


def _named(paths: Sequence[Path], records: "list[Record]") -> "list[Record]":
    """Runs with distinct names: the folder's name where the scenarios' names are the same."""
    names = [record.name for record in records]
    if len(set(names)) < len(names):
        folders = [path.resolve() if path.is_dir() else path.resolve().parent for path in paths]
        names = [folder.name for folder in folders]
    if len(set(names)) < len(names):
        names = [f"{name} ({number})" for number, name in enumerate(names, start=1)]
    return [dataclasses.replace(record, name=name) for record, name in zip(records, names, strict=True)]


def _show(records: "Sequence[Record]", output: str) -> None:
    from weir.cli.simulate.words import factor

    rows = []
    for record in records:
        one = record.figures
        rows.append(
            (
                record.name,
                record.settings.get("policy"),
                record.settings.get("allocator"),
                record.settings.get("targets"),
                Quantity(f"{one.jobs_complete}/{one.jobs}"),
                seconds(one.seconds),
                factor(one.io_slowdown_mean),
                factor(one.io_slowdown_max),
                size(one.bytes_per_second),
                share_or_dash(one.share_error),
                factor(one.target_cost),
                share(one.target_busy),
            )
        )
    document = [
        {"name": record.name, "settings": record.settings, "figures": dataclasses.asdict(record.figures)}
        for record in records
    ]
    header = (
        "RUN",
        "POLICY",
        "ALLOCATOR",
        "TARGETS",
        "ENDED",
        "TIME",
        "SLOWED",
        "MOST",
        "B/S",
        "ASTRAY",
        "COST",
        "BUSY",
    )
    show(output, document, header, rows)
