"""JSON documents as dataclasses, and back.

A missing key without a default and a value of another type are refused, with their places.
"""

import dataclasses
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from functools import cache, partial
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
    try:
        made: Kind = _object(kind, is_exact, document)
    except _MismatchError as fault:
        raise DecodingError(f"{place}{fault.place} {fault.words}") from None
    return made


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


class _MismatchError(Exception):
    """A value of another type, with its place in the document."""

    def __init__(self, words: str) -> None:
        super().__init__(words)
        self.place = ""
        self.words = words

    def within(self, part: str) -> "_MismatchError":
        """The fault, seen from the object or the list that holds the value."""
        self.place = part + self.place
        return self


_Reader = Callable[[Any], Any]
"""Checks a value of a document, and makes the value of a field of it."""


@dataclasses.dataclass(frozen=True, slots=True)
class _Fields:
    """The fields of a dataclass, prepared once: an answer about a thousand jobs has some ten thousand objects."""

    readers: tuple[tuple[str, str, _Reader], ...]
    """Key, name and reader of each."""
    keys: frozenset[str]
    needed: tuple[str, ...]
    """Keys of fields without a default."""


@cache
def _fields_of(kind: type, is_exact: bool) -> _Fields:
    fields = dataclasses.fields(kind)
    hints = types_of(kind)
    readers = tuple((key_of(field), field.name, _reader(hints[field.name], is_exact)) for field in fields)
    needed = tuple(key_of(field) for field in fields if field.default is dataclasses.MISSING)
    return _Fields(readers, frozenset(key for key, _, _ in readers), needed)


def _object(kind: type, is_exact: bool, document: Any) -> Any:
    if not isinstance(document, dict):
        raise _MismatchError(f"is {_name(document)} and no object")
    fields = _fields_of(kind, is_exact)
    readers: Iterable[tuple[str, str, _Reader]] = fields.readers
    if not document.keys() >= fields.keys:
        if missing := [key for key in fields.needed if key not in document]:
            raise _MismatchError(f"has no {', '.join(missing)}")
        readers = [each for each in readers if each[0] in document]
    if is_exact and (unknown := document.keys() - fields.keys):
        raise _MismatchError(f"has {', '.join(sorted(unknown))}, which nobody knows")
    values = {}
    key = ""
    try:
        for key, name, read in readers:
            values[name] = read(document[key])
    except _MismatchError as fault:
        raise fault.within(f".{key}") from None
    return kind(**values)


def _reader(hint: Any, is_exact: bool) -> _Reader:
    """The reader of a field's type."""
    if (inner := optional(hint)) is not None:
        return _optional_reader(_reader(inner, is_exact))
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        return partial(_object, hint, is_exact)
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is tuple:
        return partial(_list, _reader(arguments[0], is_exact))
    if origin is dict:
        return partial(_mapping, _reader(arguments[1], is_exact))
    return _float if hint is float else partial(_scalar, hint)


def _optional_reader(read: _Reader) -> _Reader:
    def read_optional(value: Any) -> Any:
        return None if value is None else read(value)

    return read_optional


def _list(read: _Reader, value: Any) -> tuple[Any, ...]:
    if not isinstance(value, list):
        raise _MismatchError(f"is {_name(value)} and no list")
    found: list[Any] = []
    try:
        for item in value:
            found.append(read(item))
    except _MismatchError as fault:
        raise fault.within(f"[{len(found)}]") from None
    return tuple(found)


def _mapping(read: _Reader, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _MismatchError(f"is {_name(value)} and no object")
    found = {}
    key = ""
    try:
        for key, item in value.items():
            found[key] = read(item)
    except _MismatchError as fault:
        raise fault.within(f".{key}") from None
    return found


def _float(value: Any) -> float:
    # In Python a truth value is a number, and a number without a fraction no `float`.
    if isinstance(value, float):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    raise _MismatchError(f"is {_name(value)} and no float")


def _scalar(kind: type, value: Any) -> Any:
    if type(value) is kind or (isinstance(value, kind) and not isinstance(value, bool)):
        return value
    raise _MismatchError(f"is {_name(value)} and no {kind.__name__}")


def _name(value: object) -> str:
    return "null" if value is None else type(value).__name__
