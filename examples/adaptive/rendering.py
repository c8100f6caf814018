"""Pictures of a field, such as the velocity of a collapsing core (GenASiS), and the likeness of two pictures."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from skimage.filters import threshold_otsu
from skimage.metrics import structural_similarity

from adaptive.quality import Array

Picture = NDArray[np.uint8]
"""A picture in shades of grey, of two dimensions."""


@dataclass(frozen=True)
class Comparison:
    """A picture of an approximation beside that of the original (the paper's figure 14)."""

    ssim: float
    """Structural similarity (Wang et al., IEEE TIP 13-4, 2004), at most 1."""
    dice: float
    """Dice's coefficient of the bright regions, 0 to 1."""


def plane(field: Array) -> Array:
    """Choose the plane that is drawn.

    Args:
        field: A field of two or more dimensions.

    Returns:
        A plane of it: the middle of each of the first dimensions.
    """
    while field.ndim > 2:
        field = field[len(field) // 2]
    return field


def render(field: Array, *, low: float, high: float) -> Picture:
    """Draw a plane.

    Args:
        field: Values of the plane, of two dimensions; NaN is black.
        low: Value of shade 0.
        high: Value of shade 255.

    Returns:
        The picture, uint8 of the plane's shape.
    """
    span = high - low
    shades = np.clip((field.astype(np.float64) - low) / span, 0, 1) if span > 0 else np.zeros(field.shape)
    picture: Picture = np.nan_to_num(np.rint(255 * shades)).astype(np.uint8)
    return picture


def compare(truth: Array, found: Array) -> Comparison:
    """Draw two planes with the range of the original, and compare the pictures.

    Args:
        truth: Plane of the original.
        found: Plane of the approximation, of the same shape.

    Returns:
        The likenesses of the pictures.
    """
    low, high = float(np.nanmin(truth)), float(np.nanmax(truth))
    pictures = [render(values, low=low, high=high) for values in (truth, found)]
    ssim: Any = structural_similarity(pictures[0], pictures[1], data_range=255)
    return Comparison(float(ssim), dice(pictures[0], pictures[1]))


def dice(truth: Picture, found: Picture) -> float:
    """Compute Dice's coefficient of the pixels that are bright by the original's measure.

    Otsu's threshold parts the original in two classes. A pixel is bright if it is nearer to the mean of the brighter
    class.

    Args:
        truth: Picture of the original.
        found: Picture of the approximation, of the same shape.

    Returns:
        The coefficient, from 0 to 1.
    """
    if truth.min() == truth.max():
        return float((found == truth).mean())
    is_bright = truth > threshold_otsu(truth)
    threshold = (truth[is_bright].mean() + truth[~is_bright].mean()) / 2
    bright = [picture > threshold for picture in (truth, found)]
    return float(2 * (bright[0] & bright[1]).sum() / (bright[0].sum() + bright[1].sum()))
