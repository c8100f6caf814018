"""How a container lies in formats that hold named arrays: the header and each chunk as an array of bytes."""

from collections.abc import Callable, Iterable
from typing import Any

ATTRIBUTE = "weir_refactored"
"""Attribute of a group that holds a container; its value is the container's version."""
CONTAINER_VERSION = 1
_HEADER = "header"


def datasets_of(container: bytes) -> tuple[dict[str, bytes], dict[str, Any]]:
    """The arrays by name, in the order of their bytes, and attributes that say what was refactored.

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
    return datasets, {"dtype": header.dtype, "shape": list(header.shape), "codec": header.codec}


def parts_of(names: Iterable[str], read: Callable[[str], bytes], chunks: int | None) -> list[tuple[int, bytes]]:
    """The header and the first chunks that are there, with their offsets in the container."""
    from weir import _core

    there = set(names)
    head = read(_HEADER)
    parts = [(0, head)]
    for number, (offset, _, _, _) in enumerate(_core.Refactored(head).chunks[:chunks]):
        if _chunk_name(number) in there:
            parts.append((offset, read(_chunk_name(number))))
    return parts


def _chunk_name(number: int) -> str:
    return f"chunk_{number:04}"
