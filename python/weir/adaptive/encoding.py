"""The meaning of stored values by the conventions for climate and forecast metadata (sections 2.5.1 and 8.1).

Attributes of a variable state which cells are missing, and how stored values become values in the variable's units.
This module alone decides both, for every way in which arrays come in and go out.
"""

from collections.abc import Mapping
from typing import Any

import numpy

from weir.adaptive.fills import ATTRIBUTES, DEFAULTS, FILLS_MAX, FillLike, fills_of, number_of, stated_in

_FACTORS = ("scale_factor", "add_offset")
_VALID = ("valid_min", "valid_max", "valid_range")
NAMES = (*ATTRIBUTES, *_FACTORS, *_VALID, "_Unsigned")
"""Attributes of a variable that tell the meaning of its stored values."""

Array = numpy.ndarray[Any, Any]


class Encoding:
    """The meaning of the stored values of a variable.

    Attributes:
        dtype: Type of the stored values, in this machine's byte order.
        attributes: The attributes of the variable that tell the meaning.
        given: Further fill values of the stored values, by the user.
        counted_dtype: Type of the stored values as numbers: `_Unsigned` says that integers have the other sign.
        fills: Fill values, as numbers.
        is_stated: Whether something says which cells are missing; otherwise outliers of floats are taken for marks.
        is_packed: Whether values in units are not the stored numbers.
    """

    def __init__(
        self, dtype: numpy.dtype[Any], attributes: Mapping[str, Any] | None = None, *, given: FillLike | None = None
    ) -> None:
        """Find the meaning of stored values.

        Args:
            dtype: Type of the values in the file.
            attributes: Attributes of the variable; those that do not tell the meaning are left out.
            given: Fill values by the user; an empty list says that there are none besides those of the attributes.

        Raises:
            ValueError: A given fill value is no value of the stored type; scale or offset is no number.
        """
        self.dtype = numpy.dtype(dtype).newbyteorder("=")
        self.attributes = {name: value for name, value in (attributes or {}).items() if name in NAMES}
        self.given = () if given is None else tuple(numpy.asarray(given, dtype=object).ravel().tolist())
        self.counted_dtype = _counted(self.dtype, self.attributes)
        stated = fills_of(stated_in(self.attributes), self.dtype, lenient=True)
        fills = numpy.concatenate([fills_of(self.given, self.dtype), stated])
        self.fills: Array = fills.view(self.counted_dtype) if self.dtype.kind in "iu" else fills
        self.is_stated = given is not None or bool(self.fills.size)
        self._may_default = given is None and "_FillValue" not in self.attributes
        factors = {name: _factor(name, self.attributes[name]) for name in _FACTORS if name in self.attributes}
        self.is_packed = bool(factors) and self.dtype.kind in "fiu"
        floats = [factor.dtype for factor in factors.values() if factor.dtype.kind == "f"]
        self._unit_dtype = numpy.result_type(*floats) if floats else numpy.dtype(numpy.float64)
        self._scale = factors.get("scale_factor", self._unit_dtype.type(1)).astype(self._unit_dtype)
        self._offset = factors.get("add_offset", self._unit_dtype.type(0)).astype(self._unit_dtype)
        self.valid = self._valid_range()

    def packs_as(self, other: "Encoding") -> bool:
        """Whether the same numbers are the same values in units as of another encoding."""
        mine, others = (
            (each.dtype, each.counted_dtype, each.is_packed, each.valid, each._scale, each._offset)
            for each in (self, other)
        )
        packed = not self.is_packed or self.fills.tobytes() == other.fills.tobytes()
        return mine == others and packed

    @property
    def is_plain(self) -> bool:
        """Whether stored values are values in units, and no range bounds them."""
        return not self.is_packed and self.valid is None and self.counted_dtype == self.dtype

    @property
    def unit_fills(self) -> tuple[float, ...]:
        """Fill values of the values in units."""
        return (numpy.nan,) if self.is_packed else tuple(self.fills.tolist())

    def counted(self, stored: Array) -> Array:
        """Bring stored values into numbers."""
        stored = numpy.asarray(stored, dtype=self.dtype)
        return stored.view(self.counted_dtype) if stored.dtype != self.counted_dtype else stored

    def stored(self, counted: Array) -> Array:
        """Bring numbers into the stored type."""
        return counted.view(self.dtype) if counted.dtype != self.dtype else counted

    def missing(self, counted: Array) -> Array:
        """Find the missing cells: those that have a fill value, are no number, or lie outside the valid range."""
        found: Array = numpy.isin(counted, self.fills)
        if counted.dtype.kind in "fc":
            found |= numpy.isnan(counted)
        return found if self.valid is None else found | self._outside(counted)

    def marks(self, counted: Array) -> tuple[Array | None, bool]:
        """Find the values of an array that a codec has to keep, because they mark cells as missing.

        Returns:
            The values, and whether a codec can state them all. None: nothing is stated, and the codec guesses. Where a
            valid range is stated and the values can be, there is at least one, by which `settled` knows that.
        """
        found = self.fills
        if self.valid is not None:
            low, high = self.valid
            found = numpy.union1d(found, counted[self._outside(counted)])
            found = found if found.size else numpy.array([_beyond(low, high)], dtype=counted.dtype)
        if self._may_default and (default := DEFAULTS.get(counted.dtype.str[1:])) is not None:
            default = counted.dtype.type(default)
            found = numpy.union1d(found, [default]).astype(counted.dtype) if (counted == default).any() else found
        if len(found) > FILLS_MAX:
            return None, False
        return (found if found.size or self.is_stated else None), True

    def settled(self, counted: Array, fills: Array) -> Array:
        """Bring restored numbers into the valid range, where an error has carried them out of it.

        Args:
            counted: Restored numbers.
            fills: The values that were kept exactly; empty where they were too many, and so all numbers were kept.
        """
        if self.valid is None or not fills.size:
            return counted
        strayed = self._outside(counted) & ~numpy.isin(counted, fills)
        return numpy.where(strayed, numpy.clip(counted, *self._inner()), counted) if strayed.any() else counted

    def _inner(self) -> tuple[Any, Any]:
        """Smallest and largest number that is valid and no fill value."""
        assert self.valid is not None
        low, high = self.valid
        for _ in range(len(self.fills)):
            low = _next(low, upwards=True) if (self.fills == low).any() else low
            high = _next(high, upwards=False) if (self.fills == high).any() else high
        return low, high

    def in_units(self, counted: Array) -> Array:
        """Bring numbers into the variable's units.

        Returns:
            Packed values have the type of scale and offset, are doubles where these are integers, and have NaN where
            they are missing. Others stay.
        """
        if not self.is_packed:
            return counted
        values: Array = numpy.asarray(counted, dtype=self._unit_dtype) * self._scale
        values += self._offset
        values[self.missing(counted)] = numpy.nan
        return values

    def counted_error(self, error: float, largest: float) -> float:
        """Find the error of numbers that is no larger than an error in units.

        Args:
            largest: Largest magnitude of the numbers.

        Returns:
            The error; 0 where it is less than what rounding to the unit's type makes of it.
        """
        if not self.is_packed:
            return error
        return max(error - self._rounding(largest), 0.0) / abs(float(self._scale))

    def unit_error(self, error: float, largest: float) -> float:
        """Find the bound in units of an error of numbers.

        Args:
            largest: Largest magnitude of the numbers.
        """
        if not self.is_packed or error == 0.0:
            return error
        return error * abs(float(self._scale)) + self._rounding(largest)

    def _rounding(self, largest: float) -> float:
        """Most that two values in units differ by, besides their numbers: both are rounded, by some readers to single
        floats."""
        units = abs(largest * float(self._scale)) + abs(float(self._offset))
        kind = numpy.float64 if self.dtype.itemsize == 8 else numpy.float32
        return 2.0 * float(numpy.spacing(kind(units)))

    def _outside(self, counted: Array) -> Array:
        assert self.valid is not None
        low, high = self.valid
        outside: Array = (counted < low) | (counted > high)
        return outside

    def _valid_range(self) -> tuple[Any, Any] | None:
        """Smallest and largest valid number; None where no attribute bounds them in the stored type."""
        if self.dtype.kind not in "fiu" or not any(name in self.attributes for name in _VALID):
            return None
        if self.dtype.kind == "f":
            low, high = self.dtype.type(-numpy.inf), self.dtype.type(numpy.inf)
        else:
            limits = numpy.iinfo(self.counted_dtype)
            low, high = self.counted_dtype.type(limits.min), self.counted_dtype.type(limits.max)
        both = numpy.ravel(self.attributes.get("valid_range", ())).tolist()
        lows = numpy.ravel(self.attributes.get("valid_min", both[:1] if len(both) == 2 else ())).tolist()
        highs = numpy.ravel(self.attributes.get("valid_max", both[1:] if len(both) == 2 else ())).tolist()
        low = next(iter(self._numbers(lows)), low)
        high = next(iter(self._numbers(highs)), high)
        is_bound = low <= high and _beyond(low, high) is not None
        return (low, high) if is_bound else None

    def _numbers(self, given: list[Any]) -> Array:
        found = fills_of([each for each in given if isinstance(each, int | float)], self.dtype, lenient=True)
        return found.view(self.counted_dtype) if self.dtype.kind in "iu" else found


def _next(number: Any, *, upwards: bool) -> Any:
    """The number of the same type beside a number."""
    if number.dtype.kind == "f":
        return numpy.nextafter(number, number.dtype.type(numpy.inf if upwards else -numpy.inf))
    return number.dtype.type(int(number) + (1 if upwards else -1))


def _beyond(low: Any, high: Any) -> Any:
    """A number outside of a range; None where there is none."""
    if low.dtype.kind == "f":
        if numpy.isfinite(high):
            return _next(high, upwards=True)
        return _next(low, upwards=False) if numpy.isfinite(low) else None
    limits = numpy.iinfo(low.dtype)
    if int(high) < limits.max:
        return _next(high, upwards=True)
    return _next(low, upwards=False) if int(low) > limits.min else None


def encoding_of(array: object, dtype: numpy.dtype[Any], *, given: FillLike | None = None) -> Encoding:
    """Find the meaning that an array of h5py, xarray or Zarr states in its attributes.

    Args:
        array: Any object.
        dtype: Type of its values.
        given: Fill values by the user, in place of those of the attributes.
    """
    attributes = getattr(array, "attrs", None)
    stated = dict(attributes) if isinstance(attributes, Mapping) else {}
    if given is not None:
        stated = {name: value for name, value in stated.items() if name not in ATTRIBUTES}
    return Encoding(dtype, stated, given=given)


def with_fills(attributes: Mapping[str, Any], dtype: numpy.dtype[Any], fill: FillLike) -> dict[str, Any]:
    """State further fill values of a variable, besides those of its attributes.

    Args:
        dtype: Type of the stored values.
        fill: The values; none where it is empty.

    Raises:
        ValueError: A value is no number, or no cell of the type can have it.
    """
    values = fills_of(fill, numpy.dtype(dtype).newbyteorder("="))
    if not values.size:
        return dict(attributes)
    stated = numpy.ravel(attributes.get("missing_value", ())).tolist()
    known = numpy.array([number for each in stated if (number := number_of(each)) is not None], dtype=values.dtype)
    return {**attributes, "missing_value": numpy.concatenate([known, values])}


def _counted(dtype: numpy.dtype[Any], attributes: Mapping[str, Any]) -> numpy.dtype[Any]:
    wanted = {"true": "u", "false": "i"}.get(_text(attributes.get("_Unsigned")))
    if wanted is None or dtype.kind not in "iu":
        return dtype
    return numpy.dtype(f"{wanted}{dtype.itemsize}")


def _factor(name: str, value: Any) -> Any:
    factor = numpy.asarray(value).ravel()
    if factor.size != 1 or factor.dtype.kind not in "fiu" or not numpy.isfinite(factor[0]):
        raise ValueError(f"its {name} is {value!r}, and no number")
    return factor[0]


def _text(value: Any) -> str:
    return (value.decode("latin-1") if isinstance(value, bytes) else str(value)).lower()
