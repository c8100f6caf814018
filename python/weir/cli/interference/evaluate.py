"""`weir interference evaluate`: estimators, compared by four splits of the windows."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from weir.cli.common.drawing import say_drawn
from weir.cli.common.errors import CommandError
from weir.cli.common.output import Quantity, output_option, show
from weir.cli.common.parameters import FOLDER, PATH, Checked

if TYPE_CHECKING:
    from weir.interference.windows import Windows
from weir.cli.interference.data import BINS, DATA, read_bins, read_windows

ESTIMATORS = ("majority", "last window", "network", "forest", "trees", "ratio trees", "above quiet", "gated")
"""Names of `weir.interference.estimators`, which imports much."""


def _known_estimator(text: str) -> None:
    from weir.plugins import INTERFERENCE_MODEL, named

    if text not in ESTIMATORS:
        named(INTERFERENCE_MODEL, text, ESTIMATORS).load()


@click.command()
@DATA
@BINS
@click.option(
    "--estimator",
    "names",
    type=Checked("estimator", _known_estimator),
    multiple=True,
    help=f"Only this one, or a plug-in; repeat for several. There are {', '.join(ESTIMATORS)}.",
)
@click.option(
    "--additional",
    metavar="DATA",
    multiple=True,
    type=PATH,
    help="Windows for a second training of each estimator, such as simulated ones; repeat for several.",
)
@click.option("--workload", "workloads", multiple=True, help="Only windows of this program; repeat for several.")
@click.option("--plots", type=FOLDER, help="Folder for pictures of the confusion matrices, one for each split.")
@output_option
def evaluate(
    data: tuple[Path, ...],
    bins: str,
    names: tuple[str, ...],
    additional: tuple[Path, ...],
    workloads: tuple[str, ...],
    plots: Path | None,
    output: str,
) -> None:
    """Compare estimators by four splits of the windows into training and test.

    A random split overstates a model, because windows of a run are close copies of each other. The other splits keep
    aside the later part of each run, whole runs, or whole workloads. F1 is that of slowed windows; with several
    --bins, the mean over classes. It is the mean over the parts of the split; LEAST is the least F1 of a part, and
    OVERALL is the F1 of the windows of all parts together.

    With --additional each estimator is trained once more, with those windows beside the others; no test has any of
    them. F1 WITH and OVERALL WITH show whether these windows help. Windows of a workload that is kept aside are left
    out of them, too, except in the last split.

    The JSON has a confusion matrix for each split and estimator: counts of windows by true class and predicted class.
    """
    windows = read_windows(data)
    more = read_windows(additional) if additional else None
    if workloads:
        windows = _of_workloads(windows, workloads)
    import msgspec

    from weir.interference import evaluation
    from weir.plots import confusion

    found = evaluation.evaluate(windows, read_bins(bins), names, more)
    figures = {(score.split, score.estimator): [score.f1, score.least, score.overall] for score in found.scores}
    for score in found.with_additional:
        split = evaluation.STRANGERS if score.split == evaluation.OWN_ADDITIONAL else score.split
        beside = figures[split, score.estimator][:3]
        figures[score.split, score.estimator] = [*beside, score.f1, score.overall]
    rows = [(*of, *(Quantity(f"{each:.3f}") for each in own)) for of, own in figures.items()]
    headings = ("KEPT ASIDE", "ESTIMATOR", "F1", "LEAST", "OVERALL", "F1 WITH", "OVERALL WITH")
    show(output, msgspec.to_builtins(found), headings if additional else headings[:5], rows)
    if plots is not None:
        say_drawn(lambda: confusion.draw(found, plots))


def _of_workloads(windows: "Windows", names: Sequence[str]) -> "Windows":
    import numpy

    known = sorted(set(windows.workloads.tolist()))
    for name in names:
        if name not in known:
            raise CommandError(f"no window is of the workload {name}", hint=f"there are {', '.join(known)}")
    return windows.take(numpy.isin(windows.workloads, names))
