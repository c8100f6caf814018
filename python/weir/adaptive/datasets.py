"""Containers in formats that hold named arrays: the header and each chunk as an array of bytes."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from weir.adaptive.array import Restored, restore

ATTRIBUTE = "weir_refactored"
"""Attribute of a group that holds a container; its value is the container's version."""
_HEADER = "header"


def datasets_of(container: bytes) -> tuple[dict[str, bytes], dict[str, Any]]:
    """The arrays by name, in the order of their bytes, and attributes that describe the refactored array.

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
    """The array, from the header and the first chunks; missing chunks are listed with the damage.

    Raises:
        ValueError: Less than no chunk is asked for, or the region does not lie in the array.
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
