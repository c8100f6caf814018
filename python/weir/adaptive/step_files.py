"""Formats of files that steps are written to, by the ends of their names."""

from enum import StrEnum
from pathlib import Path

from weir.adaptive.errors import AdaptiveError
from weir.distribution import install_command

_NETCDF = (".nc", ".nc4")


class Format(StrEnum):
    """The format of a file."""

    NPY = "npy"
    """One array of numpy."""
    NETCDF = "netcdf"
    """Named variables."""


def format_of(path: Path) -> Format:
    """Find the format that the end of a file's name says.

    Args:
        path: Path of the file, which need not exist.

    Raises:
        AdaptiveError: The name has another end, or the package that writes the format is not installed.
    """
    if path.suffix == ".npy":
        return Format.NPY
    if path.suffix not in _NETCDF:
        raise AdaptiveError(
            f"the name {path.name} does not say which format the file is to have",
            hint=f"let it end with .npy, {' or '.join(_NETCDF)}",
        )
    try:
        import h5netcdf  # noqa: F401
    except ImportError as error:
        raise AdaptiveError(f"{path.name} cannot be written: {error}", hint=install_command("netcdf")) from error
    return Format.NETCDF
