"""Streams of named variables for `weir adapt`: from files with names, and to netCDF."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from weir.cli.adapt.arrays import Source, is_file_of_names, refused, variable_of
from weir.cli.common.errors import CommandError
from weir.cli.common.output import Row, size

if TYPE_CHECKING:
    from weir.adaptive.named.dataset import Dataset
    from weir.adaptive.named.reader import DatasetReader
    from weir.adaptive.named.summary import Held
    from weir.adaptive.reader import Step
    from weir.adaptive.region import Region
    from weir.adaptive.tiers import TierLike

HEADER = ("VARIABLE", "ARRAY", "UNITS", "KEPT AS", "TOLERANCE", "STEPS", "BYTES")


def have_names(sources: Sequence[Source], dataset: str | None) -> bool:
    """Whether all sources are files of named variables."""
    return all(is_file_of_names(replace(each, dataset=each.dataset or dataset)) for each in sources)


def holds_names(tiers: "Sequence[TierLike]") -> bool:
    """Whether the first tier holds a stream with names."""
    from weir.adaptive.catalogue import place_of
    from weir.adaptive.manifest import NAMES
    from weir.adaptive.tiers import tiers_of

    return NAMES in place_of(tiers_of(tiers)[0]).names()


def holds_nothing(tiers: "Sequence[TierLike]") -> bool:
    """Whether the first tier holds no stream."""
    from weir.adaptive.catalogue import place_of
    from weir.adaptive.manifest import STREAM
    from weir.adaptive.tiers import tiers_of

    return not holds_names(tiers) and STREAM not in place_of(tiers_of(tiers)[0]).names()


def refactor_named(sources: Sequence[Source], tiers: "Sequence[TierLike]", options: dict[str, Any]) -> "list[Held]":
    """Write files of named variables as the steps of a stream.

    Args:
        options: `dataset`, `along`, `stacked` and `fill` of the command, and those of `DatasetWriter`.

    Raises:
        CommandError: A source holds no such array.
    """
    from weir.adaptive.named.reader import DatasetReader
    from weir.adaptive.named.schema import STEP
    from weir.adaptive.named.summary import held_by
    from weir.adaptive.named.writer import DatasetWriter, one_step

    given = {name: options.pop(name) for name in ("dataset", "along", "stacked", "fill")}
    writer: DatasetWriter | None = None
    for source in sources:
        with ExitStack() as files:
            dataset, name = _opened(files, source, given["dataset"], given["fill"])
            along = _along(dataset, name, given)
            if name is not None and isinstance(options["tolerance"], float):
                options["tolerance"] = {name: options["tolerance"]}
            if along is None and len(sources) > 1:
                along, dataset = STEP, one_step(dataset, STEP)
            writer = writer or DatasetWriter(tiers, along=along, **options)
            writer.write(dataset)
    assert writer is not None
    writer.end()
    with DatasetReader(tiers) as reader:
        return held_by(reader)


def _opened(
    files: ExitStack, source: Source, dataset: str | None, fill: tuple[float, ...]
) -> "tuple[Dataset, str | None]":
    """The variables of a source; of one variable that is named, those that describe its cells, too."""
    from weir.adaptive.encoding import with_fills
    from weir.adaptive.named.files import names_in, opened

    source = replace(source, dataset=source.dataset or dataset)
    with refused(source):
        if source.dataset is None and any("/" not in each and each for each in names_in(source.path)):
            found, name = files.enter_context(opened(source.path)), None
        else:
            found, name = files.enter_context(variable_of(source))
            found = found.with_coordinates([name])
            if not name:
                found = replace(found, variables={"data": found.variables[""]})
    wanted = found.variables if name is None else {name or "data"}
    try:
        variables = {
            key: replace(each, attributes=with_fills(each.attributes, each.dtype, fill))
            if fill and key in wanted and key not in found.coordinates and each.dtype.kind in "fiu"
            else each
            for key, each in found.variables.items()
        }
    except ValueError as error:
        raise CommandError(f"{source} cannot be refactored: {error}") from error
    return replace(found, variables=variables), name


def _along(dataset: "Dataset", name: str | None, given: dict[str, Any]) -> str | None:
    """The dimension of the steps."""
    from weir.adaptive.named.plan import usual_dimension

    if given["along"] is not None:
        return str(given["along"])
    if given["stacked"]:
        largest = max(dataset.variables, key=lambda each: len(dataset.variables[each].dims))
        chosen = largest if name is None else name or "data"
        dims = dataset.variables[chosen].dims
        if len(dims) < 2:
            raise CommandError(f"{chosen}: an array of {len(dims)} dimensions has no steps along its first axis")
        return dims[0]
    return usual_dimension(dataset) if name is None else None


def table_of(held: "Sequence[Held]") -> tuple[list[dict[str, Any]], list[Row]]:
    """The variables of a stream as a document and as rows of a table."""
    rows: list[Row] = [
        (
            each.variable,
            f"{each.dtype} ({', '.join(f'{dim} {length}' for dim, length in zip(each.dims, each.shape, strict=True))})",
            each.units or "-",
            each.kind,
            f"{each.tolerance:g}" if each.tolerance else "exact",
            each.steps,
            "-" if each.tier_bytes is None else " + ".join(map(size, each.tier_bytes)),
        )
        for each in held
    ]
    return [asdict(each) for each in held], rows


def taken(
    reader: "DatasetReader", number: int | None, names: Sequence[str], region: "Region | None"
) -> "tuple[Dataset, dict[str, Step]]":
    """Read one step of a stream, or all.

    Args:
        number: Number of the step; None is all.
        names: The variables that are wanted; empty wants all.
        region: A slice for each dimension of the streamed variables but that of the steps; None is all.

    Raises:
        CommandError: The streamed variables have other dimensions than each other, so that a region names none.
    """
    places = None if region is None else _places(reader, names, region)
    if number is not None:
        return reader.taken(number, names=names or None, region=places)
    dataset = reader.dataset()
    wanted = dataset if not names else dataset.with_coordinates([reader.variable(name).name for name in names])
    return (wanted if places is None else wanted.at(places)), {}


def _places(reader: "DatasetReader", names: Sequence[str], region: "Region") -> dict[str, slice]:
    from weir.adaptive.region import cut_of

    streamed = [each for each in reader.schema.streamed if not names or each.name in names]
    dims = {tuple(dim for dim in each.dims if dim != reader.schema.along) for each in streamed}
    if len(dims) != 1:
        raise CommandError("the variables have other dimensions than each other", hint="choose one with --variable")
    (chosen,) = dims
    sizes = reader.sizes
    lengths = [sizes[dim] for dim in chosen]
    bounds = cut_of(region, lengths)
    return {
        dim: _slice(begin, end, pick)
        for dim, (begin, end), pick in zip(chosen, bounds.bounds, bounds.picks, strict=True)
    }


def _slice(begin: int, end: int, pick: slice) -> slice:
    step = pick.step or 1
    if step > 0:
        return slice(begin, end, step)
    return slice(end - 1, begin - 1 if begin else None, step)


def costs_of(steps: "dict[str, Step]") -> Iterator[dict[str, Any]]:
    """The costs and the errors of each streamed variable, as documents."""
    for name, step in steps.items():
        yield {"variable": name, **cost_of(step)}


def cost_of(step: "Step") -> dict[str, Any]:
    """The cost and the errors of one step, as a document."""
    return {
        "step": step.number,
        "bytes_read": step.bytes_read,
        "seconds": step.seconds,
        "augmentation": step.augmentation,
        "rmse": step.rmse,
        "max_error": step.max_error,
        "late": step.late,
        "problems": list(step.problems),
        "fill": list(step.fill),
    }
