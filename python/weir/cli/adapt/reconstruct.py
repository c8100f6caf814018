"""`weir adapt reconstruct`: a stream as a netCDF file, or one step of a variable as an array."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from weir.cli.adapt import named as by_name
from weir.cli.adapt.arrays import (
    parse_region,
)
from weir.cli.adapt.steps import TIER
from weir.cli.common.amounts import parse_amount
from weir.cli.common.errors import CommandError, say
from weir.cli.common.output import output_option, show, size
from weir.cli.common.parameters import FILE, Number
from weir.ways import replacing

if TYPE_CHECKING:
    from weir.adaptive.named.dataset import Dataset
    from weir.adaptive.named.reader import DatasetReader
    from weir.adaptive.policy import Accuracy
    from weir.adaptive.reader import Step
    from weir.adaptive.region import Region
from weir.cli.adapt.manifests import warnings_said


@click.command(name="reconstruct")
@click.argument("tiers", metavar="TIER...", nargs=-1, required=True, type=TIER)
@click.option("--step", "number", type=click.IntRange(0), help="Number of the step.  [default, for .nc: all steps]")
@click.option("--to", "target", required=True, type=FILE, help="A .npy or .nc file.")
@click.option(
    "--variable", "names", metavar="NAME", multiple=True, help="A variable, with its coordinates.  [default: all]"
)
@click.option(
    "--bytes",
    "bytes_max",
    metavar="SIZE",
    callback=parse_amount,
    help=("Read at most this many bytes, but always the base."),
)
@click.option("--rmse", type=Number(0), help="Sufficient root mean square error.")
@click.option("--max-error", type=Number(0), help="Sufficient largest error of any value.")
@click.option("--relative", type=Number(0), help="Sufficient largest error, as part of the range of values.")
@click.option("--psnr", type=Number(0), help="Sufficient peak signal-to-noise ratio, in dB.")
@click.option("--base-only", is_flag=True, help="Read only the base, and nothing from a shared tier.")
@click.option("--region", callback=parse_region, help="A slice for each axis, as in 0:64,:,10:20:2 or 0:64,....")
@click.option("--deadline", type=Number(0, min_open=True), help="Seconds after which the bytes that arrived are used.")
@click.option("--threads", type=click.IntRange(1), default=1)
@output_option
def reconstruct(tiers: tuple[str, ...], number: int | None, target: Path, output: str, **options: Any) -> None:
    """Write a stream as a netCDF file, or one step of a variable as a .npy file.

    Values are as accurate as requested, by default as they are stored; a netCDF file has the bounds of their errors as
    the attributes weir_max_error and weir_rmse.
    """
    from weir.adaptive.named.reader import DatasetReader, Reading
    from weir.adaptive.step_files import Format, format_of

    if not target.absolute().parent.is_dir():
        raise CommandError(f"{target} cannot be written: there is no folder {target.parent}", hint="make it before")
    wanted = format_of(target)
    if number is None and wanted is Format.NPY:
        raise click.UsageError("a .npy file has one step: give --step")
    reading = Reading(
        deadline_seconds=options["deadline"],
        base_only=options["base_only"],
        tolerant=True,
        threads=options["threads"],
        accuracy=_accuracy(options),
    )
    with warnings_said(), DatasetReader(tiers, reading=reading) as reader:
        if wanted is Format.NPY:
            steps = {
                name: _one(reader, name, number, options["region"]) for name in [_streamed(reader, options["names"])]
            }
        else:
            dataset, steps = by_name.taken(reader, number, options["names"], options["region"])
        with replacing(target, mode=None) as file:
            _save(file, dataset if wanted is Format.NETCDF else None, steps)
    documents = [{"file": str(target), **each} for each in by_name.costs_of(steps)] or [
        {"file": str(target), "steps": reader.steps}
    ]
    rows = [
        (name, step.number, size(step.bytes_read), f"{step.rmse:.6g}", f"{step.max_error:.6g}", str(target))
        for name, step in steps.items()
    ]
    document: Any = documents[0] if reader.is_unnamed else documents
    show(output, document, ("VARIABLE", "STEP", "READ", "RMSE", "MAX ERROR", "FILE"), rows)
    if any(step.late for step in steps.values()):
        say("the deadline came before all requested bytes")


def _streamed(reader: "DatasetReader", names: Sequence[str]) -> str:
    """The one variable that a .npy file is to have."""
    there = [each.name for each in reader.schema.streamed]
    chosen = list(names) or there
    if len(chosen) != 1 or chosen[0] not in there:
        raise CommandError(
            f"a .npy file has one variable, and the stream has {', '.join(there) or 'none that is large'}",
            hint="choose one with --variable, or write a .nc file",
        )
    return chosen[0]


def _one(reader: "DatasetReader", name: str, number: int | None, region: "Region | None") -> "Step":
    """One step of a variable, in its units."""
    with reader.alone(name, region=region) as alone:
        return alone.step(number or 0)


def _save(file: BinaryIO, dataset: "Dataset | None", steps: "dict[str, Step]") -> None:
    import numpy

    from weir.adaptive.named import netcdf

    if dataset is not None:
        netcdf.write(file, dataset)
        return
    (step,) = steps.values()
    numpy.save(file, step.data, allow_pickle=False)


def _accuracy(options: dict[str, Any]) -> "Accuracy | None":
    from weir.adaptive.policy import Accuracy

    given = {name: options[name] for name in ("bytes_max", "rmse", "max_error", "psnr", "relative")}
    given = {name: value for name, value in given.items() if value is not None}
    if len(given) > 1:
        raise click.UsageError("give one of --bytes, --rmse, --max-error, --psnr and --relative")
    return Accuracy(**given) if given else None
