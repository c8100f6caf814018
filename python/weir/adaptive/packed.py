"""Packed variables of netCDF, HDF5 and Zarr: stored values with a scale, an offset and fill values."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy

from weir.adaptive.fills import ATTRIBUTES, FillLike, fills_of, stated_in

_FACTORS = ("scale_factor", "add_offset")
NAMES = (*ATTRIBUTES, *_FACTORS, "_Unsigned")
"""Attributes of a variable that tell the meaning of its stored values."""


@dataclass(frozen=True)
class Field:
    """An array with its fill values.

    Attributes:
        values: The array; of a packed variable in the variable's units, with NaN where it has a fill value.
        fill: Fill values of the array; None where nothing is stated.
    """

    values: numpy.ndarray[Any, Any]
    fill: FillLike | None


def field_of(stored: numpy.ndarray[Any, Any], attributes: Mapping[str, Any], *, given: tuple[float, ...] = ()) -> Field:
    """Find the meaning of stored values, by the conventions for climate and forecast metadata (sections 2.5.1 and 8.1).

    Args:
        stored: The values in the file.
        attributes: Attributes of the variable.
        given: Further fill values of the stored values, by the user.

    Returns:
        The array. Packed values have the type of scale and offset, and are doubles where these are integers.

    Raises:
        ValueError: A given fill value is no value of the stored type; scale or offset is no number.
    """
    stored = numpy.asarray(stored) if isinstance(stored, numpy.ma.MaskedArray) else stored
    stated = stated_in(attributes)
    fills = numpy.concatenate([fills_of(given, stored.dtype), fills_of(stated, stored.dtype, lenient=True)])
    if _text(attributes.get("_Unsigned")) == "true" and stored.dtype.kind == "i":
        unsigned = numpy.dtype(stored.dtype.str.replace("i", "u"))
        stored, fills = stored.view(unsigned), fills.view(unsigned.newbyteorder("="))
    factors = {name: _factor(name, attributes[name]) for name in _FACTORS if name in attributes}
    if not factors:
        return Field(stored, fills.tolist() if given or fills.size else None)
    floats = [factor.dtype for factor in factors.values() if factor.dtype.kind == "f"]
    dtype = numpy.result_type(*floats) if floats else numpy.dtype(numpy.float64)
    values = numpy.asarray(stored, dtype=dtype) * factors.get("scale_factor", dtype.type(1)).astype(dtype)
    values += factors.get("add_offset", dtype.type(0)).astype(dtype)
    values[numpy.isin(stored, fills)] = numpy.nan
    return Field(values, numpy.nan)


def _factor(name: str, value: Any) -> Any:
    factor = numpy.asarray(value).ravel()
    if factor.size != 1 or factor.dtype.kind not in "fiu" or not numpy.isfinite(factor[0]):
        raise ValueError(f"its {name} is {value!r}, and no number")
    return factor[0]


def _text(value: Any) -> str:
    return (value.decode("latin-1") if isinstance(value, bytes) else str(value)).lower()
