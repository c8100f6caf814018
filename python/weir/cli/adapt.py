"""`weir adapt`: arrays refactored onto tiers, and read as accurately as shared storage allows."""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from weir.cli import adapt_named as by_name
from weir.cli.adapt_steps import TIER, steps
from weir.cli.amounts import parse_amount
from weir.cli.arrays import (
    Source,
    arrays_of,
    mesh_of,
    parse_dtype,
    parse_fill,
    parse_region,
    parse_shape,
    parse_tolerance,
)
from weir.cli.errors import CommandError, say, warn
from weir.cli.listing import Listing
from weir.cli.output import output_option, show, size
from weir.cli.parameters import FILE, Checked, Number
from weir.ways import replacing

if TYPE_CHECKING:
    from weir.adaptive.catalogue import Catalogue
    from weir.adaptive.manifest import Manifest
    from weir.adaptive.named.dataset import Dataset
    from weir.adaptive.named.plan import Tolerance
    from weir.adaptive.named.reader import DatasetReader
    from weir.adaptive.policy import Accuracy
    from weir.adaptive.reader import Step
    from weir.adaptive.region import Region


@click.group(cls=Listing)
def adapt() -> None:
    """Refactor arrays onto storage tiers, and read them as accurately as there is time for.

    A tier is a folder: a local path, a path on a mount, or any URL that fsspec opens, the fastest first. Its zone may
    stand before it, as in isolation=/fast/run, augmentation=/scratch/run or best-effort=s3://archive/run.
    """


def _known_codec(text: str) -> None:
    from weir.adaptive.containers import check

    check(text, is_kept=True)


adapt.add_command(steps)


@adapt.command(name="refactor")
@click.argument("inputs", metavar="INPUT[:DATASET]...", nargs=-1, required=True, type=Checked("array", Source.parse))
@click.option(
    "--tier",
    "tiers",
    metavar="[ZONE=]URL",
    multiple=True,
    required=True,
    type=TIER,
    help="A tier; name all of them, the fastest first.",
)
@click.option(
    "--codec",
    type=Checked("codec", _known_codec),
    default="planes",
    help="Codec: planes, decimate, or a plug-in that a package declares.",
)
@click.option(
    "--tolerance",
    "tolerances",
    metavar="[VARIABLE=]ERROR",
    multiple=True,
    type=Checked("tolerance", parse_tolerance),
    help="Largest error of a whole step, in units of the data: of one variable, or of all that are measured.",
)
@click.option("--exact", is_flag=True, help="A whole step restores every bit.")
@click.option("--chunk", metavar="SIZE", callback=parse_amount, default="1M", help="Size of one read of augmentation.")
@click.option("--base", metavar="SIZE", callback=parse_amount, help="Size of the base.  [default: the codec's choice]")
@click.option(
    "--fill",
    metavar="VALUE",
    multiple=True,
    type=Checked("number", parse_fill),
    help="A value that marks cells as missing, besides those that an input states. Such cells are kept exactly.",
)
@click.option("--stacked", is_flag=True, help="Steps lie along the first axis of each input.")
@click.option(
    "--along", metavar="DIMENSION", help="Dimension of the steps of files with names.  [default: that of time]"
)
@click.option("--dataset", help="Array of inputs that hold several and name none.")
@click.option(
    "--mesh",
    metavar="FILE[:DATASET]",
    type=Checked("array", Source.parse),
    help="Mesh of steps with one value a node: its cells (integers, cells x corners) or its nodes' coordinates.",
)
@click.option(
    "--dtype", type=Checked("dtype", parse_dtype), help="Type of inputs that are bytes alone, in numpy's spelling."
)
@click.option("--shape", callback=parse_shape, help="Shape of inputs that are bytes alone, as in 91x91x91.")
@click.option("--append", is_flag=True, help="Continue the existing stream.")
@click.option("--overwrite", is_flag=True, help="Remove the existing stream, with all its steps.")
@click.option("--threads", type=click.IntRange(1), default=1)
@output_option
def refactor_arrays(inputs: tuple[str, ...], tiers: tuple[str, ...], output: str, **options: Any) -> None:
    """Write arrays as the steps of a stream: .npy, .npz, HDF5, netCDF, Zarr, or bytes alone.

    Files with names (netCDF, HDF5, Zarr) keep their variables, dimensions, coordinates, attributes, packing and units:
    FILE all variables, FILE:VARIABLE one with its coordinates. Without --tolerance every bit is kept.
    """
    options["tolerance"] = _tolerance(options.pop("tolerances"))
    if options["append"] and options["overwrite"]:
        raise click.UsageError("give --append or --overwrite")
    sources = [Source.parse(text) for text in inputs]
    with _warnings():
        named = _goes_by_name(sources, tiers, options)
        if named:
            held = by_name.refactor_named(sources, tiers, _named_options(options))
            document, rows = by_name.table_of(held)
            show(output, document, by_name.HEADER, rows)
    if not named:
        _refactor_unnamed(sources, tiers, output, options)


def _goes_by_name(sources: list[Source], tiers: tuple[str, ...], options: dict[str, Any]) -> bool:
    """Whether the inputs become a stream with names; one that goes on stays as it was begun."""
    if options["mesh"] is not None or not by_name.have_names(sources, options["dataset"]):
        if options["along"] is not None:
            raise click.UsageError("--along is for files with names: netCDF, HDF5 and Zarr")
        return False
    return not options["append"] or by_name.holds_names(tiers) or by_name.holds_nothing(tiers)


def _tolerance(texts: tuple[str, ...]) -> "Tolerance":
    """The tolerance of all variables, or of each by name."""
    pairs = [parse_tolerance(text) for text in texts]
    if len(pairs) == 1 and pairs[0][0] is None:
        return pairs[0][1]
    named = {name: error for name, error in pairs if name is not None}
    if len(named) < len(pairs):
        raise click.UsageError("give one --tolerance for all variables, or one as VARIABLE=ERROR for each")
    return named or None


def _named_options(options: dict[str, Any]) -> dict[str, Any]:
    fill = tuple(parse_fill(text) for text in options["fill"])
    return {
        "tolerance": None if options["exact"] else options["tolerance"],
        "codec": options["codec"],
        "chunk_bytes": options["chunk"],
        "base_bytes": options["base"],
        "fill": fill,
        **{name: options[name] for name in ("dataset", "along", "stacked", "append", "overwrite", "threads")},
    }


def _refactor_unnamed(sources: list[Source], tiers: tuple[str, ...], output: str, options: dict[str, Any]) -> None:
    from weir.adaptive.writer import Writer

    if isinstance(options["tolerance"], Mapping):
        raise click.UsageError("the inputs have no names: give --tolerance as one number")
    mesh = None if options["mesh"] is None else mesh_of(options["mesh"])
    writer = Writer(
        tiers,
        codec=options["codec"],
        tolerance=options["tolerance"],
        exact=options["exact"],
        chunk_bytes=options["chunk"],
        base_bytes=options["base"],
        threads=options["threads"],
        append=options["append"],
        overwrite=options["overwrite"],
        mesh=mesh,
    )
    arrays = arrays_of(
        sources,
        dataset=options["dataset"],
        dtype=options["dtype"],
        shape=options["shape"],
        stacked=options["stacked"],
        fill=tuple(parse_fill(text) for text in options["fill"]),
    )
    manifests: list[Manifest] = []
    try:
        with _warnings(), writer:
            for field in arrays:
                manifests.append(writer.write(field.values, attributes=field.attributes))
    finally:
        # The written steps stay, even if a later one failed.
        if manifests:
            nodes = writer.nodes
            show(output, [_document(each, nodes) for each in manifests], *_steps_table(manifests, nodes))


@adapt.command(name="info")
@click.argument("tiers", metavar="TIER...", nargs=-1, required=True, type=TIER)
@click.option("--step", "number", type=click.IntRange(0), help="Show the accuracy of this step by bytes read.")
@output_option
def show_stream(tiers: tuple[str, ...], number: int | None, output: str) -> None:
    """Show the variables or steps of a stream, or the accuracy of one step by the bytes read.

    The first tier is enough: it names the others. A variable's own stream lies in the folder of its name.
    """
    from weir.adaptive.catalogue import complete
    from weir.adaptive.contents import accuracies

    if number is None and by_name.holds_names(tiers):
        _show_variables(tiers, output)
        return
    places, catalogue = complete(tiers)
    if number is None:
        _show_steps(catalogue, output)
        return
    lines = accuracies(places, number, catalogue.meaning)
    header = ("BYTES", "TIER", "RMSE", "MAX ERROR", "BOUNDS")
    bounds = {True: "measured", False: "derived"}
    rows = [
        (size(line["bytes"]), line["tier"], f"{line['rmse']:.6g}", f"{line['max_error']:.6g}", bounds[line["measured"]])
        for line in lines
    ]
    show(output, lines, header, rows)


def _show_variables(tiers: tuple[str, ...], output: str) -> None:
    from weir.adaptive.named.reader import DatasetReader
    from weir.adaptive.named.summary import held_by

    with DatasetReader(tiers) as reader:
        document, rows = by_name.table_of(held_by(reader))
    show(output, document, by_name.HEADER, rows)


def _show_steps(catalogue: "Catalogue", output: str) -> None:
    from weir.adaptive.contents import manifest_of
    from weir.adaptive.errors import StepError

    manifests = []
    for each in catalogue.look()[0]:
        try:
            manifests.append(manifest_of(catalogue.place, each))
        except StepError as error:
            warn(str(error))
    nodes = catalogue.stream.nodes
    show(output, [_document(each, nodes) for each in manifests], *_steps_table(manifests, nodes))
    if output == "table":
        say(_told(catalogue))


@adapt.command(name="reconstruct")
@click.argument("tiers", metavar="TIER...", nargs=-1, required=True, type=TIER)
@click.option("--step", "number", type=click.IntRange(0), help="Number of the step.  [default, for .nc: all steps]")
@click.option("--to", "target", required=True, type=FILE, help="A .npy or .nc file.")
@click.option(
    "--variable", "names", metavar="NAME", multiple=True, help="A variable, with its coordinates.  [default: all]"
)
@click.option(
    "--bytes", "bytes_max", metavar="SIZE", callback=parse_amount, help="Read no more than this, but always the base."
)
@click.option("--rmse", type=Number(0), help="Sufficient root mean square error.")
@click.option("--max-error", type=Number(0), help="Sufficient largest error of any value.")
@click.option("--relative", type=Number(0), help="Sufficient largest error, as part of the range of values.")
@click.option("--psnr", type=Number(0), help="Sufficient peak signal-to-noise ratio, in dB.")
@click.option("--base-only", is_flag=True, help="Touch no shared tier.")
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
    with _warnings(), DatasetReader(tiers, reading=reading) as reader:
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


@contextlib.contextmanager
def _warnings() -> Iterator[None]:
    import warnings

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    for warning in caught:
        warn(str(warning.message))


def _accuracy(options: dict[str, Any]) -> "Accuracy | None":
    from weir.adaptive.policy import Accuracy

    given = {name: options[name] for name in ("bytes_max", "rmse", "max_error", "psnr", "relative")}
    given = {name: value for name, value in given.items() if value is not None}
    if len(given) > 1:
        raise click.UsageError("give one of --bytes, --rmse, --max-error, --psnr and --relative")
    return Accuracy(**given) if given else None


def _told(catalogue: "Catalogue") -> str:
    """Describe the common properties of all steps, in a line."""
    stream = catalogue.stream
    kept = "exact" if stream.exact else f"tolerance {'the least' if stream.tolerance is None else stream.tolerance}"
    mesh = "" if stream.nodes is None else f", on a mesh of {stream.nodes} nodes ({catalogue.place.name(stream.mesh)})"
    tiers = ", ".join(f"{zone}={url}" for url, zone in stream.tiers)
    return f"{stream.codec}, {kept}{mesh}, {'ended' if catalogue.look()[1] else 'not ended'}; {tiers}"


def _document(manifest: "Manifest", nodes: int | None) -> dict[str, Any]:
    return {
        "step": manifest.number,
        "dtype": manifest.dtype,
        "shape": list(manifest.shape) if nodes is None else [nodes],
        "nodes": nodes,
        "codec": manifest.codec,
        "base_bytes": manifest.base_end,
        "total_bytes": manifest.total_bytes,
        "tier_bytes": [part.length for part in manifest.parts],
    }


def _steps_table(manifests: "list[Manifest]", nodes: int | None) -> tuple[tuple[str, ...], list[tuple[object, ...]]]:
    from weir.adaptive.manifest import spelled

    tiers = max((len(manifest.parts) for manifest in manifests), default=0)
    header = ("STEP", "ARRAY", "CODEC", "BASE", "TOTAL", *(f"TIER {tier}" for tier in range(tiers)))
    rows: list[tuple[object, ...]] = [
        (
            manifest.number,
            spelled(manifest.dtype, manifest.shape, nodes),
            manifest.codec,
            size(manifest.base_end),
            size(manifest.total_bytes),
            *(size(part.length) for part in manifest.parts),
        )
        for manifest in manifests
    ]
    return header, rows
