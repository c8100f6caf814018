"""The area of high pressure on a surface and the force on it, as at the front of a jet.

The pressure is linear in each triangle, and the part of a triangle above the threshold is cut out exactly: the area
does not jump with the mesh.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from adaptive.meshes import Mesh
from adaptive.quality import Array, relative_error

Values = NDArray[np.float64]


@dataclass(frozen=True)
class HighPressure:
    """The region in which the pressure exceeds a threshold."""

    area: float
    """Area of the region, in squares of the nodes' unit of length."""
    force: float
    """Magnitude of the pressure's integral over the region, against the surface's normals."""


@dataclass(frozen=True)
class Comparison:
    """An approximation beside the original, as relative errors."""

    area_error: float
    force_error: float


def high_pressure(mesh: Mesh, values: Array, *, threshold: float) -> HighPressure:
    """Find the region of high pressure.

    Args:
        mesh: The surface.
        values: Pressure of each node, of shape (nodes,).
        threshold: Pressure above which the region lies, in the unit of `values`.

    Returns:
        The area of the region, and the force on it.
    """
    corners = np.sort(values.astype(np.float64)[mesh.triangles], axis=1)
    normals = mesh.normals()
    areas = np.linalg.norm(normals, axis=1)
    part, mean = _above(corners, threshold)
    # In the plane all normals agree, so this is the plain integral.
    force = ((part * mean)[:, None] * normals).sum(axis=0)
    return HighPressure(float((part * areas).sum()), float(np.linalg.norm(force)))


def compare(truth: HighPressure, found: HighPressure) -> Comparison:
    """Compare the region of an approximation with that of the original.

    Args:
        truth: Region of the original.
        found: Region of the approximation.

    Returns:
        The relative errors.
    """
    return Comparison(relative_error(truth.area, found.area), relative_error(truth.force, found.force))


def _above(corners: Values, threshold: float) -> tuple[Values, Values]:
    """The part of each triangle above the threshold and the mean there, of values sorted by corner."""
    low, middle, high = corners.T
    whole = corners.mean(axis=1)
    part = np.where(low >= threshold, 1.0, 0.0)
    mean = np.where(low >= threshold, whole, 0.0)
    # A small triangle at the highest corner is above.
    tip = (middle <= threshold) & (threshold < high)
    tip_part = _quotient((high - threshold) ** 2, (high - low) * (high - middle), tip)
    # A small triangle at the lowest corner is below.
    cut = (low < threshold) & (threshold < middle)
    below = _quotient((threshold - low) ** 2, (middle - low) * (high - low), cut)
    part = np.where(tip, tip_part, np.where(cut, 1 - below, part))
    rest = _quotient(whole - below * (low + 2 * threshold) / 3, 1 - below, cut)
    mean = np.where(tip, (high + 2 * threshold) / 3, np.where(cut, rest, mean))
    return part, mean


def _quotient(above: Values, below: Values, where: NDArray[np.bool_]) -> Values:
    return np.divide(above, below, out=np.zeros_like(above), where=where)
