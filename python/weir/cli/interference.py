"""`weir interference`: how much jobs are slowed by others, from windows of what they and the servers did."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from weir.cli.drawing import say_drawn
from weir.cli.errors import CommandError, warn
from weir.cli.interference_packages import needed
from weir.cli.interference_watch import serve, watch
from weir.cli.listing import Listing
from weir.cli.output import Quantity, output_option, show
from weir.cli.parameters import FILE, FOLDER, PATH, Checked
from weir.cli.slowdowns import matrix
from weir.cli.window_files import import_windows, join
from weir.cli.windows import clients, collect, gather, record

if TYPE_CHECKING:
    from weir.interference.windows import Windows


@click.group(cls=Listing)
def interference() -> None:
    """Predict how much jobs are slowed by others.

    DATA is a Parquet file of windows, or a folder of such files. A class of slowdown begins at each of --bins.
    """


def _read_bins(text: str) -> tuple[float, ...]:
    """Read ascending slowdowns, such as 2,5."""
    try:
        bins = tuple(float(part) for part in text.split(","))
    except ValueError:
        raise ValueError(f"{text!r} is no list of numbers, such as 2,5") from None
    if list(bins) != sorted(set(bins)) or not all(0 < each < math.inf for each in bins) or len(bins) > _BINS_MAX:
        raise ValueError(f"{text!r} is not 1 to {_BINS_MAX} numbers that ascend from above 0")
    return bins


_BINS_MAX = 8
"""Bound of `crates/interference`."""
ESTIMATORS = ("majority", "last window", "network", "forest", "trees", "ratio trees", "above quiet", "gated")
"""Names of `weir.interference.estimators`, which imports much."""


def _known_estimator(text: str) -> None:
    from weir.plugins import INTERFERENCE_MODEL, named

    if text not in ESTIMATORS:
        named(INTERFERENCE_MODEL, text, ESTIMATORS).load()


_data = click.argument("data", metavar="DATA...", nargs=-1, required=True, type=PATH)
_bins = click.option(
    "--bins",
    type=Checked("bins", _read_bins),
    default="2",
    help="Slowdowns at which a class begins, such as 2,5.",
)
_file = FILE


@interference.command()
@_data
@_bins
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
    """Compare estimators by four splits of the windows.

    A random split overstates a model, because windows of a run are close copies of each other. The others keep aside
    what comes later in each run, whole runs, or whole workloads. F1 is that of slowed windows, or with more than one of
    --bins the mean over classes. It is the mean over the parts of the split; LEAST is the part with the least, and
    OVERALL has the windows of all parts together.

    With --additional each estimator is trained once more, with those windows beside the others; no test has any of
    them. F1 WITH and OVERALL WITH tell whether they help. A workload that is kept aside is left out of them, too,
    except in the last split.

    The JSON has a confusion matrix for each split and estimator: windows by their class and the one that was guessed.
    """
    windows = _windows(data)
    more = _windows(additional) if additional else None
    if workloads:
        windows = _of_workloads(windows, workloads)
    import msgspec

    from weir.interference import evaluation
    from weir.plots import confusion

    found = evaluation.evaluate(windows, _read_bins(bins), names, more)
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


@interference.command()
@_data
@_bins
@click.option("--to", "target", required=True, type=_file, help="The model that is written.")
@click.option("--network", "with_network", is_flag=True, help="Train the paper's network, too.")
@click.option(
    "--general", "is_general", is_flag=True, help="A small model for jobs and devices of any kind, without trees."
)
@output_option
def train(data: tuple[Path, ...], bins: str, target: Path, with_network: bool, is_general: bool, output: str) -> None:
    """Train a model on labelled windows.

    UNFAMILIAR are the models for workloads that the training did not have: `ratio trees` or `above quiet`, whichever
    has the greater F1 where one workload after the other is left out. With one workload alone it is `above quiet`, and
    with --general, too: costs of requests, on which ratios rest, are those of the training's devices.
    """
    windows = _windows(data)
    from weir.cli.progress import working
    from weir.interference import predictor

    with working("training"):
        made = predictor.train(windows, _read_bins(bins), with_network=with_network, is_general=is_general)
    predictor.save(made, target)
    for workload, missing in predictor.missing_windows(windows).items():
        warn(
            f"{workload} has too few windows to be compared with its own quiet ones: {missing} are missing",
            hint="collect more of them; the others were used",
        )
    import msgspec

    labelled, choice = windows.labelled(), made.unfamiliar
    counts = {"windows": len(labelled), "runs": len(set(labelled.runs)), "workloads": len(set(labelled.workloads))}
    document = {**counts, "unfamiliar": msgspec.to_builtins(choice), "file": str(target)}
    scores = (
        Quantity("-" if each is None else f"{each:.3f}") for each in (choice.ratio_trees_f1, choice.above_quiet_f1)
    )
    headings = ("WINDOWS", "RUNS", "WORKLOADS", "UNFAMILIAR", "F1 RATIO TREES", "F1 ABOVE QUIET", "FILE")
    show(output, document, headings, [(*counts.values(), choice.by, *scores, str(target))])


@interference.command()
@click.argument("model", type=_file)
@_data
@click.option("--last", "is_last", is_flag=True, help="Only the last window of each run.")
@output_option
def predict(model: Path, data: tuple[Path, ...], is_last: bool, output: str) -> None:
    """Predict the class of slowdown of windows, and of the three after each.

    BY is `trees` for a workload of the training, and `ratio trees` or `above quiet` for another, as the training chose.
    Both compare it with its own quiet windows. A workload with fewer than 10 windows is not known.
    """
    needed()
    from weir.interference import predictor

    loaded = predictor.load(model)
    windows = _windows(data)
    import msgspec

    found = predictor.predict(loaded, windows)
    if is_last:
        last = {run: max(windows.numbers[windows.runs == run]) for run in set(windows.runs.tolist())}
        found = [each for each in found if each.window == last[each.run]]
    rows: list[Sequence[object]] = [
        (
            each.run,
            each.window,
            each.ahead,
            each.slowdown,
            Quantity(f"{each.probability:.2f}"),
            each.by,
            ", ".join(f"{driver.feature} ({driver.server or 'no server'})" for driver in each.driven_by),
        )
        for each in found
    ]
    headings = ("RUN", "WINDOW", "AHEAD", "SLOWDOWN", "PROBABILITY", "BY", "DRIVEN BY")
    show(output, [msgspec.to_builtins(each) for each in found], headings, rows)


def _of_workloads(windows: "Windows", names: Sequence[str]) -> "Windows":
    import numpy

    known = sorted(set(windows.workloads.tolist()))
    for name in names:
        if name not in known:
            raise CommandError(f"no window is of the workload {name}", hint=f"there are {', '.join(known)}")
    return windows.take(numpy.isin(windows.workloads, names))


def _windows(data: Sequence[Path]) -> "Windows":
    needed()
    from weir.interference.windows import read

    return read(data)


interference.add_command(import_windows)
interference.add_command(join)
interference.add_command(clients)
interference.add_command(collect)
interference.add_command(gather)
interference.add_command(matrix)
interference.add_command(record)
interference.add_command(serve)
interference.add_command(watch)
