"""Regions of an array: a slice for each axis."""

from collections.abc import Sequence
from operator import index

from weir.adaptive.errors import AdaptiveError

Region = Sequence[slice | int]
"""A slice or a number for each axis."""


def bounds_of(region: Region, shape: Sequence[int]) -> list[tuple[int, int]]:
    """Find the bounds of a region.

    Args:
        region: A slice without a step, or a number, for each axis; a number is a slice of length 1.
        shape: Shape of the array.

    Returns:
        Begin and end along each axis.

    Raises:
        AdaptiveError: The region is no part of the array, or is empty.
    """
    hint = "give a slice without a step for each axis, as in (slice(0, 64), slice(None), slice(10, 20))"
    if not isinstance(region, Sequence) or not all(isinstance(part, slice) or _is_number(part) for part in region):
        raise AdaptiveError(f"{region!r} is no region", hint=hint)
    if len(region) != len(shape):
        raise AdaptiveError(f"a region of {len(region)} slices does not fit an array of {len(shape)} axes", hint=hint)
    if any(isinstance(part, slice) and part.step not in (None, 1) for part in region):
        raise AdaptiveError(f"the region {tuple(region)} leaves values out", hint=hint)
    bounds = [_bounds(part, length) for part, length in zip(region, shape, strict=True)]
    if any(begin >= end for begin, end in bounds):
        raise AdaptiveError(f"the region {bounds} of an array of {tuple(shape)} is empty")
    return bounds


def _bounds(part: slice | int, length: int) -> tuple[int, int]:
    if isinstance(part, slice):
        return part.indices(length)[:2]
    begin = index(part) + (length if index(part) < 0 else 0)
    return max(begin, 0), min(begin + 1, length)


def _is_number(part: object) -> bool:
    return hasattr(part, "__index__")
