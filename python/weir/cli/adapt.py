"""`weir adapt`: arrays refactored onto tiers, and read as accurately as shared storage allows."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from weir.cli.adapt_steps import TIER, steps
from weir.cli.amounts import parse_amount
from weir.cli.arrays import Source, arrays_of, mesh_of, parse_dtype, parse_fill, parse_region, parse_shape
from weir.cli.errors import CommandError, say, warn
from weir.cli.output import output_option, show, size
from weir.cli.parameters import FILE, Checked, Number
from weir.ways import replacing

if TYPE_CHECKING:
    from weir.adaptive.catalogue import Catalogue
    from weir.adaptive.manifest import Manifest
    from weir.adaptive.policy import Accuracy


@click.group()
def adapt() -> None:
    """Refactor arrays onto storage tiers, and read them as accurately as there is time for.

    A tier is a folder: a local path, a path on a mount, or any URL that fsspec opens, the fastest first. Its zone may
    stand before it, as in isolation=/fast/run, augmentation=/scratch/run or best-effort=s3://archive/run.
    """


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
@click.option("--codec", type=click.Choice(["planes", "decimate"]), default="planes")
@click.option("--tolerance", type=Number(0, min_open=True), help="Largest error of a whole step.")
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
@click.option("--threads", type=click.IntRange(1), default=1)
@output_option
def refactor_arrays(inputs: tuple[str, ...], tiers: tuple[str, ...], output: str, **options: Any) -> None:
    """Write arrays as the steps of a stream: .npy, .npz, HDF5, netCDF, Zarr, or bytes alone."""
    from weir.adaptive.writer import Writer

    sources = [Source.parse(text) for text in inputs]
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
        with writer:
            for field in arrays:
                manifests.append(writer.write(field.values, fill=field.fill))
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
    """Show the steps of a stream, or the accuracy of one step by the bytes read.

    The first tier is enough: it names the others.
    """
    from weir.adaptive.catalogue import complete
    from weir.adaptive.contents import accuracies, manifest_of
    from weir.adaptive.errors import StepError

    places, catalogue = complete(tiers)
    if number is None:
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
        return
    lines = accuracies(places, number)
    header = ("BYTES", "TIER", "RMSE", "MAX ERROR", "BOUNDS")
    bounds = {True: "measured", False: "derived"}
    rows = [
        (size(line["bytes"]), line["tier"], f"{line['rmse']:.6g}", f"{line['max_error']:.6g}", bounds[line["measured"]])
        for line in lines
    ]
    show(output, lines, header, rows)


@adapt.command(name="reconstruct")
@click.argument("tiers", metavar="TIER...", nargs=-1, required=True, type=TIER)
@click.option("--step", "number", type=click.IntRange(0), required=True)
@click.option("--to", "target", required=True, type=FILE, help="A .npy or .nc file.")
@click.option(
    "--bytes", "bytes_max", metavar="SIZE", callback=parse_amount, help="Read no more than this, but always the base."
)
@click.option("--rmse", type=Number(0), help="Sufficient root mean square error.")
@click.option("--max-error", type=Number(0), help="Sufficient largest error of any value.")
@click.option("--relative", type=Number(0), help="Sufficient largest error, as part of the range of values.")
@click.option("--psnr", type=Number(0), help="Sufficient peak signal-to-noise ratio, in dB.")
@click.option("--base-only", is_flag=True, help="Touch no shared tier.")
@click.option("--region", callback=parse_region, help="A slice for each axis, as in 0:64,:,10:20.")
@click.option("--deadline", type=Number(0, min_open=True), help="Seconds after which the bytes that arrived are used.")
@click.option("--threads", type=click.IntRange(1), default=1)
@output_option
def reconstruct(tiers: tuple[str, ...], number: int, target: Path, output: str, **options: Any) -> None:
    """Write one step as a .npy or .nc file, as accurate as requested; by default as accurate as it is stored."""
    from weir.adaptive.reader import Reader
    from weir.adaptive.step_files import writer_of

    if not target.absolute().parent.is_dir():
        raise CommandError(f"{target} cannot be written: there is no folder {target.parent}", hint="make it before")
    write = writer_of(target)
    with _warnings():
        reader = Reader(
            tiers,
            policy="isolation" if options["base_only"] else "best-effort",
            accuracy=_accuracy(options),
            deadline_seconds=options["deadline"],
            region=options["region"],
            threads=options["threads"],
            tolerant=True,
        )
        with reader:
            step = reader.step(number)
    with replacing(target, mode=None) as file:
        write(file, step)
    document = {
        "step": step.number,
        "file": str(target),
        "bytes_read": step.bytes_read,
        "seconds": step.seconds,
        "augmentation": step.augmentation,
        "rmse": step.rmse,
        "max_error": step.max_error,
        "late": step.late,
        "problems": list(step.problems),
        "fill": list(step.fill),
    }
    row = (step.number, size(step.bytes_read), f"{step.rmse:.6g}", f"{step.max_error:.6g}", str(target))
    show(output, document, ("STEP", "READ", "RMSE", "MAX ERROR", "FILE"), [row])
    if step.late:
        say("the deadline came before all requested bytes")


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
