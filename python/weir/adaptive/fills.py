"""Fill values: values that mark the cells of an array as missing.

A container states its fill values. Cells that have one of them come back exactly, other cells never get one, and no
error counts them. `NaN` and infinities are kept in any array, stated or not.
"""

import base64
import binascii
import math
import struct
from collections.abc import Mapping, Sequence
from typing import Any

import numpy

FillLike = float | Sequence[float]
"""One fill value, or several."""
ATTRIBUTES = ("_FillValue", "missing_value")
"""Attributes that state fill values, by the conventions for climate and forecast metadata, section 2.5.1."""
FILLS_MAX = 8
"""Most fill values that a container states."""
DEFAULTS = {
    "i2": -32767,
    "i4": -2147483647,
    "i8": -9223372036854775806,
    "u2": 65535,
    "u4": 4294967295,
    "u8": 18446744073709551614,
    "f4": 9.969209968386869e36,
    "f8": 9.969209968386869e36,
}
"""Fill values of netCDF for variables that state none, by type (`NC_FILL_*` of netcdf.h); bytes have none."""


def parse_fill(text: str) -> float:
    """Read a fill value.

    Args:
        text: A number, `nan` and `inf` among them.

    Returns:
        The number; an integer, exactly, where the text has neither point nor exponent.

    Raises:
        ValueError: The text is no number.
    """
    try:
        return int(text)
    except ValueError:
        pass
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"`{text}` is no fill value; it is a number such as -9999 or nan") from None


def fills_of(fill: FillLike, dtype: numpy.dtype[Any], *, lenient: bool = False) -> numpy.ndarray[Any, Any]:
    """Bring fill values into the type of an array.

    Args:
        fill: One fill value, or several.
        dtype: Type of the array.
        lenient: Whether values that no cell can have are left out, as those of a file's attributes.

    Returns:
        The values, each once, of this type.

    Raises:
        ValueError: A value is no number, or no cell of the type can have it.
    """
    found: list[Any] = []
    for value in numpy.asarray(fill, dtype=object).ravel():
        sample = _sample(value, dtype)
        if sample is None and not lenient:
            raise ValueError(f"the fill value {value!r} is no value of {dtype}")
        if sample is not None and not any(sample == other or (sample != sample and other != other) for other in found):
            found.append(sample)
    return numpy.array(found, dtype=dtype)


def stated_in(attributes: Mapping[str, Any]) -> tuple[float, ...]:
    """Find the fill values that the attributes of an array state.

    Returns:
        The values of `_FillValue` and `missing_value`, in this order; empty where neither is there.
    """
    found: list[float] = []
    for name in ATTRIBUTES:
        for value in numpy.atleast_1d(numpy.asarray(attributes.get(name, ()))).ravel().tolist():
            number = number_of(value)
            if number is not None:
                found.append(number)
    return tuple(found)


def number_of(value: Any) -> float | None:
    """Read a number in the spelling of an attribute: of JSON, or xarray's, base64 of a little-endian double.

    Returns:
        The number; None where it is none.
    """
    if isinstance(value, bytes):
        value = value.decode("latin-1")
    if isinstance(value, str):
        try:
            return parse_fill(value)
        except ValueError:
            pass
        try:
            (number,) = struct.unpack("<d", base64.b64decode(value, validate=True))
        except (struct.error, binascii.Error, ValueError):
            return None
        return float(number)
    number = value.item() if isinstance(value, numpy.generic) else value
    return number if isinstance(number, int | float) and not isinstance(number, bool) else None


def _sample(value: Any, dtype: numpy.dtype[Any]) -> Any:
    """The value in an array's type; None where no cell of it can have the value."""
    number = value.item() if isinstance(value, numpy.generic) else value
    if not isinstance(number, int | float) or isinstance(number, bool):
        return None
    if dtype.kind == "f":
        try:
            with numpy.errstate(over="ignore"):
                sample = dtype.type(number)
        except OverflowError:
            return None
        return sample if numpy.isfinite(sample) or not math.isfinite(number) else None
    if dtype.kind not in "iu" or not math.isfinite(number) or number != int(number):
        return None
    limits = numpy.iinfo(dtype)
    return dtype.type(int(number)) if limits.min <= int(number) <= limits.max else None
