"""Readers of arrays in users' files: numpy's, HDF5's, netCDF's, Zarr's, and bytes alone."""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import EllipsisType
from typing import TYPE_CHECKING, Any

import click

from weir.cli.common.errors import CommandError

if TYPE_CHECKING:
    import numpy

    from weir.adaptive.named.dataset import Dataset
    from weir.adaptive.region import Region

_MESH = ("coordinates", "points", "cells", "connectivity")
"""Usual names of the mesh in a file of several arrays, the best one for an order of nodes first."""
_NAMED_MAX = 12
"""Most datasets that a message names."""
_Stored = tuple["numpy.ndarray[Any, Any]", dict[str, Any]]
"""Stored values, and their attributes."""


@dataclass(frozen=True)
class Field:
    """An array, and the attributes that tell its meaning.

    Attributes:
        values: The values as they are in the file.
        attributes: Attributes of the variable, with the fill values that the user states besides.
    """

    values: "numpy.ndarray[Any, Any]"
    attributes: dict[str, Any]


@dataclass(frozen=True)
class Source:
    """An array in a file.

    Attributes:
        path: Path of the file, or of the folder of a Zarr array or group.
        dataset: Name of the array in a file with several; None where no name is given.
    """

    path: Path
    dataset: str | None = None

    @staticmethod
    def parse(text: str) -> "Source":
        """Read a source from a text.

        Args:
            text: `PATH[:DATASET]`.

        Raises:
            CommandError: There is no such file.
        """
        if Path(text).exists():
            return Source(Path(text))
        path, colon, dataset = text.rpartition(":")
        if colon and dataset and Path(path).exists():
            return Source(Path(path), dataset)
        raise CommandError(
            f"there is no file {text}", hint="name a file, or FILE:DATASET of one that holds several arrays"
        )

    def __str__(self) -> str:
        """The source in the user's spelling."""
        return str(self.path) if self.dataset is None else f"{self.path}:{self.dataset}"


def arrays_of(
    sources: Sequence[Source],
    *,
    dataset: str | None,
    dtype: str | None,
    shape: Sequence[int] | None,
    stacked: bool,
    fill: tuple[float, ...] = (),
) -> "Iterator[Field]":
    """Read the array of each source; those along its first axis where sources are stacked.

    Args:
        sources: Sources: `.npy`, `.npz`, HDF5, netCDF, Zarr, or bytes alone.
        dataset: Name of the array in sources that do not name it themselves.
        dtype: Type of bytes alone, in numpy's spelling.
        shape: Shape of bytes alone.
        stacked: Whether the first axis counts steps.
        fill: Fill values, besides those that the sources state.

    Yields:
        The arrays, of the dtype and shape in the file, or without its first axis where stacked.

    Raises:
        CommandError: A source holds no such array.
    """
    from weir.adaptive.encoding import with_fills

    for source in sources:
        stored, attributes = _read(replace(source, dataset=source.dataset or dataset), dtype, shape)
        try:
            attributes = with_fills(attributes, stored.dtype, fill)
        except ValueError as error:
            raise CommandError(f"{source} cannot be refactored: {error}") from error
        if not stacked:
            yield Field(stored, attributes)
            continue
        if stored.ndim < 2:
            raise CommandError(f"{source}: an array of {stored.ndim} dimensions has no steps along its first axis")
        yield from (Field(values, attributes) for values in stored)


def mesh_of(text: str) -> "numpy.ndarray[Any, Any]":
    """Read the mesh of a file: an array of its own, or `coordinates` or `cells` of a `.npz` file.

    Args:
        text: `PATH[:DATASET]`.

    Returns:
        The cells or coordinates, of the dtype and shape in the file.

    Raises:
        CommandError: There is no such array.
    """
    source = Source.parse(text)
    if source.dataset is None and source.path.suffix == ".npz":
        import numpy

        try:
            names = set(numpy.load(source.path, allow_pickle=False).files)
        except Exception as error:
            raise CommandError(
                f"{source} holds no mesh: {error}", hint="give a .npz file with its cells or nodes"
            ) from error
        # Coordinates give an order along as many axes as they have, and so nearer neighbours.
        source = next((replace(source, dataset=name) for name in _MESH if name in names), source)
    return _read(source, None, None)[0]


def _read(source: Source, dtype: str | None, shape: Sequence[int] | None) -> "_Stored":
    with refused(source):
        return _array(source, dtype, shape)


def parse_shape(context: click.Context, parameter: click.Parameter, text: str | None) -> tuple[int, ...] | None:
    """Read a shape, such as `64x64x64`.

    Args:
        context: Click's context, for the error.
        parameter: Click's parameter, for the error.
        text: Value of the option; None where it is not given.

    Returns:
        The shape; None where the option is not given.

    Raises:
        click.BadParameter: The text is no shape.
    """
    if text is None:
        return None
    try:
        shape = tuple(int(length) for length in text.split("x"))
    except ValueError:
        shape = (0,)
    if any(length < 1 for length in shape):
        raise click.BadParameter(f"`{text}` is no shape; write it as in 91x91x91", context, parameter)
    return shape


def parse_dtype(text: str) -> None:
    """Refuse a text that is no type of numpy.

    Args:
        text: The type, in numpy's spelling.

    Raises:
        ValueError: There is no such type.
    """
    import numpy

    try:
        numpy.dtype(text)
    except TypeError as error:
        raise ValueError(f"`{text}` is no type of numpy, such as float32") from error


def parse_fill(text: str) -> float:
    """Read a fill value.

    Args:
        text: The number.

    Returns:
        The number.

    Raises:
        ValueError: The text is no number.
    """
    from weir.adaptive import fills

    return fills.parse_fill(text)


def parse_tolerance(text: str) -> tuple[str | None, float]:
    """Read a tolerance: an error, or VARIABLE=ERROR.

    Returns:
        The name of the variable, None where none is named, and the error.

    Raises:
        ValueError: The text is no error above 0.
    """
    name, equals, number = text.rpartition("=")
    try:
        error = float(number)
    except ValueError:
        error = math.nan
    if not 0.0 < error < math.inf or (equals and not name):
        raise ValueError(f"`{text}` is no tolerance; it is a number above 0, or VARIABLE=NUMBER")
    return name or None, error


def parse_region(context: click.Context, parameter: click.Parameter, text: str | None) -> "Region | None":
    """Read a region, such as `0:64,:,10:20`.

    Args:
        context: Click's context, for the error.
        parameter: Click's parameter, for the error.
        text: Value of the option; None where it is not given.

    Returns:
        A slice for each axis; None where the option is not given.

    Raises:
        click.BadParameter: The text is no region.
    """
    if text is None:
        return None
    try:
        region = tuple(_part(part.strip()) for part in text.split(","))
    except ValueError:
        region = ()
    if not region or region.count(...) > 1:
        raise click.BadParameter(f"`{text}` is no region; write it as in 0:64,:,10:20", context, parameter)
    return region


def _part(text: str) -> slice | EllipsisType:
    """The part of one axis: `...`, or a slice."""
    if text == "...":
        return ...
    numbers = [int(number) if number else None for number in text.split(":")]
    if not 2 <= len(numbers) <= 3:
        raise ValueError(text)
    return slice(*numbers)


def _array(source: Source, dtype: str | None, shape: Sequence[int] | None) -> "_Stored":
    import numpy

    path = source.path
    if path.suffix == ".npy":
        array: numpy.ndarray[Any, Any] = numpy.load(path, mmap_mode="r", allow_pickle=False)
        return array, {}
    if path.suffix == ".npz":
        with numpy.load(path, allow_pickle=False) as file:
            name = _chosen(source.dataset, list(file.files))
            _check_room(_packed_bytes(path, name))
            return numpy.asarray(file[name]), {}
    if is_file_of_names(source):
        return _named(source)
    if dtype is None or shape is None:
        raise ValueError("bytes alone need --dtype and --shape")
    return numpy.fromfile(path, dtype=dtype).reshape(shape), {}


def is_file_of_names(source: Source) -> bool:
    """Whether a source is a file whose format knows names: netCDF, HDF5 or Zarr."""
    from weir.adaptive.named.files import SUFFIXES

    if source.path.suffix in {".npy", ".npz"}:
        return False
    return source.path.is_dir() or source.dataset is not None or source.path.suffix in SUFFIXES


def _named(source: Source) -> "_Stored":
    """The array of a file of named variables, and its attributes."""
    with variable_of(source) as (dataset, name):
        variable = dataset.variables[name]
        _check_room(math.prod(variable.shape) * variable.dtype.itemsize)
        return variable.loaded(), dict(variable.attributes)


@contextmanager
def variable_of(source: Source) -> "Iterator[tuple[Dataset, str]]":
    """Open the group of a file that holds the named array, or the only one.

    Args:
        source: A file of named variables.

    Yields:
        The variables of the group, and the name of the array among them.

    Raises:
        CommandError: The file cannot be read, or holds no such array.
    """
    from weir.adaptive.named.files import names_in, opened

    with refused(source):
        group, _, name = _chosen(source.dataset, names_in(source.path)).strip("/").rpartition("/")
    with opened(source.path, group) as dataset:
        yield dataset, name


@contextmanager
def refused(source: Source) -> Iterator[None]:
    """Name the source in errors of readers of formats, which each have errors of their own.

    Raises:
        CommandError: The block has failed.
    """
    from weir.adaptive.errors import AdaptiveError

    try:
        yield
    except (CommandError, AdaptiveError):
        raise
    except Exception as error:
        # `str` of a KeyError is its key's `repr`.
        words = error.args[0] if isinstance(error, KeyError) and error.args else error
        hint = "give .npy, .npz, HDF5, netCDF or Zarr, the last ones as FILE:DATASET, or --dtype and --shape"
        raise CommandError(f"{source} holds no array: {words}", hint=hint) from error


def _chosen(dataset: str | None, names: Sequence[str]) -> str:
    """The named array, or the only one."""
    if dataset is None and len(names) == 1:
        return names[0]
    there = f"it has {', '.join(sorted(names)[:_NAMED_MAX]) or 'none'}"
    if dataset is None:
        raise ValueError(f"it does not say which dataset; {there}")
    if dataset.strip("/") not in {name.strip("/") for name in names}:
        raise ValueError(f"there is no dataset {dataset}; {there}")
    return dataset


def _packed_bytes(path: Path, name: str) -> int:
    """The size of an array in a `.npz` file, as the array's own header has it."""
    import zipfile

    from numpy.lib import format as npy

    with zipfile.ZipFile(path) as archive, archive.open(f"{name}.npy") as file:
        version = npy.read_magic(file)
        read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
        shape, _, dtype = read(file)
    return math.prod(shape) * int(dtype.itemsize)


def _check_room(size: int) -> None:
    """Refuse an array for which there is no memory: a small compressed file may hold any."""
    free = next(line for line in Path("/proc/meminfo").read_text().splitlines() if line.startswith("MemAvailable"))
    available = int(free.split()[1]) << 10
    if size > available:
        raise ValueError(f"it has {size >> 20} MiB, and {available >> 20} MiB of memory are free")
