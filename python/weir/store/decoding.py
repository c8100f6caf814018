"""JSON documents as dataclasses, and back.

A missing key without a default and a value of another type are refused, with their places.
"""

import dataclasses
import types
import typing
from collections.abc import Mapping
from functools import cache
from typing import Any, TypeVar

Kind = TypeVar("Kind")

KEY = "key"
"""Name in the metadata of a field whose key in JSON is no name in Python."""


class DecodingError(ValueError):
    """A document of another type than expected."""


def key_of(field: "dataclasses.Field[Any]") -> str:
    """Find the key of a field in JSON.

    Args:
        field: A field of a dataclass.
    """
    return str(field.metadata.get(KEY, field.name))


@cache
def types_of(kind: type) -> dict[str, Any]:
    """Find the types of a dataclass's fields.

    Args:
        kind: A dataclass.

    Returns:
        The types, by the names of the fields.
    """
    return typing.get_type_hints(kind)


def decode(kind: type[Kind], document: object, *, is_exact: bool = False, place: str = "the answer") -> Kind:
    """Make a dataclass of a JSON document.

    Args:
        kind: A dataclass. Its fields are of bool, int, float, str, of dataclasses, and of `tuple[X, ...]`, `dict[str,
            X]` and `X | None` of those.
        document: The document, as `json.loads` gives it.
        is_exact: Whether unknown keys are refused. Otherwise they are passed over: a newer server tells more.
        place: Name of the document in errors.

    Returns:
        An object of the dataclass.

    Raises:
        DecodingError: A key is missing, or a value is of another type.
    """
    if not isinstance(document, dict):
        raise DecodingError(f"{place} is {_name(document)} and no object")
    fields = {key_of(field): field for field in dataclasses.fields(kind)}  # type: ignore[arg-type]
    absent = [key for key in fields if key not in document]
    if missing := [key for key in absent if fields[key].default is dataclasses.MISSING]:
        raise DecodingError(f"{place} has no {', '.join(missing)}")
    if is_exact and (unknown := document.keys() - fields.keys()):
        raise DecodingError(f"{place} has {', '.join(sorted(unknown))}, which nobody knows")
    hints = types_of(kind)  # type: ignore[arg-type]
    values = {
        field.name: _value(hints[field.name], document[key], is_exact, f"{place}.{key}")
        for key, field in fields.items()
        if key not in absent
    }
    return kind(**values)


def encode(value: Any) -> Any:
    """Make a JSON document of a dataclass, with its keys in the order of the fields.

    Args:
        value: A dataclass that `decode` could make, or a value of one of its fields.

    Returns:
        The document, as `json.dumps` takes it.
    """
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {key_of(field): encode(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {key: encode(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [encode(item) for item in value]
    return value


def optional(hint: Any) -> Any:
    """Find the type of an optional field.

    Args:
        hint: Type of a field.

    Returns:
        `X` of `X | None`; None where the type has not this form.
    """
    if isinstance(hint, types.UnionType):
        parts = [part for part in typing.get_args(hint) if part is not type(None)]
        if len(parts) == 1:
            return parts[0]
    return None


def _value(hint: Any, value: object, is_exact: bool, place: str) -> Any:
    if (inner := optional(hint)) is not None:
        return None if value is None else _value(inner, value, is_exact, place)
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        return decode(hint, value, is_exact=is_exact, place=place)
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is tuple:
        if not isinstance(value, list):
            raise DecodingError(f"{place} is {_name(value)} and no list")
        return tuple(_value(arguments[0], item, is_exact, f"{place}[{index}]") for index, item in enumerate(value))
    if origin is dict:
        if not isinstance(value, dict):
            raise DecodingError(f"{place} is {_name(value)} and no object")
        return {key: _value(arguments[1], item, is_exact, f"{place}.{key}") for key, item in value.items()}
    # In Python a truth value is a number, and a number without a fraction no `float`.
    if isinstance(value, hint) and (hint is bool or not isinstance(value, bool)):
        return value
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    raise DecodingError(f"{place} is {_name(value)} and no {hint.__name__}")


def _name(value: object) -> str:
    return "null" if value is None else type(value).__name__
