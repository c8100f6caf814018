"""`weir interference matrix`: the slowdowns of tasks among each other, under several policies."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from weir.cli.common.errors import CommandError, say, warn
from weir.cli.common.interference_packages import needed
from weir.cli.common.output import Quantity, output_option, show
from weir.cli.common.parameters import EXISTING_FILE, FOLDER, Checked, Number
from weir.distribution import install_command
from weir.store import values

if TYPE_CHECKING:
    from weir.interference.slowdowns import Matrix

_KERNELS = (
    *("ior-easy-write", "ior-easy-read", "ior-hard-write", "ior-hard-read", "mdtest-easy-write", "mdtest-hard-write"),
    *("mdtest-hard-read", "dlio-unet3d", "dlio-bert", "amrex", "enzo", "openpmd"),
)
"""Names of `weir.interference.kernels`, of which the first seven are the paper's."""
TASKS = _KERNELS[:7]
_PARALLEL_MAX = 64
"""Bound of `weir.interference.plan`."""


@click.command()
@click.option("--to", "target", required=True, type=FOLDER, help="Folder of the runs.")
@click.option(
    "--policy",
    "policies",
    type=Checked("policy", values.policy),
    multiple=True,
    help="A policy beside fifo; repeat for several.",
)
@click.option("--store", type=EXISTING_FILE, help="A cluster.toml.  [default: two targets in memory, each of 64 MB/s]")
@click.option(
    "--task",
    "tasks",
    type=click.Choice(_KERNELS),
    multiple=True,
    default=TASKS,
    metavar="KERNEL",
    show_default="seven of the IO500",
    help="A task, which is also an interferer, such as amrex; repeat for several.",
)
@click.option("--runs", type=click.IntRange(1, 100), default=3, help="Number of runs of each pair.")
@click.option(
    "--instances",
    type=click.IntRange(1, 100),
    default=3,
    help="Instances of the interferer that are active all the time.",
)
@click.option("--seconds", type=Number(0.1, 3600), default=4.0, help="Length of each run, in seconds.")
@click.option(
    "--parallel",
    type=click.IntRange(1, _PARALLEL_MAX),
    default=1,
    help="Runs at the same time, each on a store of its own.",
)
@output_option
def matrix(
    target: Path,
    policies: tuple[str, ...],
    store: Path | None,
    tasks: tuple[str, ...],
    runs: int,
    instances: int,
    seconds: float,
    parallel: int,
    output: str,
) -> None:
    """Measure how much tasks slow each other down.

    Each task runs alone, and then among instances of each other task, on a store of its own, under `fifo` and under
    each --policy. A slowdown is the time of the task's operations over the time of the same operations alone; runs
    are averaged. A matrix that was ended early continues where it stopped. matrix.json and a heat map are in --to at
    the end.
    """
    needed("msgspec", "numpy", "pyarrow")
    import msgspec

    from weir.interference.plan import STORE
    from weir.interference.slowdowns import Conditions, measure
    from weir.ways import write_whole

    conditions = Conditions(
        tasks=tuple(dict.fromkeys(tasks)),
        policies=tuple(dict.fromkeys(("fifo", *(values.policy(each) for each in policies)))),
        store=STORE if store is None else _text(store),
        runs=runs,
        instances=instances,
        seconds=seconds,
        parallel=parallel,
    )
    made = measure(conditions, target, say)
    write_whole(target / "matrix.json", msgspec.json.encode(made).decode() + "\n", mode=0o644)
    _draw(made, target / "matrix.png")
    _show(made, output)


def _text(store: Path) -> str:
    try:
        return store.read_text()
    except (OSError, ValueError) as error:
        raise CommandError(f"{store} cannot be read: {error}", hint="is it a cluster.toml?") from error


def _draw(made: "Matrix", path: Path) -> None:
    from weir.plots import matrix
    from weir.plots.canvas import picture

    try:
        with picture(path) as figure:
            matrix(made, figure=figure)
    except ImportError as error:
        warn(f"nothing is drawn: {error}", hint=f"install matplotlib: `{install_command('plots')}`")


def _show(made: "Matrix", output: str) -> None:
    import msgspec

    rows: list[Sequence[object]] = [
        (
            each.policy,
            task,
            *(Quantity(f"{each.slowdown(task, other):.2f}") for other in made.tasks),
            Quantity(f"{each.quiet[task]:.2f}"),
        )
        for each in made.policies
        for task in made.tasks
    ]
    headings = ("POLICY", "TASK", *(task.upper() for task in made.tasks), "ALONE")
    show(output, msgspec.to_builtins(made), headings, rows)
    for each in made.policies:
        low, high = each.noise
        within = sum(low <= cell.slowdown <= high for cell in each.cells)
        say(
            f"{each.policy}: alone once more, tasks took {low:.2f} to {high:.2f} times their time, by the machine's "
            f"noise alone; {within} of {len(each.cells)} slowdowns are within it, and say nothing"
        )
