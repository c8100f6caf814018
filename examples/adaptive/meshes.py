"""Triangle meshes, and their values on a raster."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from adaptive.quality import Array

_TOLERANCE = 1e-9
"""Tolerance by which a pixel on an edge belongs to a triangle, whatever the rounding."""


@dataclass(frozen=True)
class Mesh:
    """Nodes and the triangles between them."""

    nodes: NDArray[np.float64]
    """Coordinates of the nodes in units of length, of shape (nodes, 2) or (nodes, 3)."""
    triangles: NDArray[np.int32]
    """Indices of the corners of each triangle, of shape (triangles, 3)."""

    def normals(self) -> NDArray[np.float64]:
        """Compute the normals of the triangles.

        Returns:
            Vectors perpendicular to each triangle, as long as its area, float64 of shape (triangles, 3).
        """
        corners = np.zeros((len(self.triangles), 3, 3))
        corners[:, :, : self.nodes.shape[1]] = self.nodes[self.triangles]
        normals: NDArray[np.float64] = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]) / 2
        return normals


def grid(shape: tuple[int, int], *, spacing: float = 1.0) -> Mesh:
    """Make a mesh of a regular grid, with each cell cut in two triangles.

    Args:
        shape: Number of rows and columns.
        spacing: Distance of neighbouring points.

    Returns:
        The mesh, whose nodes are in C order.
    """
    rows, columns = shape
    y, x = np.mgrid[:rows, :columns]
    nodes = spacing * np.stack([x.ravel(), y.ravel()], axis=1).astype(np.float64)
    first = (columns * y[:-1, :-1] + x[:-1, :-1]).ravel()
    lower = np.stack([first, first + 1, first + columns], axis=1)
    upper = np.stack([first + columns + 1, first + columns, first + 1], axis=1)
    return Mesh(nodes, np.concatenate([lower, upper]).astype(np.int32))


class Raster:
    """Samples of a plane mesh's values at the pixels of a square raster, interpolated linearly."""

    def __init__(self, mesh: Mesh, pixels: int) -> None:
        """Find the triangle of each pixel over the mesh's bounding square.

        Args:
            mesh: A plane mesh.
            pixels: Number of pixels along each side.
        """
        low, high = mesh.nodes.min(axis=0), mesh.nodes.max(axis=0)
        self.pixel_length = float((high - low).max()) / (pixels - 1)
        """Distance of neighbouring pixels."""
        self._corners = np.zeros((pixels, pixels, 3), dtype=np.int64)
        self._weights = np.full((pixels, pixels, 3), np.nan)
        positions = (mesh.nodes - low) / self.pixel_length
        first = np.ceil(positions[mesh.triangles].min(axis=1)).astype(np.int64)
        extent = np.floor(positions[mesh.triangles].max(axis=1)).astype(np.int64) - first
        # Triangles are small, so each turn looks at one pixel of the bounding boxes of all of them.
        for across in range(int(extent[:, 0].max()) + 1):
            for up in range(int(extent[extent[:, 0] >= across, 1].max()) + 1):
                chosen = np.flatnonzero((extent[:, 0] >= across) & (extent[:, 1] >= up))
                self._fill(positions, mesh.triangles[chosen], first[chosen] + (across, up))

    def _fill(self, positions: NDArray[np.float64], triangles: Array, points: NDArray[np.int64]) -> None:
        origin, second, third = (positions[triangles[:, corner]] for corner in range(3))
        towards, other, there = second - origin, third - origin, points - origin
        twice_area = _cross(towards, other)
        flat = twice_area == 0
        scale = 1 / np.where(flat, 1, twice_area)
        weights = np.stack([_cross(there, other) * scale, _cross(towards, there) * scale], axis=1)
        weights = np.concatenate([1 - weights.sum(axis=1, keepdims=True), weights], axis=1)
        inside = (weights >= -_TOLERANCE).all(axis=1) & ~flat
        column, row = points[inside].T
        self._corners[row, column] = triangles[inside]
        self._weights[row, column] = weights[inside]

    def sample(self, values: Array) -> NDArray[np.float64]:
        """Interpolate the values of nodes.

        Args:
            values: Value of each node, of shape (nodes,).

        Returns:
            The image, float64 of shape (pixels, pixels); NaN outside the mesh.
        """
        image: NDArray[np.float64] = np.einsum("yxc,yxc->yx", self._weights, values[self._corners].astype(np.float64))
        return image


def _cross(left: NDArray[np.float64], right: NDArray[np.float64]) -> NDArray[np.float64]:
    return left[:, 0] * right[:, 1] - left[:, 1] * right[:, 0]
