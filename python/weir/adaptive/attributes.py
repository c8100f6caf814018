"""Attributes of variables as JSON. Types of numbers are kept, since netCDF tells floats from doubles."""

from collections.abc import Mapping
from typing import Any

import numpy

_PLAIN = (str, bool, int)
_WORDS = ("nan", "inf", "-inf")


def to_json(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Describe attributes as a JSON object.

    Args:
        attributes: Texts, numbers, arrays of them, and bytes, by name.

    Raises:
        TypeError: A value is none of these.
    """
    return {str(name): _encoded(name, value) for name, value in attributes.items()}


def from_json(document: Any) -> dict[str, Any]:
    """Read attributes back.

    Raises:
        ValueError: The object is none of `to_json`.
    """
    if not isinstance(document, dict):
        raise ValueError("its attributes are no object")
    try:
        return {name: _decoded(value) for name, value in document.items()}
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"its attributes are damaged: {error!r}") from error


def _encoded(name: str, value: Any) -> Any:
    if isinstance(value, numpy.str_):
        value = str(value)
    if isinstance(value, _PLAIN) and not isinstance(value, numpy.generic):
        return value
    if isinstance(value, bytes):
        return {"type": "bytes", "value": value.decode("latin-1")}
    array = numpy.asarray(value)
    if array.dtype.kind in "OUT":
        texts = array.ravel().tolist()
        if not all(isinstance(text, str) for text in texts):
            raise TypeError(f"the attribute `{name}` is {value!r}, and neither text nor numbers")
        return {"type": "texts", "value": texts}
    if array.dtype.kind == "S":
        return {"type": "texts", "value": [text.decode("latin-1") for text in array.ravel().tolist()]}
    if array.dtype.kind not in "fiub":
        raise TypeError(f"the attribute `{name}` is {value!r}, and neither text nor numbers")
    numbers = [number if _is_json(number) else str(number) for number in array.ravel().tolist()]
    return {"type": array.dtype.name, "value": numbers[0] if array.ndim == 0 else numbers}


def _is_json(number: float) -> bool:
    return str(number) not in _WORDS


def _decoded(value: Any) -> Any:
    if isinstance(value, _PLAIN):
        return value
    kind, content = value["type"], value["value"]
    if kind == "bytes":
        return content.encode("latin-1")
    if kind == "texts":
        return [str(text) for text in content]
    dtype = numpy.dtype(kind)
    if dtype.kind not in "fiub":
        raise ValueError(f"{kind} is no type of numbers")
    if isinstance(content, list):
        return numpy.array([_number(number) for number in content], dtype=dtype)
    return dtype.type(_number(content))


def _number(number: Any) -> Any:
    return float(number) if isinstance(number, str) else number
