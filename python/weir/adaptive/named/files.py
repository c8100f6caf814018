"""Files of named variables: netCDF, HDF5 and Zarr, read as they are stored."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy

from weir.adaptive.errors import AdaptiveError
from weir.adaptive.fills import number_of
from weir.adaptive.named.dataset import Dataset, Variable
from weir.distribution import install_command

SUFFIXES = (".nc", ".nc4", ".cdf", ".h5", ".hdf5")
"""Ends of the names of files that hold named variables."""
_CLASSIC = b"CDF"
"""First bytes of netCDF files before version 4."""
_OUTSIDE = ("", ".", "..")
"""Parts of a name by which a foreign store could lead out of itself."""
_ZARR_DIMENSIONS = "_ARRAY_DIMENSIONS"
"""Attribute that names the dimensions of an array of Zarr version 2."""


@contextmanager
def opened(path: Path, group: str = "") -> Iterator[Dataset]:
    """Open a file, or a folder of Zarr.

    Args:
        group: Group whose variables are wanted; empty is the file's root.

    Yields:
        The variables, whose values are read where they are indexed.

    Raises:
        AdaptiveError: The package that reads the format is not installed.
        OSError: The file cannot be read, or is none of these formats.
        KeyError: There is no such group.
    """
    if any(part in _OUTSIDE for part in group.split("/")[bool(not group) :]):
        raise KeyError(f"there is no group {group}")
    if path.is_dir():
        yield _zarr(path, group)
    elif is_classic(path):
        with _classic(path) as dataset:
            yield dataset
    else:
        with _hdf5(path, group) as dataset:
            yield dataset


def names_in(path: Path) -> list[str]:
    """List the arrays of a file, of all its groups.

    Raises:
        AdaptiveError: The package that reads the format is not installed.
        OSError: The file cannot be read, or is none of these formats.
    """
    if path.is_dir():
        zarr = _zarr_package(path)
        node = zarr.open(path, mode="r")
        if not isinstance(node, zarr.Group):
            return [""]
        return [name for name, member in node.members(max_depth=None) if isinstance(member, zarr.Array)]
    if is_classic(path):
        with _classic(path) as dataset:
            return list(dataset.variables)
    with _hdf5_file(path) as file:
        return list(_below(file))


def _below(group: Any) -> Iterator[str]:
    yield from (f"{group.name}/{name}".strip("/") for name in group.variables)
    for each in group.groups.values():
        yield from _below(each)


def is_classic(path: Path) -> bool:
    """Whether a file is of netCDF before version 4."""
    with path.open("rb") as file:
        return file.read(len(_CLASSIC)) == _CLASSIC


@contextmanager
def _hdf5(path: Path, group: str) -> Iterator[Dataset]:
    with _hdf5_file(path) as file:
        node = file[group] if group else file
        variables = {
            name: Variable(tuple(each.dimensions), each, _plain(each.attrs)) for name, each in node.variables.items()
        }
        unlimited = tuple(name for name, each in node.dimensions.items() if each.isunlimited())
        yield Dataset(variables, _plain(node.attrs), unlimited)


def _hdf5_file(path: Path) -> Any:
    try:
        import h5netcdf
    except ImportError as error:
        raise AdaptiveError(f"h5netcdf is not installed, to read {path}", hint=install_command("netcdf")) from error
    return h5netcdf.File(path, "r", phony_dims="sort")


@contextmanager
def _classic(path: Path) -> Iterator[Dataset]:
    try:
        from scipy.io import netcdf_file
    except ImportError as error:
        hint = "pip install scipy, or convert the file: nccopy -k nc4 OLD NEW"
        raise AdaptiveError(f"{path} is a classic netCDF file, which needs scipy", hint=hint) from error
    opened_file: Any = netcdf_file(path, mmap=False)
    with opened_file as file:
        variables = {
            name: Variable(tuple(each.dimensions), _Array(each.data), _plain(each._attributes))
            for name, each in file.variables.items()
        }
        unlimited = tuple(name for name, length in file.dimensions.items() if length is None)
        yield Dataset(variables, _plain(file._attributes), unlimited)


def _zarr_package(path: Path) -> Any:
    try:
        import zarr
    except ImportError as error:
        raise AdaptiveError(f"zarr is not installed, to read {path}", hint=install_command("zarr")) from error
    return zarr


def _zarr(path: Path, group: str) -> Dataset:
    zarr = _zarr_package(path)
    node = zarr.open(path, mode="r", path=group)
    if isinstance(node, zarr.Array):
        # An array of its own has no name.
        return Dataset({"": _of_zarr(node)})
    arrays = {name: _of_zarr(each) for name, each in node.arrays() if name not in _OUTSIDE and "/" not in name}
    return Dataset(arrays, dict(node.attrs))


def _of_zarr(array: Any) -> Variable:
    attributes = dict(array.attrs)
    dims = getattr(array.metadata, "dimension_names", None) or attributes.pop(_ZARR_DIMENSIONS, None)
    if dims is None or None in dims:
        dims = [f"phony_dim_{axis}" for axis in range(array.ndim)]
    # Zarr fills with 0 where nobody chose a value, so a 0 says nothing.
    fill = attributes.pop("_FillValue", array.fill_value if array.fill_value != 0 else None)
    number = None if fill is None else number_of(fill)
    if number is not None and array.dtype.kind in "fiu":
        attributes["_FillValue"] = array.dtype.type(number)
    return Variable(tuple(map(str, dims)), array, attributes)


class _Array:
    """An array of any byte order, read as one of this machine's."""

    def __init__(self, values: Any) -> None:
        self._values = values
        self.shape, self.dtype = values.shape, values.dtype.newbyteorder("=")

    def __getitem__(self, key: Any) -> Any:
        return self._values[key].astype(self.dtype)


def _plain(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Attributes without the spellings of one format: texts are texts, and one number is no array."""
    found = {}
    for name, value in attributes.items():
        if isinstance(value, bytes):
            value = value.decode("utf-8", errors="replace")
        if isinstance(value, numpy.ndarray) and value.shape == (1,):
            value = value[0]
        if isinstance(value, numpy.ndarray | numpy.generic) and value.dtype.kind in "fiu":
            value = value.astype(value.dtype.newbyteorder("="))
        found[name] = value
    return found
