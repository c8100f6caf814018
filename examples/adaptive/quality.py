"""Distances of an approximation from its original, for any use of it."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


def psnr(truth: Array, found: Array) -> float:
    """Compute the peak signal-to-noise ratio: the range of the values over the root mean square error.

    Args:
        truth: The original, of any shape.
        found: The approximation, of the same shape.

    Returns:
        The ratio in dB; infinite where both are equal.

    Raises:
        ValueError: The shapes differ.
    """
    if truth.shape != found.shape:
        raise ValueError(f"an approximation of shape {found.shape} is compared with an original of {truth.shape}")
    exact = truth.astype(np.float64)
    error = math.sqrt(float(np.mean((exact - found) ** 2)))
    span = float(exact.max() - exact.min())
    if error == 0:
        return math.inf
    return 20 * math.log10(span / error) if span > 0 else -math.inf


def relative_error(truth: float, found: float) -> float:
    """Compute a relative error.

    Args:
        truth: The true value.
        found: The found value.

    Returns:
        |found - truth| / |truth|; 0 where both are 0, infinite where only the truth is.
    """
    if truth == 0:
        return 0.0 if found == 0 else math.inf
    return abs(found - truth) / abs(truth)
