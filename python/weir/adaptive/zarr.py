"""Containers in Zarr version 3: a group with the header and each chunk as an array of bytes.

Any Zarr reader finds them by the group's attributes `weir_refactored` (the container's version), `dtype` and `shape`;
joined in the order of their names the arrays are the container. A reader that needs the first chunks reads no others.
"""

from collections.abc import Sequence
from typing import Any

from weir.adaptive.array import Restored
from weir.adaptive.datasets import ATTRIBUTE, VARIABLE, container_of, datasets_of, restored_from, variable_in
from weir.adaptive.named.dataset import Variable


def save(parent: Any, name: str, container: bytes) -> None:
    """Store a container as a group.

    Args:
        parent: A zarr group.
        name: Name of the new group.
        container: A whole container.

    Raises:
        ValueError: The bytes are no container, or the name is taken.
    """
    import numpy as np

    datasets, attributes = datasets_of(container)
    group = parent.create_group(name, attributes=attributes)
    for dataset, part in datasets.items():
        # The bytes are compressed already, and one chunk of Zarr takes one read.
        array = group.create_array(
            dataset, shape=(len(part),), chunks=(max(len(part), 1),), dtype="uint8", compressors=None
        )
        array[:] = np.frombuffer(part, dtype=np.uint8)


def load(
    parent: Any, name: str, *, chunks: int | None = None, region: Sequence[tuple[int, int]] | None = None
) -> Restored:
    """Restore the array of a group.

    Args:
        parent: A zarr group.
        chunks: Number of chunks to read, the first ones; None reads all.
        region: (start, stop) along each axis; None is the whole array.

    Returns:
        The array, of the container's dtype and of its shape or the region's.

    Raises:
        KeyError: There is no such group.
        ValueError: The group holds no container, `chunks` is less than 0, or the region does not lie in the array.
    """
    group = parent[name]
    if ATTRIBUTE not in group.attrs:
        raise ValueError(f"{group.path} of {group.store} holds no refactored array: save one there")
    names = list(group.array_keys())
    return restored_from(names, lambda dataset: group[dataset][:].tobytes(), chunks=chunks, region=region)


def save_variable(
    parent: Any, name: str, variable: Variable, *, tolerance: float | None = None, **options: Any
) -> None:
    """Store a variable as a group, with its dimensions and attributes: fill values, packing and units hold.

    Args:
        parent: A zarr group.
        name: Name of the new group.
        variable: The variable as it is in a file, such as `Variable(("y", "x"), values, {"units": "K"})`.
        tolerance: Largest error of a value, in the variable's units; None keeps every bit.
        options: Further options of the container, such as `codec`.

    Raises:
        ValueError: The variable cannot be refactored, or the name is taken.
    """
    container, described = container_of(variable, tolerance=tolerance, **options)
    save(parent, name, container)
    parent[name].attrs[VARIABLE] = described


def load_variable(parent: Any, name: str, *, chunks: int | None = None) -> Variable:
    """Restore a variable that `save_variable` stored.

    Args:
        parent: A zarr group.
        chunks: Number of chunks to read, the first ones; None reads all.

    Returns:
        The variable as it was, with bounds of its errors as the attributes `weir_max_error` and `weir_rmse`.

    Raises:
        KeyError: There is no such group.
        ValueError: The group holds no variable.
    """
    return variable_in(parent[name], load(parent, name, chunks=chunks))
