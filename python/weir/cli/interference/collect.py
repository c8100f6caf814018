"""`weir interference collect`: a labelled data set, by the runs of a plan."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from weir.cli.common.drawing import say_drawn
from weir.cli.common.errors import say, warn
from weir.cli.common.output import Quantity, output_option, show
from weir.cli.common.parameters import FILE, FOLDER, Checked
from weir.store import values

if TYPE_CHECKING:
    from collections.abc import Sequence

    from weir.interference.collection import Run


@click.command()
@click.argument("plan", type=FILE)
@click.option("--to", "target", required=True, type=FOLDER, help="Folder of the data set.")
@click.option(
    "--policy", type=Checked("policy", values.policy), help="Policy of the store.  [default: that of the plan's store]"
)
@click.option("--simulated", "is_simulated", is_flag=True, help="Simulate the runs in place of stores and programs.")
@click.option(
    "--seed", type=click.IntRange(0, 2**32 - 1), help=("Seed of all random numbers of --simulated.  [default: 0]")
)
@click.option(
    "--plots", "is_drawn", is_flag=True, help=("Draw the times of operations, into the folder `plots` of the data set.")
)
@output_option
def collect(
    plan: Path,
    target: Path,
    policy: str | None,
    is_simulated: bool,
    seed: int | None,
    is_drawn: bool,
    output: str,
) -> None:
    """Collect a labelled data set by the runs of a plan.

    Each target runs alone, and then among its interferers, on a store of its own. A collection that was ended early
    continues where it stopped. With --simulated no program runs: the simulator performs the operations of the plan's
    kernels on the plan's store. The same seed gives the same data set.
    """
    if seed is not None and not is_simulated:
        raise click.UsageError("--seed needs --simulated")
    import msgspec

    from weir.interference import collection
    from weir.interference import plan as plans
    from weir.interference.agreement import described
    from weir.plots import operation_times

    loaded = plans.read(plan)
    if policy is not None:
        loaded = plans.under(loaded, policy)
    if is_simulated:
        loaded = plans.simulated(loaded, seed or 0)
    runs = collection.collect(loaded, target, say)
    for line in described(collection.quality(runs, target)):
        say(line)
    _tell_noise(runs, loaded.plan.noise_max)

    def shown(figure: float | None) -> Quantity:
        return Quantity("" if figure is None else f"{figure:.2f}")

    rows = [
        (
            run.name,
            run.windows,
            run.dropped,
            run.noisy,
            *map(shown, (run.label, run.truth, run.agreement)),
            run.labelled_by,
        )
        for run in runs
    ]
    headings = ("RUN", "WINDOWS", "DROPPED", "NOISY", "LABEL", "TRUTH", "AGREEMENT", "BY")
    show(output, [msgspec.to_builtins(run) for run in runs], headings, rows)
    if is_drawn:
        say_drawn(lambda: operation_times.draw(loaded, target))


def _tell_noise(runs: "Sequence[Run]", most: float) -> None:
    """Say how much the machine itself disturbed the labels, and warn where that cost windows."""
    from weir.interference.collection import noise_words

    say(noise_words(runs, most))
    noisy = sum(run.noisy for run in runs)
    if noisy:
        is_raised = all(run.is_real_time for run in runs)
        hint = (
            "collect on a quiet machine, or with a greater `noise_max` in the plan"
            if is_raised
            else "collect as a user who may set real-time priorities (CAP_SYS_NICE), or on a quiet machine"
        )
        warn(f"{noisy} windows were dropped because the machine was busy with other things", hint=hint)
