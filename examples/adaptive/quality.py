"""How far an approximation is from its original, whatever it is used for."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


def psnr(truth: Array, found: Array) -> float:
    """Peak signal-to-noise ratio in dB: the range of the values over the root of the mean squared error.

    Infinite where both are equal.

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
    """|found - truth| / |truth|; 0 where both are 0, infinite where only the truth is."""
    if truth == 0:
        return 0.0 if found == 0 else math.inf
    return abs(found - truth) / abs(truth)
