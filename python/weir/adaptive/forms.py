"""Forms in which arrays of any type and number of axes are stored.

The codecs take floats and integers of 1 to 4 axes.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy

AXES_MAX = 4
"""Most axes of a container."""
_CODED = {"f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8"}
"""Types that the codecs take, in numpy's spelling."""
_NUMBERS = {"b1": ("u1", "bytes"), "f2": ("f4", "single floats")}
"""Types that are stored as another one, and the words for it."""

Array = numpy.ndarray[Any, Any]
Bounds = list[tuple[int, int]]
"""Begin and end along each axis."""


@dataclass(frozen=True, slots=True)
class Form:
    """The stored form of arrays of one type and shape.

    Attributes:
        dtype: Type of the values, in this machine's byte order.
        shape: Shape of the values.
    """

    dtype: numpy.dtype[Any]
    shape: tuple[int, ...]

    @staticmethod
    def of(dtype: numpy.dtype[Any], shape: Sequence[int]) -> "Form":
        """Find the form of arrays.

        Raises:
            ValueError: Values of the type have no fixed size, or no byte.
        """
        dtype = numpy.dtype(dtype).newbyteorder("=")
        if dtype.hasobject:
            raise ValueError(f"values of {dtype} are objects: convert them to numbers, or to texts of a fixed length")
        if dtype.itemsize == 0:
            raise ValueError(f"values of {dtype} have no byte")
        return Form(dtype, tuple(shape))

    @property
    def _split(self) -> tuple[numpy.dtype[Any], int]:
        """Type of the stored numbers, and how many of them are one value."""
        code = self.dtype.str[1:]
        if code in _CODED:
            return self.dtype, 1
        if code in _NUMBERS:
            return numpy.dtype(_NUMBERS[code][0]), 1
        if self.dtype.kind in "mM":
            return numpy.dtype("i8"), 1
        if code in ("c8", "c16"):
            return numpy.dtype(f"f{self.dtype.itemsize // 2}"), 2
        return numpy.dtype("u1"), self.dtype.itemsize

    @property
    def _axes(self) -> tuple[int, ...]:
        parts = self._split[1]
        return self.shape if parts == 1 else (*self.shape, parts)

    @property
    def stored_dtype(self) -> numpy.dtype[Any]:
        """Type of the stored array."""
        return self._split[0]

    @property
    def stored_shape(self) -> tuple[int, ...]:
        """Shape of the stored array: first axes are joined where there are too many."""
        joined = self._joined
        return (math.prod(self._axes[:joined]), *self._axes[joined:])

    @property
    def _joined(self) -> int:
        """Number of the first axes that are stored as one."""
        return max(len(self._axes) - AXES_MAX + 1, 1)

    @property
    def is_plain(self) -> bool:
        """Whether the stored array is the array."""
        return self._split == (self.dtype, 1) and self._joined == 1

    @property
    def is_exact(self) -> bool:
        """Whether a tolerance says nothing of such values, so that every bit is kept."""
        return not self.is_plain and self.stored_dtype.kind in "iu" and self.dtype.kind not in "iu"

    @property
    def error_ratio(self) -> float:
        """Largest ratio of the error of a value to the error of its stored numbers.

        A complex number has two of them. A half float is the nearest one to its stored float, and the true value is no
        farther from that than the error.
        """
        if self.dtype.kind == "c" and not self.is_exact:
            return math.sqrt(2.0)
        return 2.0 if self.dtype.str[1:] == "f2" else 1.0

    @property
    def words(self) -> str:
        """Description of the form, for a message; empty where the array is stored as it is."""
        code = self.dtype.str[1:]
        stored, parts = self._split
        told = []
        if code in _NUMBERS:
            told.append(f"{self.dtype} as {_NUMBERS[code][1]}")
        elif self.dtype.kind in "mM":
            told.append(f"{self.dtype} as whole numbers")
        elif parts == 2 and stored.kind == "f":
            told.append(f"{self.dtype} as pairs of {stored}")
        elif parts > 1:
            told.append(f"{self.dtype} byte by byte")
        if self._joined > 1:
            told.append(f"{len(self.shape)} axes, of which the first {self._joined} are one")
        kept = " (no tolerance applies: every bit is kept)" if self.is_exact else ""
        return f"{' and '.join(told)}{kept}" if told else ""

    def tolerance(self, tolerance: float | None) -> float | None:
        """Find the tolerance of the stored numbers that keeps one of the values."""
        return None if tolerance is None or self.is_exact else tolerance / self.error_ratio

    def stored(self, values: Array) -> Array:
        """Bring values into the stored form.

        Args:
            values: An array of this type and shape.

        Returns:
            An array of the stored type and shape, in C order.
        """
        values = numpy.ascontiguousarray(values, dtype=self.dtype)
        stored, parts = self._split
        if self.dtype.str[1:] == "f2":
            values = values.astype(stored)
        elif parts == 1:
            values = values.view(stored)
        else:
            values = values.reshape(*self.shape, 1).view(stored)
        return values.reshape(self.stored_shape)

    def values(self, stored: Array) -> Array:
        """Bring a stored array back into its type and shape."""
        return self._typed(stored.reshape(self._axes))

    def _typed(self, stored: Array) -> Array:
        parts = self._split[1]
        if self.dtype.str[1:] == "f2":
            # A float beyond the largest half float is nearest to it, and comes of an error: infinities are kept.
            largest = numpy.finfo(self.dtype).max
            return numpy.where(numpy.isfinite(stored), numpy.clip(stored, -largest, largest), stored).astype(self.dtype)
        if self.dtype.kind == "b":
            return numpy.asarray(stored != 0)
        if parts == 1:
            return stored.view(self.dtype) if stored.dtype != self.dtype else stored
        return numpy.ascontiguousarray(stored).view(self.dtype).reshape(stored.shape[:-1])

    def stored_bounds(self, bounds: Bounds) -> Bounds:
        """Find the bounds of the stored region that holds a region.

        Args:
            bounds: Begin and end along each axis of the values.
        """
        parts, joined = self._split[1], self._joined
        whole = [*bounds, *([(0, parts)] if parts > 1 else [])]
        if joined == 1:
            return whole
        first = numpy.ravel_multi_index([begin for begin, _ in whole[:joined]], self._axes[:joined])
        last = numpy.ravel_multi_index([end - 1 for _, end in whole[:joined]], self._axes[:joined])
        return [(int(first), int(last) + 1), *whole[joined:]]

    def values_within(self, stored: Array, bounds: Bounds) -> Array:
        """Bring the stored region of `stored_bounds` back into the type and shape of the region."""
        joined = self._joined
        if joined > 1:
            begin = self.stored_bounds(bounds)[0][0]
            picked = numpy.ix_(*(numpy.arange(*each) for each in bounds[:joined]))
            rows = numpy.ravel_multi_index(picked, self._axes[:joined]) - begin
            stored = stored[rows]
        return self._typed(stored)
