"""Numpy arrays and containers: a container has the bytes of one array, refactored into a base and augmentations."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from weir.adaptive.containers import opened


@dataclass(frozen=True)
class Restored:
    """An array, restored from a container or from parts of it.

    Attributes:
        data: The array, or the requested region.
        rmse: Upper bound of the root mean square error, in units of the data.
        max_error: Upper bound of the error of a sample, in units of the data.
        damaged: The damage in words; it has lowered the accuracy.
        fill: Fill values that were stated of the array: cells that have one are exact, and are no part of the errors.
    """

    data: np.ndarray[Any, np.dtype[Any]]
    rmse: float
    max_error: float
    damaged: list[str]
    fill: tuple[float, ...] = ()


def restore(
    parts: "bytes | Sequence[tuple[int, bytes]]",
    *,
    region: Sequence[tuple[int, int]] | None = None,
    threads: int = 1,
) -> Restored:
    """Restore an array from a container or from parts of it.

    Args:
        parts: A prefix of the container, or (offset, bytes) of several parts; the part at 0 holds the whole header.
        region: (start, stop) along each axis; None is the whole array.
        threads: Number of threads that decode tiles.

    Returns:
        The array, of the container's dtype and of its shape or the region's, with the bounds of its error.

    Raises:
        ValueError: The header is missing or damaged, or the region does not lie in the array.
    """
    pieces = [(0, parts)] if isinstance(parts, bytes) else sorted(parts, key=lambda part: part[0])
    head = pieces[0][1] if pieces and pieces[0][0] == 0 else b""
    header = opened(head)
    restored = header.restore(pieces, region=region, threads=threads)
    data = np.frombuffer(restored.data, dtype=header.dtype).reshape(restored.shape)
    damaged = [f"the block at byte {offset} of the container is damaged" for offset in restored.damaged]
    return Restored(data, restored.rmse, restored.max_error, damaged, tuple(header.fill))


def native(values: np.ndarray[Any, np.dtype[Any]]) -> np.ndarray[Any, np.dtype[Any]]:
    """Bring values into the form that the codecs take.

    Args:
        values: An array of any shape and dtype.

    Returns:
        The same values and shape, in C order and in this machine's byte order. One value without an axis gets one.
    """
    values = np.ascontiguousarray(values, dtype=values.dtype.newbyteorder("="))
    # Zarr's arrays spell this machine's byte order out, and readers of buffers take that for another order.
    return values.view(np.dtype(values.dtype.str)) if values.dtype.kind in "fiu" else values
