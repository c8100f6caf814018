"""Files of one step: numpy's, and netCDF's."""

import io
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import numpy

from weir.adaptive.errors import AdaptiveError
from weir.distribution import install_command

if TYPE_CHECKING:
    from collections.abc import Callable

    from weir.adaptive.reader import Step

_NETCDF = (".nc", ".nc4")
_VARIABLE = "data"
"""Name of the variable: a stream does not know the name that its arrays had."""


def writer_of(path: Path) -> "Callable[[BinaryIO, Step], None]":
    """Find the format that the end of a file's name says.

    Args:
        path: Path of the file, which need not exist.

    Returns:
        A function that writes a step to the opened file.

    Raises:
        AdaptiveError: The name has another end, or the package that writes the format is not installed.
    """
    if path.suffix == ".npy":
        return _write_npy
    if path.suffix not in _NETCDF:
        raise AdaptiveError(
            f"the name {path.name} does not say which format the file is to have",
            hint=f"let it end with .npy, {' or '.join(_NETCDF)}",
        )
    try:
        import h5netcdf  # noqa: F401
    except ImportError as error:
        raise AdaptiveError(f"{path.name} cannot be written: {error}", hint=install_command("netcdf")) from error
    return _write_netcdf


def _write_npy(file: BinaryIO, step: "Step") -> None:
    numpy.save(file, step.data, allow_pickle=False)


def _write_netcdf(file: BinaryIO, step: "Step") -> None:
    """Write a variable with the step's fill values, and the bounds of its errors as attributes."""
    import h5netcdf

    content = io.BytesIO()
    fills = numpy.array(step.fill, dtype=step.data.dtype)
    axes = {f"axis_{number}": length for number, length in enumerate(step.data.shape)}
    with h5netcdf.File(content, "w") as written:
        written.dimensions = axes
        variable = written.create_variable(
            _VARIABLE, tuple(axes), step.data.dtype, data=step.data, fillvalue=fills[0] if fills.size else None
        )
        if fills.size > 1:
            variable.attrs["missing_value"] = fills[1:]
        variable.attrs["max_error"], variable.attrs["rmse"] = step.max_error, step.rmse
        written.attrs["step"] = step.number
    file.write(content.getbuffer())
