"""Containers in Zarr version 3: a group with the header and each chunk as an array of bytes.

Any Zarr reader finds them by the group's attributes `weir_refactored` (the container's version), `dtype` and `shape`;
joined in the order of their names the arrays are the container. A reader that needs the first chunks reads no others.
"""

from collections.abc import Sequence
from typing import Any

from weir.adaptive.array import Restored
from weir.adaptive.datasets import ATTRIBUTE, datasets_of, restored_from


def save(parent: Any, name: str, container: bytes) -> None:
    """Store a container as the group `name` of a zarr group.

    Raises:
        ValueError: The bytes are no container, or the name is taken.
    """
    import numpy as np

    datasets, attributes = datasets_of(container)
    group = parent.create_group(name, attributes=attributes)
    for dataset, part in datasets.items():
        # The bytes are compressed already, and one chunk of Zarr is one read.
        array = group.create_array(
            dataset, shape=(len(part),), chunks=(max(len(part), 1),), dtype="uint8", compressors=None
        )
        array[:] = np.frombuffer(part, dtype=np.uint8)


def load(
    parent: Any, name: str, *, chunks: int | None = None, region: Sequence[tuple[int, int]] | None = None
) -> Restored:
    """Restore the array of the group `name` from its first `chunks` chunks, from all of them unless it says how many.

    Raises:
        KeyError: There is no such group.
        ValueError: It holds no container, or `chunks` is less than 0.
    """
    group = parent[name]
    if ATTRIBUTE not in group.attrs:
        raise ValueError(f"{group.path} of {group.store} holds no refactored array: save one there")
    names = list(group.array_keys())
    return restored_from(names, lambda dataset: group[dataset][:].tobytes(), chunks=chunks, region=region)
