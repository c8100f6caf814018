"""Readers of arrays in users' files: numpy's, HDF5's, netCDF's, Zarr's, and bytes alone."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from weir.cli.errors import CommandError
from weir.distribution import install_command

if TYPE_CHECKING:
    import numpy

    from weir.adaptive.packed import Field

_HDF5 = {".h5", ".hdf5", ".nc", ".nc4"}
_MESH = ("coordinates", "points", "cells", "connectivity")
"""Usual names of the mesh in a file of several arrays, the best one for an order of nodes first."""
_NAMED_MAX = 12
"""Most datasets that a message names."""
_Stored = tuple["numpy.ndarray[Any, Any]", dict[str, Any]]
"""Stored values, and those attributes that tell their meaning."""
_CLASSIC = b"CDF"
"""First bytes of netCDF files before version 4."""


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
        The arrays, of the shape in the file, or without its first axis where stacked. Packed variables are in their
        own units; others have the dtype in the file.

    Raises:
        CommandError: A source holds no such array.
    """
    from weir.adaptive.packed import Field, field_of

    for source in sources:
        stored, attributes = _read(replace(source, dataset=source.dataset or dataset), dtype, shape)
        try:
            field = field_of(stored, attributes, given=fill)
        except ValueError as error:
            raise CommandError(f"{source} cannot be refactored: {error}") from error
        if not stacked:
            yield field
            continue
        if stored.ndim < 2:
            raise CommandError(f"{source}: an array of {stored.ndim} dimensions has no steps along its first axis")
        yield from (Field(values, field.fill) for values in field.values)


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
    try:
        return _array(source, dtype, shape)
    except CommandError:
        raise
    except Exception as error:
        # Each reader of a format has errors of its own. `str` of a KeyError is its key's `repr`.
        words = error.args[0] if isinstance(error, KeyError) and error.args else error
        hint = "give .npy, .npz, HDF5, netCDF or Zarr, the last ones as FILE:DATASET, or --dtype and --shape"
        raise CommandError(f"{source} holds no array: {words}", hint=hint) from error


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


def parse_region(context: click.Context, parameter: click.Parameter, text: str | None) -> tuple[slice, ...] | None:
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
    region = []
    for axis in text.split(","):
        begin, colon, end = axis.partition(":")
        try:
            region.append(slice(int(begin) if begin else None, int(end) if end else None))
        except ValueError:
            colon = ""
        if not colon:
            raise click.BadParameter(f"`{text}` is no region; write it as in 0:64,:,10:20", context, parameter)
    return tuple(region)


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
    if path.is_dir():
        return _from_zarr(source)
    if source.dataset is not None or path.suffix in _HDF5:
        return _from_classic(source) if _begins(path, _CLASSIC) else _from_hdf5(source)
    if dtype is None or shape is None:
        raise ValueError("bytes alone need --dtype and --shape")
    return numpy.fromfile(path, dtype=dtype).reshape(shape), {}


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


def _begins(path: Path, magic: bytes) -> bool:
    with path.open("rb") as file:
        return file.read(len(magic)) == magic


def _from_hdf5(source: Source) -> "_Stored":
    try:
        import h5py
    except ImportError as error:
        raise CommandError("h5py is not installed", hint="pip install h5py") from error
    names: list[str] = []
    with h5py.File(source.path, "r") as file:
        file.visititems(lambda name, item: names.append(name) if isinstance(item, h5py.Dataset) else None)
        dataset = file[_chosen(source.dataset, names)]
        _check_room(dataset.nbytes)
        found: numpy.ndarray[Any, Any] = dataset[...]
        return found, dict(dataset.attrs)


def _from_classic(source: Source) -> "_Stored":
    from weir.adaptive.packed import NAMES

    try:
        from scipy.io import netcdf_file
    except ImportError as error:
        hint = "pip install scipy, or convert the file: nccopy -k nc4 OLD NEW"
        raise CommandError(f"{source.path} is a classic netCDF file, which needs scipy", hint=hint) from error
    with netcdf_file(source.path, mmap=False) as file:
        variable = file.variables[_chosen(source.dataset, list(file.variables))]
        return variable[:], {name: getattr(variable, name) for name in NAMES if hasattr(variable, name)}


def _from_zarr(source: Source) -> "_Stored":
    import numpy

    try:
        import zarr
    except ImportError as error:
        raise CommandError("zarr is not installed", hint=install_command("zarr")) from error
    node = zarr.open(source.path, mode="r")
    if isinstance(node, zarr.Group):
        names = [name for name, member in node.members(max_depth=None) if isinstance(member, zarr.Array)]
        node = node[_chosen(source.dataset, names)]
    if not isinstance(node, zarr.Array):
        raise ValueError("it is a group of arrays")
    _check_room(node.nbytes)
    attributes = dict(node.attrs)
    if node.fill_value is not None and node.fill_value != 0:
        # Zarr fills with 0 where nobody chose a value, so a 0 says nothing.
        attributes.setdefault("_FillValue", node.fill_value)
    return numpy.asarray(node[...]), attributes


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
