"""Arrays from the files that users have: numpy's, HDF5's, and bytes alone."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from weir.cli.errors import Failure

if TYPE_CHECKING:
    import numpy

_HDF5 = {".h5", ".hdf5", ".nc", ".nc4"}


def arrays_of(
    paths: Sequence[Path], *, dataset: str | None, dtype: str | None, shape: Sequence[int] | None, stacked: bool
) -> "Iterator[numpy.ndarray[Any, Any]]":
    """The array of each file, or where they are `stacked`, those along its first axis.

    Args:
        paths: `.npy`, HDF5, or bytes alone.
        dataset: Of HDF5 files.
        dtype: Of bytes alone, as numpy spells it.
        shape: Of bytes alone.
        stacked: Whether the first axis counts steps.

    Raises:
        Failure: A file holds no such array.
    """
    for path in paths:
        try:
            array = _array(path, dataset, dtype, shape)
        except (OSError, ValueError, KeyError, TypeError) as error:
            hint = "give .npy, or --dataset, or --dtype and --shape"
            raise Failure(f"{path} holds no array: {error}", hint=hint) from error
        if not stacked:
            yield array
            continue
        if array.ndim < 2:
            raise Failure(f"{path}: an array of {array.ndim} dimensions has no steps along its first axis")
        yield from array


def parse_shape(context: click.Context, parameter: click.Parameter, text: str | None) -> tuple[int, ...] | None:
    """The shape that `64x64x64` means."""
    if text is None:
        return None
    try:
        shape = tuple(int(length) for length in text.split("x"))
    except ValueError:
        shape = (0,)
    if any(length < 1 for length in shape):
        raise click.BadParameter(f"`{text}` is no shape; write it as in 91x91x91", context, parameter)
    return shape


def parse_region(context: click.Context, parameter: click.Parameter, text: str | None) -> tuple[slice, ...] | None:
    """The slices that `0:64,:,10:20` means."""
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


def _array(
    path: Path, dataset: str | None, dtype: str | None, shape: Sequence[int] | None
) -> "numpy.ndarray[Any, Any]":
    import numpy

    if path.suffix == ".npy":
        array: numpy.ndarray[Any, Any] = numpy.load(path, mmap_mode="r", allow_pickle=False)
        return array
    if dataset is not None or path.suffix in _HDF5:
        return _from_hdf5(path, dataset)
    if dtype is None or shape is None:
        raise ValueError("bytes alone need --dtype and --shape")
    return numpy.fromfile(path, dtype=dtype).reshape(shape)


def _from_hdf5(path: Path, dataset: str | None) -> "numpy.ndarray[Any, Any]":
    try:
        import h5py
    except ImportError as error:
        raise Failure("h5py is not installed", hint="pip install h5py") from error
    if dataset is None:
        raise ValueError("say which --dataset of the HDF5 file")
    with h5py.File(path, "r") as file:
        found: numpy.ndarray[Any, Any] = file[dataset][...]
        return found
