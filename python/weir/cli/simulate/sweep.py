"""`weir simulate sweep`: one scenario over many settings."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from weir.cli.common.cluster_options import chosen_pool, cluster_options
from weir.cli.common.errors import FAILED, say, warn
from weir.cli.common.output import Quantity, output_option
from weir.cli.common.parameters import FILE, FOLDER
from weir.cli.simulate.names import OBJECTIVE

if TYPE_CHECKING:
    from weir.simulation.intervals import Interval
    from weir.simulation.sweeps.results import Results

_INTERRUPTED = 130
_ROWS_MAX = 40
"""Lines of a table for people; JSON and Parquet have all."""


@click.command()
@click.argument("file", metavar="SWEEP", type=FILE)
@click.option(
    "--out",
    "folder",
    metavar="DIR",
    type=FOLDER,
    help="Folder of the results.  [default: SWEEP without its ending, in the present folder]",
)
@click.option(
    "--changed",
    "is_changed_allowed",
    is_flag=True,
    help="Continue in the folder of another plan: points that are also in this plan stay.",
)
@click.option(
    "--objective",
    "objectives",
    multiple=True,
    metavar="NAME",
    type=OBJECTIVE,
    help="Figure to show in the table; repeat for several.  [default: slowdown, bandwidth, share error and"
    " target cost]",
)
@click.option("--alone/--no-alone", default=True, help="Run each job alone too, for the slowdowns.")
@cluster_options
@output_option
def sweep(
    file: Path,
    folder: Path | None,
    is_changed_allowed: bool,
    objectives: tuple[str, ...],
    alone: bool,
    output: str,
    **where: Any,
) -> int:
    """Run a scenario over many settings: policies, allocators, layouts, seeds, or any other keys.

    SWEEP is a scenario.toml with a table [sweep], or one that names a scenario with `base`. Each finished point is
    written at once, so the same command continues after Ctrl-C or a crash.
    """
    from weir.cli.common.progress import progress
    from weir.simulation.sweeps.execution import check, execute
    from weir.simulation.sweeps.ledger import opened, read_records
    from weir.simulation.sweeps.plan import read_plan
    from weir.simulation.sweeps.results import results_of, write

    chosen = checked_objectives(objectives, has_slowdowns=alone)
    plan = read_plan(file)
    checked = check(plan, has_slowdowns=alone)
    folder = folder or Path(file.stem if file.suffix else f"{file.name}.results")
    is_interrupted = False
    with opened(folder, checked.header, is_changed_allowed=is_changed_allowed) as ledger:
        try:
            with progress() as show, chosen_pool(where, folder) as pool:
                execute(checked, ledger, pool, lambda done, all_of_them: show("points", done, all_of_them))
        except KeyboardInterrupt:
            is_interrupted = True
        finally:
            # An interruption may come between a point's line and the ledger's own list.
            results = results_of(checked.header, read_records(folder), checked.points)
            files = write(results, folder)
    show_results(results, chosen, output)
    return _tell_end(results, len(checked.points), files, is_interrupted)


def checked_objectives(names: Sequence[str], *, has_slowdowns: bool) -> list[str]:
    """Check the names of objectives.

    Args:
        names: The names; without any, the usual ones.
        has_slowdowns: Whether jobs also run alone.

    Raises:
        UsageError: An objective needs the runs of jobs alone.
    """
    from weir.simulation.sweeps.evaluation import OBJECTIVES, USUAL_OBJECTIVES

    for name in names:
        if OBJECTIVES[name].is_of_jobs_alone and not has_slowdowns:
            raise click.UsageError(f"{name} needs the runs of jobs alone: leave --no-alone out")
    usual = [name for name in USUAL_OBJECTIVES if has_slowdowns or not OBJECTIVES[name].is_of_jobs_alone]
    return list(names) or usual


def show_results(results: "Results", objectives: Sequence[str], output: str) -> None:
    """Print the results of a sweep: means and intervals over seeds, and the best settings by each objective.

    Args:
        objectives: Names of the figures in the table.
        output: Value of `--output`.
    """
    from weir.cli.common.output import print_table, show
    from weir.simulation.sweeps.plan import shown
    from weir.simulation.sweeps.results import best_words, document

    if output != "table":
        show(output, document(results), (), ())
        return
    cells = results.cells
    keys = [key for key in results.header.axes if any(key in cell.settings for cell in cells)]
    rows = [
        (*(shown(cell.settings[key]) for key in keys), *(_mean(cell.mean(name)) for name in objectives))
        for cell in cells[:_ROWS_MAX]
    ]
    if rows:
        print_table([*(key.upper() for key in keys), *(name.upper().replace("_", " ") for name in objectives)], rows)
    if len(cells) > _ROWS_MAX:
        say(f"{len(cells) - _ROWS_MAX} more settings; --output json and the files have all")
    for name in objectives:
        found = results.best(name)
        if found is not None:
            say(f"best by {name}: {best_words(found)}")


def _mean(mean: "Interval | None") -> Any:
    from weir.simulation.intervals import spelled

    return Quantity(spelled(mean))


def _tell_end(results: "Results", points: int, files: Sequence[Path], is_interrupted: bool) -> int:
    from weir.simulation.sweeps.plan import spelled

    say(f"written: {', '.join(map(str, files))}")
    for record in results.refused[:5]:
        warn(f"the point {spelled(record.settings)} was not run: {record.refusal}")
    if len(results.refused) > 5:
        warn(f"{len(results.refused) - 5} more points were not run; --output json has the reasons")
    if is_interrupted:
        say(f"interrupted: {len(results.records)} of {points} points are done; the same command continues")
        return _INTERRUPTED
    return FAILED if results.refused else 0
