"""`weir adapt refactor`: arrays as the steps of a stream."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from weir.cli.adapt import named as by_name
from weir.cli.adapt.arrays import (
    Source,
    arrays_of,
    mesh_of,
    parse_dtype,
    parse_fill,
    parse_shape,
    parse_tolerance,
)
from weir.cli.adapt.steps import TIER
from weir.cli.common.amounts import parse_amount
from weir.cli.common.output import output_option, show
from weir.cli.common.parameters import Checked

if TYPE_CHECKING:
    from weir.adaptive.manifest import Manifest
    from weir.adaptive.named.plan import Tolerance
from weir.cli.adapt.manifests import document, steps_table, warnings_said


def _known_codec(text: str) -> None:
    from weir.adaptive.containers import check

    check(text, is_kept=True)


@click.command(name="refactor")
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
    help="Largest error of a whole step, in the units of the data: of one variable, or of all measured variables.",
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
    with warnings_said():
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
        with warnings_said(), writer:
            for field in arrays:
                manifests.append(writer.write(field.values, attributes=field.attributes))
    finally:
        # The written steps stay, even if a later one failed.
        if manifests:
            nodes = writer.nodes
            show(output, [document(each, nodes) for each in manifests], *steps_table(manifests, nodes))
