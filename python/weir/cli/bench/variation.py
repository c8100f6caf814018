"""`weir bench io-variation-figure-9` and `-10`: whether bandwidths can be foretold, and what low accuracy costs."""

import json
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from weir.cli.bench.export import check_packages, export, export_option
from weir.cli.common.drawing import say_drawn
from weir.cli.common.errors import CommandError, say
from weir.cli.common.output import Quantity, output_option, share, show
from weir.cli.common.parameters import EXISTING_FILE, FOLDER, Checked, Number
from weir.distribution import install_command

if TYPE_CHECKING:
    from weir.experiments.blobs import Field

FIGURE_9, FIGURE_10 = "io-variation-figure-9", "io-variation-figure-10"
_out = click.option(
    "--out", metavar="DIR", type=FOLDER, default="weir-bench", help="Folder for the plot and the numbers."
)


def _known_forecaster(text: str) -> None:
    from weir.prediction.bandwidth import check

    check(text)


def _known_codec(text: str) -> None:
    from weir.adaptive.containers import CODECS, plugin_of

    if text in CODECS:
        raise ValueError(f"{text} is there already")
    plugin_of(text).load()


@click.command(name=FIGURE_9)
@click.option(
    "--runs", type=click.IntRange(1, 10), default=3, help=("Number of runs, each with other phases of the noise.")
)
@click.option(
    "--steps",
    type=click.IntRange(8, 480),
    default=48,
    help=("Number of steps to learn from, and of steps to forecast."),
)
@click.option(
    "--threshold",
    "thresholds",
    type=Number(0, 1),
    multiple=True,
    help="Fraction of the largest amplitude below which a frequency is left out; repeat for more.  [default:"
    " 0.25, 0.75]",
)
@click.option(
    "--forecaster",
    "forecasters",
    multiple=True,
    type=Checked("forecaster", _known_forecaster),
    help="Another forecaster beside these, or a plug-in; repeat for more.",
)
@click.option("--speed", "megabytes", type=Number(1, 10_000), default=60.0, help="Speed of the shared target, in MB/s.")
@_out
@export_option
@output_option
def figure_9(
    runs: int,
    steps: int,
    thresholds: tuple[float, ...],
    forecasters: tuple[str, ...],
    megabytes: float,
    out: Path,
    table: Path | None,
    output: str,
) -> None:
    """Forecast the bandwidth of 20 minutes from the 20 minutes before (I/O variation, figure 9).

    An analysis reads from a store while three programs write checkpoints. Times and sizes are a 25th of the paper's, so
    a run takes two seconds for each of --steps. ERROR is the mean of |forecast - value| / value.
    """
    from weir import plots
    from weir.experiments import viability

    check_packages(table)
    _needed("adaptive", "numpy")
    found = viability.measure(runs, steps, thresholds or viability.THRESHOLDS, megabytes, say, forecasters)
    document = viability.document(found)
    rows = [
        (each.name, name, Quantity(f"{100 * error:.1f} %")) for each in found for name, error in each.errors.items()
    ]
    _finish(FIGURE_9, document, ("RUN", "FORECAST", "ERROR"), rows, out, output, partial(plots.forecasts, found))
    figures = viability.observations(found, steps=steps, speed_megabytes=megabytes)
    export(table, FIGURE_9, figures, seed=viability.SEED)


@click.command(name=FIGURE_10)
@click.option("--field", type=EXISTING_FILE, help="A .npy file of two dimensions.  [default: a generated potential]")
@click.option("--threshold", type=Number(), help="Value above which a point is part of a blob; with --field.")
@click.option(
    "--side", type=click.IntRange(64, 8192), default=1024, help="Points along each axis of the generated field."
)
@click.option(
    "--codec",
    "codecs",
    multiple=True,
    type=Checked("codec", _known_codec),
    help="A codec beside Weir's: a plug-in; repeat for more.",
)
@click.option(
    "--seed", type=click.IntRange(0, 2**32 - 1), default=20, help=("Seed of all random numbers of the generated field.")
)
@_out
@export_option
@output_option
def figure_10(
    field: Path | None,
    threshold: float | None,
    side: int,
    codecs: tuple[str, ...],
    seed: int,
    out: Path,
    table: Path | None,
    output: str,
) -> None:
    """Detect blobs at several degrees of augmentation (I/O variation, figure 10).

    Ratios compare the blobs found with the blobs of the original. READ is the part of the array's bytes
    that a degree of augmentation reads, with the base.
    """
    from weir import plots
    from weir.experiments import blobs

    check_packages(table)
    _needed("simulation", "numpy", "scipy")
    if (field is None) != (threshold is None):
        raise click.UsageError("--field and --threshold go together")
    values = blobs.potential(side, seed) if field is None else _read(field)
    limit = blobs.THRESHOLD if threshold is None else threshold
    try:
        found = blobs.measure(values, limit, codecs=codecs)
    except ValueError as error:
        raise CommandError(str(error), hint="give another --threshold, or another field") from error
    rows = [
        (
            each.codec,
            share(each.degree),
            Quantity(f"{100 * each.bytes_part:.2f} %"),
            Quantity("-" if each.psnr is None else f"{each.psnr:.1f}"),
            Quantity(f"{each.blobs} of {each.blobs_true}"),
            *(Quantity(f"{value:.2f}") for value in (each.diameter_ratio, each.area_ratio, each.overlap, each.f1)),
        )
        for each in found
    ]
    header = ("CODEC", "AUGMENTED", "READ", "PSNR", "BLOBS", "DIAMETER", "AREA", "OVERLAP", "F1")
    document = blobs.document(found, limit)
    _finish(FIGURE_10, document, header, rows, out, output, partial(plots.blobs, found))
    export(table, FIGURE_10, blobs.observations(found, limit), seed=seed if field is None else None)


class Listed(NamedTuple):
    """An experiment as `weir bench list` shows it."""

    name: str
    title: str
    shows: str
    seconds: float
    """Usual length."""
    command: click.Command


EXPERIMENTS = (
    Listed(FIGURE_9, "Viability of the forecast", "A window of bandwidths foretells the next one.", 300.0, figure_9),
    Listed(FIGURE_10, "Blobs against accuracy", "Blobs that are found by the degree of augmentation.", 5.0, figure_10),
)


def _finish(
    name: str,
    document: dict[str, Any],
    header: Sequence[str],
    rows: Sequence[Sequence[object]],
    out: Path,
    output: str,
    plot: Callable[..., object],
) -> None:
    """Show the results, and write them and their plot."""
    from weir.plots.canvas import picture
    from weir.ways import make_folders, write_whole

    make_folders(out)
    file = out / f"{name}.json"
    write_whole(file, json.dumps(document, indent=1) + "\n", mode=None)

    def drawn() -> list[Path]:
        with picture(out / f"{name}.png") as figure:
            plot(figure=figure)
        return [out / f"{name}.png"]

    show(output, {**document, "files": [str(file)]}, header, rows)
    say(f"written: {file}")
    say_drawn(drawn)


def _needed(extra: str, *packages: str) -> None:
    """Refuse to continue without packages, and say how to install them."""
    from importlib.util import find_spec

    missing = [package for package in packages if find_spec(package) is None]
    if missing:
        raise CommandError(f"{missing[0]} is not installed", hint=install_command(extra))


def _read(file: Path) -> "Field":
    import numpy

    try:
        return numpy.asarray(numpy.load(file, allow_pickle=False), dtype=numpy.float64)
    except (OSError, ValueError, EOFError) as error:
        raise CommandError(f"{file} holds no array: {error}", hint="give a .npy file of numbers") from error
