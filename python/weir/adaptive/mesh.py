"""Values on the nodes of an unstructured mesh, ordered so that neighbours in space are neighbours in an array."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from weir.adaptive.array import restore

if TYPE_CHECKING:
    import numpy.typing as npt


@dataclass(frozen=True)
class NodeOrder:
    """The positions of a mesh's nodes in an array; made and stored once for all values on the mesh.

    Attributes:
        places: The node at each place of the array, uint64. Surplus places repeat the last node.
    """

    places: "npt.NDArray[np.uint64]"

    @classmethod
    def of(cls, mesh: "NodeOrder | npt.ArrayLike", *, nodes: int) -> "NodeOrder":
        """Make the order of a mesh.

        Args:
            mesh: The mesh's cells (cells x corners, integers), its nodes' coordinates (nodes x axes, floats), or an
                order.
            nodes: Number of the mesh's nodes.

        Raises:
            ValueError: The mesh is none of these, or its cells join other nodes.
        """
        if isinstance(mesh, NodeOrder):
            return mesh
        array = np.asarray(mesh)
        if array.dtype.kind in "iu":
            return cls.from_connectivity(array, nodes=nodes)
        if array.dtype.kind != "f":
            raise ValueError(f"a mesh is cells x corners or nodes x axes, not {array.dtype} of {array.shape}")
        return cls.from_coordinates(array)

    @property
    def nodes(self) -> int:
        """Number of nodes."""
        return int(self.places.max()) + 1 if self.places.size else 0

    @classmethod
    def from_coordinates(cls, coordinates: "npt.ArrayLike") -> Self:
        """Order nodes by their coordinates, into an array of as many axes.

        Args:
            coordinates: Finite numbers, nodes x axes, 1 to 3 axes.

        Raises:
            ValueError: The coordinates have another shape, or are no finite numbers.
        """
        from weir import _core

        points = np.ascontiguousarray(coordinates, dtype=np.float64)
        if points.ndim != 2 or not points.size or not np.isfinite(points).all():
            raise ValueError(f"coordinates are finite numbers, nodes x axes; these are of {points.shape}")
        nodes, shape = _core.mesh_order_by_coordinates(points)
        return cls(_filled(nodes, shape))

    @classmethod
    def from_connectivity(cls, cells: "npt.ArrayLike", *, nodes: int) -> Self:
        """Order nodes by the cells that join them, along one axis.

        Args:
            cells: Numbers of nodes, cells x corners, integers.
            nodes: Number of the mesh's nodes.

        Raises:
            ValueError: The cells have another shape, or join nodes that do not exist.
        """
        from weir import _core

        corners = np.asarray(cells)
        if corners.ndim != 2 or corners.dtype.kind not in "iu":
            raise ValueError(
                f"cells are numbers of nodes, cells x corners; these are {corners.dtype} of {corners.shape}"
            )
        if corners.size and not 0 <= int(corners.min()) <= int(corners.max()) < nodes:
            raise ValueError(
                f"the cells join nodes {corners.min()} to {corners.max()}, and there are nodes 0 to {nodes - 1}"
            )
        order, shape = _core.mesh_order_by_connectivity(np.ascontiguousarray(corners, dtype=np.uint64), nodes)
        return cls(_filled(order, shape))

    @classmethod
    def from_bytes(cls, container: bytes) -> Self:
        """Read an order that `to_bytes` wrote.

        Raises:
            ValueError: The bytes are no order of nodes, or are damaged.
        """
        restored = restore(container)
        places = restored.data
        whole = places.dtype == np.uint64 and restored.max_error == 0 and places.size > 0
        # Each node stands somewhere, so there are no more nodes than places.
        if not whole or int(places.max()) >= places.size or not np.bincount(places.ravel().astype(np.int64)).all():
            raise ValueError("these bytes hold no whole order of nodes; make it again from the mesh")
        return cls(places)

    def to_bytes(self) -> bytes:
        """Write the order, to be stored beside the mesh's values.

        Returns:
            The order as a container.
        """
        from weir import _core

        return _core.refactor(self.places, exact=True)

    def arrange(self, values: "npt.NDArray[Any]") -> "npt.NDArray[Any]":
        """Arrange values for refactoring.

        Args:
            values: One value for each node, of shape (nodes,).

        Returns:
            The values of all nodes, of the shape of `places` and the dtype of `values`.

        Raises:
            ValueError: There is not one value for each node.
        """
        if values.shape != (self.nodes,):
            raise ValueError(f"an array of {values.shape} is not one value for each of the mesh's {self.nodes} nodes")
        return values[self.places]

    def values(self, array: "npt.NDArray[Any]") -> "npt.NDArray[Any]":
        """Undo `arrange`.

        Args:
            array: An array that `arrange` returned, or a restored one, of the shape of `places`.

        Returns:
            One value for each node, of shape (nodes,) and the dtype of `array`.

        Raises:
            ValueError: The array has another shape.
        """
        if array.shape != self.places.shape:
            raise ValueError(f"an array of {array.shape} was not arranged by this order, of {self.places.shape}")
        values = np.empty(self.nodes, array.dtype)
        values[self.places] = array
        return values


def _filled(nodes: bytearray, shape: list[int]) -> "npt.NDArray[np.uint64]":
    order = np.frombuffer(nodes, dtype=np.uint64)
    places = int(np.prod(shape))
    return np.pad(order, (0, places - order.size), mode="edge").reshape(shape) if order.size else order
