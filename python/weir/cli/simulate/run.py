"""`weir simulate run`: one scenario."""

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from weir.cli.common.errors import FAILED, say, warn
from weir.cli.common.output import name, output_option, seconds, share, share_or_dash
from weir.cli.common.parameters import FILE, FOLDER
from weir.cli.simulate.words import factor, rate, tell_remarks

if TYPE_CHECKING:
    from weir.simulation.figures import JobFigures
    from weir.simulation.records import Record

INTERRUPTED = 130
_ROWS_MAX = 20
"""Jobs in a table for people: those whose I/O was slowed the most."""


@click.command(name="run")
@click.argument("scenario", metavar="SCENARIO", type=FILE)
@click.option("--seed", type=click.IntRange(0), help="Seed of all random numbers. [default: the scenario's]")
@click.option(
    "--mode", type=click.Choice(["flow", "request"]), help=("The simulator's model. [default: the scenario's]")
)
@click.option("--alone/--no-alone", default=True, help="Run each job alone too, for the slowdowns.")
@click.option("--out", metavar="DIR", type=FOLDER, help="Folder for the run as JSON and as tables in Parquet.")
@output_option
def run_scenario(scenario: Path, seed: int | None, mode: str | None, alone: bool, out: Path | None, output: str) -> int:
    """Run the scenario of a file, and show what its jobs got.

    SCENARIO is a scenario.toml: the machines, the jobs, the settings of the store, and faults. Ctrl-C ends the run
    early; the results until then are shown and written.
    """
    from weir.cli.common.progress import progress
    from weir.simulation.alone import Baseline
    from weir.simulation.records import write
    from weir.simulation.runs import record
    from weir.simulation.scenario import read_scenario

    changes = {key: value for key, value in (("seed", seed), ("mode", mode)) if value is not None}
    read = read_scenario(scenario, changes=changes)
    tell_remarks(read.workload)
    baseline = Baseline() if alone else None
    with progress() as show:
        made = record(
            scenario.stem,
            read,
            baseline=baseline,
            progress=lambda at: show("all jobs", at.steps_done, at.steps),
            progress_alone=lambda done, runs: show("each job alone", done, runs),
        )
    files = [] if out is None else write(made, out)
    _show(made, output, [str(path) for path in files])
    if files:
        say(f"the run is in {out}: see `weir simulate report {out}`")
    return _tell_end(made)


def _tell_end(record: "Record") -> int:
    """Say why a run is not whole; return the exit code."""
    figures = record.figures
    if record.outcome.is_interrupted:
        at = f"at {record.outcome.seconds:.3f} s of virtual time"
        where = "in the runs of jobs alone" if record.outcome.is_complete else at
        say(f"interrupted {where}: what was done until then is kept")
        return INTERRUPTED
    if figures.refused_files:
        warn(
            f"{figures.refused_files} files could not be made: no target was left for them",
            hint="give the targets more capacity, or make the work smaller",
        )
    if not record.outcome.is_complete and record.settings.get("until_seconds") is None:
        warn(
            f"{figures.jobs - figures.jobs_complete} of {figures.jobs} jobs did not end",
            hint="does a server that dies return?",
        )
        return FAILED
    return 0


def _show(record: "Record", output: str, files: list[str]) -> None:
    from weir.cli.common.output import print_table, show

    if output != "table":
        document = record.document()
        for part in ("jobs", "targets", "servers"):
            document[part] = [
                {key: value for key, value in row.items() if not key.endswith("_series")} for row in document[part]
            ]
        show(output, {**document, "files": files}, (), ())
        return
    jobs = sorted(record.jobs, key=lambda job: -(job.io_slowdown or 0.0))
    print_table(
        ("JOB", "USER", "NODES", "ARRIVAL", "TIME", "SLOWDOWN", "OF I/O", "READ B/S", "WRITE B/S", "OWED", "RECEIVED"),
        [_row(job) for job in (jobs if len(jobs) <= _ROWS_MAX else jobs[:_ROWS_MAX])],
    )
    if len(jobs) > _ROWS_MAX:
        say(f"{len(jobs) - _ROWS_MAX} more jobs, whose I/O was slowed less; --output json and --out have all")
    _say_figures(record)


def _row(job: "JobFigures") -> tuple[Any, ...]:
    return (
        name(job.name),
        name(job.user),
        job.nodes,
        seconds(job.arrival_seconds),
        seconds(job.seconds),
        factor(job.slowdown),
        factor(job.io_slowdown),
        rate(job.outcome.read_bytes_per_second),
        rate(job.outcome.write_bytes_per_second),
        share_or_dash(job.share_owed),
        share(job.share_received),
    )


def _say_figures(record: "Record") -> None:
    figures = dataclasses.asdict(record.figures)
    mean, most, error = figures["io_slowdown_mean"], figures["io_slowdown_max"], figures["share_error"]
    slowed = "" if mean is None else f", I/O slowed {mean:.2f} times in the mean and {most:.2f} at most"
    astray = "" if error is None else f", {100 * error:.1f}% of the device time went to others than it was owed to"
    say(
        f"{figures['seconds']:.3f} s, {figures['bytes_per_second'] / 1e6:.1f} MB/s{slowed}{astray}; targets worked "
        f"{100 * figures['target_busy']:.1f}% of the time, the fullest has {figures['target_cost']:.2f} times the mean"
    )
