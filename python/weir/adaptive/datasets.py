"""Containers in formats that hold named arrays: the header and each chunk are a dataset of bytes."""

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from weir.adaptive.array import Restored, restore
from weir.adaptive.attributes import from_json, to_json
from weir.adaptive.meaning import Meaning
from weir.adaptive.named.dataset import Variable

if TYPE_CHECKING:
    from weir import _core

VARIABLE = "weir_variable"
"""Attribute of a group that holds a variable: its dimensions, its attributes and its meaning, as JSON."""
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


def container_of(variable: Variable, *, tolerance: float | None, **options: Any) -> tuple[bytes, str]:
    """Refactor a variable.

    Args:
        variable: The variable as it is in a file.
        tolerance: Largest error of a value, in the variable's units; None keeps every bit.
        options: Further arguments of `_core.refactor`, such as `codec`.

    Returns:
        The container, and what the group's attribute `weir_variable` says.

    Raises:
        ValueError: The variable cannot be refactored.
    """
    from weir import _core

    values = variable.loaded()
    meaning = Meaning.of(values.dtype, values.shape, variable.attributes)
    coded = meaning.coded(values, tolerance=tolerance, exact=tolerance is None)
    container = _core.refactor(coded.values, **options, **coded.options)
    described = {
        "dims": list(variable.dims), "attributes": to_json(variable.attributes), "meaning": meaning.to_document()
    }  # fmt: skip
    return container, json.dumps(described)


def variable_in(group: Any, container: Restored) -> Variable:
    """Bring the restored container of a group back into the variable that the group holds.

    Args:
        group: A group of h5py or of Zarr.

    Returns:
        The variable, as by `variable_of`.

    Raises:
        ValueError: The group holds no variable, or its description is damaged.
    """
    from weir import _core

    if VARIABLE not in group.attrs:
        raise ValueError(f"{group.name} holds an array without names: load it as one")
    return variable_of(group.attrs[VARIABLE], container, _core.Refactored(group[_HEADER][:].tobytes()))


def variable_of(described: str, container: Restored, header: "_core.Refactored") -> Variable:
    """Bring a restored container back into a variable.

    Args:
        described: The group's attribute `weir_variable`.

    Returns:
        The variable as it was, with bounds of its errors as the attributes `weir_max_error` and `weir_rmse`.

    Raises:
        ValueError: The attribute is damaged.
    """
    document = json.loads(described)
    meaning = Meaning.from_document(document.get("meaning"))
    rmse, max_error = meaning.errors(container.rmse, container.max_error, header)
    values = meaning.encoding.stored(meaning.counted(container.data, header.fill))
    attributes = {**from_json(document.get("attributes")), "weir_max_error": max_error, "weir_rmse": rmse}
    return Variable(tuple(map(str, document.get("dims", ()))), values, attributes)
