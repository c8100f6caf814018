"""Values on the nodes of an unstructured mesh, ordered so that neighbours in space are neighbours in an array."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from weir.adaptive.array import restore

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


@dataclass(frozen=True)
class NodeOrder:
    """Where the nodes of a mesh stand in an array; made and stored once for all values on the mesh.

    Attributes:
        places: The node whose value stands at each place of the array. Places that are left over repeat the last node.
    """

    places: "npt.NDArray[np.uint64]"

    @classmethod
    def from_coordinates(cls, coordinates: "npt.ArrayLike") -> Self:
        """Order nodes by their coordinates (nodes x axes, 1 to 3 axes) into an array of as many axes.

        Raises:
            ValueError: The coordinates have another shape.
        """
        import numpy as np

        from weir import _core

        nodes, shape = _core.mesh_order_by_coordinates(np.ascontiguousarray(coordinates, dtype=np.float64))
        return cls(_filled(nodes, shape))

    @classmethod
    def from_connectivity(cls, cells: "npt.ArrayLike", *, nodes: int) -> Self:
        """Order `nodes` nodes by the cells (cells x corners) that join them, along one axis.

        Raises:
            ValueError: The cells have another shape.
        """
        import numpy as np

        from weir import _core

        order, shape = _core.mesh_order_by_connectivity(np.ascontiguousarray(cells, dtype=np.uint64), nodes)
        return cls(_filled(order, shape))

    @classmethod
    def from_bytes(cls, container: bytes) -> Self:
        """Read what `to_bytes` gave.

        Raises:
            ValueError: It is no order of nodes, or damaged.
        """
        import numpy as np

        restored = restore(container)
        places = restored.data
        if places.dtype != np.uint64 or restored.max_error > 0:
            raise ValueError("these bytes hold no whole order of nodes; make it again from the mesh")
        return cls(places)

    def to_bytes(self) -> bytes:
        """The order as a container, to be stored beside the mesh's values."""
        from weir import _core

        return _core.refactor(self.places, exact=True)

    def arrange(self, values: "npt.NDArray[Any]") -> "npt.NDArray[Any]":
        """The array that holds the values of all nodes, to be refactored."""
        return values[self.places]

    def values(self, array: "npt.NDArray[Any]") -> "npt.NDArray[Any]":
        """The values of all nodes, in their own order, from an array that `arrange` gave or a restored one."""
        import numpy as np

        nodes = int(self.places.max()) + 1 if self.places.size else 0
        values = np.empty(nodes, array.dtype)
        values[self.places] = array
        return values


def _filled(nodes: bytearray, shape: list[int]) -> "npt.NDArray[np.uint64]":
    import numpy as np

    order = np.frombuffer(nodes, dtype=np.uint64)
    places = int(np.prod(shape))
    return np.pad(order, (0, places - order.size), mode="edge").reshape(shape) if order.size else order
