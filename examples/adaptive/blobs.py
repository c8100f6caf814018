"""Blob detection, as on the electric potential at the edge of a tokamak (XGC).

A blob is a connected region above a threshold. The physics gives the threshold, the same one for every accuracy. Arrays
have two or three dimensions; `Raster` brings a mesh to two.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from skimage import measure

from adaptive.quality import Array, relative_error

MATCH_OVERLAP = 0.5
"""Part of the union of two blobs above which an intersection makes them the same; from a half on, no blob has two
matches."""


@dataclass(frozen=True)
class Blobs:
    """The blobs of one field."""

    labels: NDArray[np.int64]
    """Number of the blob at each point, from 1; 0 is background. The shape is that of the field."""
    areas: NDArray[np.float64]
    """Area of each blob, in squares (cubes) of the unit of `pixel_length`, of shape (blobs,)."""
    diameters: NDArray[np.float64]
    """Diameter of the circle (ball) of the same area, in units of `pixel_length`, of shape (blobs,)."""

    @property
    def count(self) -> int:
        """Number of blobs."""
        return len(self.areas)

    @property
    def area(self) -> float:
        """Area of all blobs together."""
        return float(self.areas.sum())

    @property
    def diameter_mean(self) -> float:
        """Mean diameter; 0 without blobs."""
        return float(self.diameters.mean()) if self.count else 0.0


@dataclass(frozen=True)
class Comparison:
    """The blobs of an approximation beside those of the original: the paper's figure 10, and F1."""

    count_error: float
    """Relative error of the number of blobs."""
    diameter_error: float
    """Relative error of the mean diameter."""
    area_error: float
    """Relative error of the area of all blobs."""
    overlap: float
    """Part of the original's blob area that is blob in the approximation, too."""
    f1: float
    """Harmonic mean of two parts: of found blobs that are true, and of true blobs that are found."""


def usual_threshold(field: Array, *, deviations: float = 2.0) -> float:
    """Choose a threshold for a field whose physics names none.

    Args:
        field: The field, of any shape; NaN does not count.
        deviations: Number of standard deviations above the mean.

    Returns:
        The threshold, in the unit of the field.
    """
    return float(np.nanmean(field) + deviations * np.nanstd(field))


def detect(field: Array, *, threshold: float, pixel_length: float = 1.0, points_min: int = 9) -> Blobs:
    """Find the connected regions above a threshold.

    Args:
        field: The field, of two or three dimensions; NaN is background.
        threshold: Threshold in the unit of the field.
        pixel_length: Distance of neighbouring points.
        points_min: Least number of points of a blob.

    Returns:
        The blobs.
    """
    # A comparison with NaN is false.
    regions = measure.label(field > threshold, connectivity=1)
    kept = [region for region in measure.regionprops(regions) if region.area >= points_min]
    number_of = np.zeros(int(regions.max()) + 1, dtype=np.int64)
    number_of[[region.label for region in kept]] = np.arange(1, len(kept) + 1)
    areas = np.array([region.area for region in kept], dtype=np.float64)
    diameters = np.array([region.equivalent_diameter_area for region in kept], dtype=np.float64)
    return Blobs(number_of[regions], areas * pixel_length**field.ndim, diameters * pixel_length)


def compare(truth: Blobs, found: Blobs) -> Comparison:
    """Compare the blobs of an approximation with those of the original.

    Args:
        truth: Blobs of the original.
        found: Blobs of the approximation.

    Returns:
        The errors and likenesses.

    Raises:
        ValueError: The blobs are of fields of different shapes.
    """
    if truth.labels.shape != found.labels.shape:
        raise ValueError(f"blobs in a field of shape {found.labels.shape} beside those of {truth.labels.shape}")
    both = (truth.labels > 0) & (found.labels > 0)
    covered = (truth.labels > 0).sum()
    blobs = truth.count + found.count
    return Comparison(
        count_error=relative_error(truth.count, found.count),
        diameter_error=relative_error(truth.diameter_mean, found.diameter_mean),
        area_error=relative_error(truth.area, found.area),
        overlap=float(both.sum() / covered) if covered else 1.0,
        f1=2 * _matches(truth, found, both) / blobs if blobs else 1.0,
    )


def _matches(truth: Blobs, found: Blobs, both: NDArray[np.bool_]) -> int:
    pairs, shared = np.unique(np.stack([truth.labels[both], found.labels[both]]), axis=1, return_counts=True)
    sizes = [np.bincount(blobs.labels.ravel(), minlength=blobs.count + 1) for blobs in (truth, found)]
    union = sizes[0][pairs[0]] + sizes[1][pairs[1]] - shared
    return int((shared > MATCH_OVERLAP * union).sum())
