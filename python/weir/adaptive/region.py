"""Regions of an array, as numpy spells them: numbers, slices with any step, and an ellipsis."""

from collections.abc import Sequence
from dataclasses import dataclass
from operator import index
from types import EllipsisType
from typing import Any

import numpy

from weir.adaptive.errors import AdaptiveError

Part = slice | int | EllipsisType
"""The part of one axis; an ellipsis stands for all axes that are not named."""
Region = Part | Sequence[Part]
"""A part for each axis, the first axis first; axes behind the last one are whole."""
_HINT = "give a number or a slice for each axis, as in (slice(0, 64), ..., slice(None, None, 2), 10)"


@dataclass(frozen=True, slots=True)
class Cut:
    """A region of arrays of one shape.

    Attributes:
        bounds: Begin and end along each axis of the smallest box that holds the region.
        picks: The region within the box.
        numbers: Axes of which the region names one place.
    """

    bounds: list[tuple[int, int]]
    picks: tuple[slice, ...]
    numbers: tuple[int, ...]

    @property
    def is_box(self) -> bool:
        """Whether the region is the box."""
        return all(pick.step == 1 for pick in self.picks)

    def pick(self, box: "numpy.ndarray[Any, Any]") -> "numpy.ndarray[Any, Any]":
        """Take the region of an array that is the box; no axis is left out."""
        return box if self.is_box else box[self.picks]

    def squeezed(self, region: "numpy.ndarray[Any, Any]") -> "numpy.ndarray[Any, Any]":
        """Leave out the axes that were named by one place, as numpy does."""
        return region.squeeze(axis=self.numbers) if self.numbers else region


def cut_of(region: Region, shape: Sequence[int]) -> Cut:
    """Find a region in arrays of a shape.

    Raises:
        AdaptiveError: The region is no part of the array, or is empty.
    """
    parts = _expanded(region, len(shape))
    ranges = [_range(part, length, axis) for axis, (part, length) in enumerate(zip(parts, shape, strict=True))]
    if not all(ranges):
        raise AdaptiveError(f"the region {region!r} of an array of {tuple(shape)} is empty", hint=_HINT)
    bounds = [(min(each[0], each[-1]), max(each[0], each[-1]) + 1) for each in ranges]
    picks = tuple(slice(None, None, each.step if len(each) > 1 else 1) for each in ranges)
    return Cut(bounds, picks, tuple(axis for axis, part in enumerate(parts) if _is_number(part)))


def _expanded(region: Any, axes: int) -> list[slice | int]:
    """One slice or number for each axis."""
    parts = list(region) if isinstance(region, Sequence) and not isinstance(region, str) else [region]
    if not all(isinstance(part, slice | EllipsisType) or _is_number(part) for part in parts):
        raise AdaptiveError(f"{region!r} is no region", hint=_HINT)
    dots = [place for place, part in enumerate(parts) if part is ...]
    if len(dots) > 1:
        raise AdaptiveError(f"the region {region!r} has {len(dots)} ellipses, and one can stand for all axes")
    missing = axes - len(parts) + len(dots)
    if missing < 0:
        raise AdaptiveError(f"a region of {len(parts)} parts does not fit an array of {axes} axes", hint=_HINT)
    place = dots[0] if dots else len(parts)
    return [*parts[:place], *[slice(None)] * missing, *parts[place + len(dots) :]]


def _range(part: slice | int, length: int, axis: int) -> range:
    """The places that a part names along an axis."""
    if isinstance(part, slice):
        try:
            return range(*part.indices(length))
        except (TypeError, ValueError) as error:
            raise AdaptiveError(f"{part} is no part of an axis: {error}", hint=_HINT) from error
    place = index(part)
    if not -length <= place < length:
        raise AdaptiveError(f"there is no place {place} along axis {axis}, which has {length}", hint=_HINT)
    return range(place % length, place % length + 1)


def _is_number(part: object) -> bool:
    return hasattr(part, "__index__") and not isinstance(part, bool | numpy.bool_)
