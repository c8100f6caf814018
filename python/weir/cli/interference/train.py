"""`weir interference train`: a model, trained on labelled windows."""

from pathlib import Path

import click

from weir.cli.common.errors import warn
from weir.cli.common.output import Quantity, output_option, show
from weir.cli.common.parameters import FILE
from weir.cli.interference.data import BINS, DATA, read_bins, read_windows


@click.command()
@DATA
@BINS
@click.option("--to", "target", required=True, type=FILE, help="The model that is written.")
@click.option("--network", "with_network", is_flag=True, help="Train the paper's network, too.")
@click.option(
    "--general", "is_general", is_flag=True, help="A small model for jobs and devices of any kind, without trees."
)
@output_option
def train(data: tuple[Path, ...], bins: str, target: Path, with_network: bool, is_general: bool, output: str) -> None:
    """Train a model on labelled windows.

    UNFAMILIAR is the model for workloads that the training did not have: `ratio trees` or `above quiet`, whichever
    has the greater F1 when each workload in turn is left out. With a single workload, or with --general, it is `above
    quiet`, because ratios rest on costs of requests on the training's devices.
    """
    windows = read_windows(data)
    from weir.cli.common.progress import working
    from weir.interference import predictor

    with working("training"):
        made = predictor.train(windows, read_bins(bins), with_network=with_network, is_general=is_general)
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
