"""Containers in formats that hold named arrays: the header and each chunk are a dataset of bytes."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from weir.adaptive.array import Restored, restore

ATTRIBUTE = "weir_refactored"
"""Attribute of a group that holds a container; its value is the container's version."""
_HEADER = "header"


def datasets_of(container: bytes) -> tuple[dict[str, bytes], dict[str, Any]]:
    """Cut a container into datasets.

    Args:
        container: A whole container.

    Returns:
        The datasets by name, in the order of their bytes, and the attributes of the group: `weir_refactored` (the
        container's version), `dtype`, `shape` and `codec`.

    Raises:
        ValueError: The bytes are no whole container.
    """
    from weir import _core

    header = _core.Refactored(container)
    if len(container) != header.total_bytes:
        raise ValueError(
            f"the container has {header.total_bytes} bytes, but {len(container)} are given: store it whole"
        )
    datasets = {_HEADER: container[: header.header_bytes]}
    for number, (offset, length, _, _) in enumerate(header.chunks):
        datasets[_chunk_name(number)] = container[offset : offset + length]
    shape = list(header.shape)
    return datasets, {ATTRIBUTE: header.version, "dtype": header.dtype, "shape": shape, "codec": header.codec}


def restored_from(
    names: Iterable[str],
    read: Callable[[str], bytes],
    *,
    chunks: int | None,
    region: Sequence[tuple[int, int]] | None,
) -> Restored:
    """Restore an array from datasets; missing chunks are listed with the damage.

    Args:
        names: Names of the datasets that are there.
        read: Called with a dataset's name; returns its bytes.
        chunks: Number of chunks to read, the first ones; None reads all.
        region: (start, stop) along each axis; None is the whole array.

    Returns:
        The array, of the container's dtype and of its shape or the region's.

    Raises:
        ValueError: `chunks` is less than 0, the header is damaged, or the region does not lie in the array.
    """
    from weir import _core

    if chunks is not None and chunks < 0:
        raise ValueError(f"{chunks} chunks cannot be read; give 0 or more, or None for all")
    there = set(names)
    head = read(_HEADER)
    parts, gone = [(0, head)], []
    for number, (offset, _, _, _) in enumerate(_core.Refactored(head).chunks[:chunks]):
        name = _chunk_name(number)
        if name in there:
            parts.append((offset, read(name)))
        else:
            gone.append(f"{name} is gone")
    restored = restore(parts, region=region)
    return replace(restored, damaged=[*restored.damaged, *gone])


def _chunk_name(number: int) -> str:
    return f"chunk_{number:04}"
