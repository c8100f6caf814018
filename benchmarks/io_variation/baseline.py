"""The rival of `planes`: decimation along each axis, with the largest residuals as (index, value) pairs.

It is a better use of the paper's idea than the paper's own, which decimates the array as one line and so forgets all
axes but one.
"""

from typing import Any

import _examples  # noqa: F401 - makes the package `adaptive` known
import numpy as np
from adaptive.quality import psnr
from numpy.typing import NDArray

Array = NDArray[Any]

STEPS = (2, 4, 8, 16)
LINE_STEPS = (4, 16, 64, 256, 1024)
"""Steps for arrays with one axis."""
_INDEX_BYTES = 4


def best(field: Array, budget_bytes: int) -> Array:
    """The approximation of at most so many bytes, with the step along each axis that has the highest PSNR.

    Raises:
        ValueError: No step leaves so few bytes.
    """
    steps = STEPS if field.ndim > 1 else LINE_STEPS
    tried = [approximation(field, step=step, budget_bytes=budget_bytes) for step in steps]
    found = [each for each in tried if each is not None]
    if not found:
        raise ValueError(f"{budget_bytes} bytes do not hold every {steps[-1]}th value along each axis of {field.shape}")
    return max(found, key=lambda each: psnr(field, each))


def approximation(field: Array, *, step: int, budget_bytes: int) -> Array | None:
    """Every `step`th value along each axis, linear between them, and the largest residuals that the budget allows."""
    coarse = field[tuple(slice(None, None, step) for _ in field.shape)]
    left = budget_bytes - coarse.nbytes
    if left < 0:
        return None
    estimate = coarse.astype(np.float64)
    for axis, length in enumerate(field.shape):
        estimate = _stretched(estimate, axis, length, step)
    estimate = estimate.astype(field.dtype).ravel()
    exact = field.ravel()
    pairs = min(left // (_INDEX_BYTES + field.itemsize), field.size)
    if pairs:
        largest = np.argpartition(np.abs(exact - estimate), field.size - pairs)[field.size - pairs :]
        estimate[largest] = exact[largest]
    return estimate.reshape(field.shape)


def _stretched(values: NDArray[np.float64], axis: int, length: int, step: int) -> NDArray[np.float64]:
    """Linear between values along one axis, constant behind the last."""
    positions = np.minimum(np.arange(length) / step, values.shape[axis] - 1)
    below = positions.astype(np.int64)
    above = np.minimum(below + 1, values.shape[axis] - 1)
    weight = (positions - below).reshape([-1 if each == axis else 1 for each in range(values.ndim)])
    stretched: NDArray[np.float64] = values.take(below, axis) * (1 - weight) + values.take(above, axis) * weight
    return stretched
