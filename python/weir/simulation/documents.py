"""TOML documents whose faults name the file, the line and the key.

A reader asks a `Table` for the keys that it knows, each with its type, and closes the table at the end: a key that
nobody asked for is refused, with those that exist.
"""

import copy
import difflib
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

from weir import _core
from weir.simulation.errors import ScenarioError

Value = TypeVar("Value")
Way = tuple[str | int, ...]
"""Keys and indices that lead from a document to a value."""

_INDEX = re.compile(r"\d{1,9}", re.ASCII)
"""A part of a key that is an index of a list."""
REFERENCE = "see docs/reference/scenarios.md"


class _Required:
    """The default of a key that has none."""


REQUIRED: Final = _Required()


class Document:
    """A TOML document with the lines of its keys.

    Attributes:
        origin: The file, for errors.
        folder: Folder at which relative paths in the document begin.
    """

    def __init__(self, values: dict[str, Any], lines: Mapping[Way, int], *, origin: str, folder: Path) -> None:
        """Keep a document.

        Args:
            values: The document, as tables, lists and values.
            lines: Line of each key; empty where the document has no text.
            origin: The file, for errors.
            folder: Folder at which relative paths begin.
        """
        self._values = values
        self._lines = dict(lines)
        self.origin = origin
        self.folder = folder

    def changed(self, changes: Mapping[str, Any]) -> "Document":
        """Change values of the document.

        Args:
            changes: New values by their keys; dots separate the keys and indices that lead to a value, as in
                `jobs.0.processes` or `layout.stripe_count`. None takes a key away.

        Returns:
            The changed document; this one stays.

        Raises:
            ScenarioError: A key leads through a value that is no table.
        """
        values = copy.deepcopy(self._values)
        lines = dict(self._lines)
        for key, value in changes.items():
            way = tuple(int(part) if _INDEX.fullmatch(part) else part for part in key.split("."))
            _put(values, way, value, self.origin)
            lines = {each: line for each, line in lines.items() if each[: len(way)] != way}
        return Document(values, lines, origin=self.origin, folder=self.folder)

    def table(self) -> "Table":
        """Read the document from its top."""
        return Table(self, (), self._values)

    def error(self, way: Way, message: str, hint: str) -> ScenarioError:
        """Describe a fault.

        Args:
            way: The way to the value at fault.
            message: The fault.
            hint: What is allowed.

        Returns:
            The error, which names the file, the line and the key.
        """
        line = next((self._lines[way[:end]] for end in range(len(way), 0, -1) if way[:end] in self._lines), None)
        key = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in way).lstrip(".")
        places = [self.origin, *([f"line {line}"] if line else []), *([key] if key else [])]
        return ScenarioError(f"{': '.join(places)}: {message}", hint=hint)


def _put(values: Any, way: Way, value: Any, origin: str) -> None:
    key = ".".join(map(str, way))
    for part in way[:-1]:
        if isinstance(values, dict) and isinstance(part, str):
            values = values.setdefault(part, {})
        elif isinstance(values, list) and isinstance(part, int) and part < len(values):
            values = values[part]
        else:
            raise ScenarioError(f"{origin}: there is no {key}", hint=REFERENCE)
    last = way[-1]
    is_table = isinstance(values, dict) and isinstance(last, str)
    if not is_table and not (isinstance(values, list) and isinstance(last, int) and last < len(values)):
        raise ScenarioError(f"{origin}: there is no {key}", hint=REFERENCE)
    if value is None:
        del values[last]
    else:
        values[last] = value


def read_document(path: Path) -> Document:
    """Read a TOML file.

    Raises:
        ScenarioError: The file cannot be read, or is not TOML.
    """
    try:
        text = path.read_text()
    except UnicodeDecodeError as error:
        raise ScenarioError(f"{path} is not TOML: it is not UTF-8", hint=REFERENCE) from error
    except OSError as error:
        raise ScenarioError(f"cannot read {path}: {error.strerror}", hint="is the path right?") from error
    return parse_document(text, origin=str(path), folder=path.parent)


def parse_document(text: str, *, origin: str, folder: Path) -> Document:
    """Read a TOML text.

    Args:
        origin: Its file, for errors.
        folder: Folder at which relative paths in the text begin.

    Raises:
        ScenarioError: The text is not TOML.
    """
    try:
        return Document(tomllib.loads(text), _core.toml_lines(text), origin=origin, folder=folder)
    except (ValueError, RecursionError) as error:
        raise ScenarioError(f"{origin} is not TOML: {error}", hint=REFERENCE) from error


class Table:
    """A table of a document, which is asked for its keys."""

    def __init__(self, document: Document, way: Way, values: dict[str, Any]) -> None:
        """Begin to read a table.

        Args:
            document: The document that holds the table.
            values: The table's values.
        """
        self.document = document
        self._way = way
        self._values = values
        self._known: dict[str, None] = {}

    def error(self, key: str | None, message: str, hint: str = REFERENCE) -> ScenarioError:
        """Describe a fault of the table.

        Args:
            key: The key at fault; None where the whole table is.
            message: The fault.
            hint: What is allowed.

        Returns:
            The error, which names the file, the line and the key.
        """
        return self.document.error(self._way if key is None else (*self._way, key), message, hint)

    def has(self, key: str) -> bool:
        """Decide whether the table has a key.

        Args:
            key: The key, which counts as known from now on.

        Returns:
            Whether the key is there.
        """
        self._known[key] = None
        return key in self._values

    def close(self) -> None:
        """End the reading of the table.

        Raises:
            ScenarioError: The table has a key that was not asked for.
        """
        for key in self._values:
            if key not in self._known:
                near = difflib.get_close_matches(key, self._known, n=1)
                hint = f"is it {near[0]}?" if near else f"allowed are {', '.join(self._known)}"
                raise self.error(key, "there is no such key", hint)

    def value(self, key: str, default: Value | _Required, what: str, read: Callable[[Any], Value]) -> Value:
        """Read a value.

        Args:
            default: The value where the key is absent; `REQUIRED` where it may not be.
            what: The allowed values, in words, such as `a text`.
            read: Called with the value; raises ValueError where it is not allowed, with the reason or nothing.

        Raises:
            ScenarioError: The key is absent and required, or its value is not allowed.
        """
        if not self.has(key):
            if isinstance(default, _Required):
                raise self.error(None, f"{key} is missing: {what}")
            return default
        found = self._values[key]
        try:
            return read(found)
        except ValueError as error:
            reason = str(error) or f"{_shown(found)} is not allowed"
            raise self.error(key, reason, f"give {what}") from error

    def text(self, key: str, default: str | _Required = REQUIRED, *, what: str = "a text") -> str:
        """Read a text.

        Args:
            default: The text where the key is absent.
            what: The allowed texts, in words.

        Returns:
            The text, which is not empty.
        """
        return self.value(key, default, what, as_text)

    def choice(self, key: str, default: str | _Required, allowed: Sequence[str]) -> str:
        """Read one of some texts.

        Args:
            default: The text where the key is absent.

        Raises:
            ScenarioError: The text is none of them, or the key is absent and required.
        """

        def read(found: Any) -> str:
            if found not in allowed:
                raise ValueError(f"{_shown(found)} is not one of {', '.join(allowed)}")
            return str(found)

        return self.value(key, default, " or ".join(allowed), read)

    def whole(self, key: str, default: int | _Required = REQUIRED, *, least: int = 0, most: int = 2**63 - 1) -> int:
        """Read a whole number.

        Args:
            default: The number where the key is absent.
            least: Least allowed number.
            most: Greatest allowed number.
        """
        what = f"a whole number from {least} to {most}" if most < 2**63 - 1 else f"a whole number from {least}"
        return self.value(key, default, what, lambda found: as_whole(found, least, most))

    def number(
        self, key: str, default: float | _Required = REQUIRED, *, least: float = 0.0, most: float = 1e18
    ) -> float:
        """Read a number.

        Args:
            default: The number where the key is absent.
            least: Least allowed number.
            most: Greatest allowed number.
        """
        what = f"a number from {least:g} to {most:g}"
        return self.value(key, default, what, lambda found: as_number(found, least, most))

    def fraction(self, key: str, default: float | _Required = REQUIRED) -> float:
        """Read a part of the whole.

        Args:
            default: The part where the key is absent.

        Returns:
            The part, from 0 to 1.
        """
        return self.value(key, default, 'a fraction such as 0.2 or "20%"', as_fraction)

    def size(self, key: str, default: int | _Required = REQUIRED, *, least: int = 0) -> int:
        """Read a number of bytes.

        Args:
            default: The bytes where the key is absent.
            least: Least allowed number of bytes.
        """
        what = 'a size such as "64k" or "1MiB"' + (f", at least {least} bytes" if least else "")
        return self.value(key, default, what, lambda found: as_size(found, least))

    def seconds(self, key: str, default: float | _Required = REQUIRED) -> float:
        """Read a time.

        Args:
            default: The seconds where the key is absent.
        """
        return self.value(key, default, 'a time such as "100us" or "1h"', as_seconds)

    def rate(self, key: str, default: float | _Required = REQUIRED) -> float:
        """Read a rate.

        Args:
            default: The bytes a second where the key is absent.

        Returns:
            The bytes a second.
        """
        return self.value(key, default, 'a rate such as "200MB/s"', as_rate)

    def switch(self, key: str, default: bool) -> bool:
        """Read a switch.

        Args:
            default: The value where the key is absent.

        Returns:
            The value.

        Raises:
            ScenarioError: The value is neither true nor false.
        """

        def read(found: Any) -> bool:
            if not isinstance(found, bool):
                raise ValueError
            return found

        return self.value(key, default, "true or false", read)

    def path(self, key: str) -> Path:
        """Read the path of a file or folder.

        Args:
            key: The key, which must be there.

        Returns:
            The path; a relative one begins at the document's folder.

        Raises:
            ScenarioError: The key is absent, no text, or names nothing that exists.
        """
        path = self.document.folder / Path(self.text(key, what="a path")).expanduser()
        try:
            is_there = path.exists()
        except OSError as error:
            # A name that no file can have, such as one that is too long.
            raise self.error(key, f"it names no file: {error.strerror}", "is the path right?") from error
        if not is_there:
            raise self.error(key, f"{path} does not exist", "relative paths begin at the folder of this file")
        return path

    def table(self, key: str) -> "Table":
        """Read a table below this one.

        Returns:
            The table; an empty one where the key is absent.

        Raises:
            ScenarioError: The value is no table.
        """
        found = self._values[key] if self.has(key) else {}
        if not isinstance(found, dict):
            raise self.error(key, f"{_shown(found)} is no table", f"write it as [{key}]")
        return Table(self.document, (*self._way, key), found)

    def tables(self, key: str) -> list["Table"]:
        """Read an array of tables below this one.

        Returns:
            The tables; none where the key is absent.

        Raises:
            ScenarioError: The value is no array of tables.
        """
        found = self._values[key] if self.has(key) else []
        if not isinstance(found, list) or not all(isinstance(entry, dict) for entry in found):
            raise self.error(key, f"{_shown(found)} is no array of tables", f"write each as [[{key}]]")
        return [Table(self.document, (*self._way, key, place), entry) for place, entry in enumerate(found)]


def as_text(found: Any) -> str:
    """Read a text that is not empty.

    Args:
        found: The value.

    Raises:
        ValueError: The value is no text, or empty.
    """
    if not isinstance(found, str) or not found:
        raise ValueError
    return found


def as_whole(found: Any, least: int, most: int) -> int:
    """Read a whole number.

    Args:
        found: The value.
        least: Least allowed number.
        most: Greatest allowed number.

    Raises:
        ValueError: The value is no whole number, or outside the bounds.
    """
    if not isinstance(found, int) or isinstance(found, bool) or not least <= found <= most:
        raise ValueError
    return found


def as_number(found: Any, least: float, most: float) -> float:
    """Read a number.

    Args:
        found: The value.
        least: Least allowed number.
        most: Greatest allowed number.

    Raises:
        ValueError: The value is no number, or outside the bounds.
    """
    if not isinstance(found, int | float) or isinstance(found, bool) or not least <= found <= most:
        raise ValueError
    return float(found)


def as_fraction(found: Any) -> float:
    """Read a part of the whole.

    Args:
        found: The value: a number, or a text such as `20%`.

    Returns:
        The part, from 0 to 1.

    Raises:
        ValueError: The value is no part of the whole.
    """
    return _core.parse_fraction(found) if isinstance(found, str) else as_number(found, 0.0, 1.0)


def as_size(found: Any, least: int) -> int:
    """Read a number of bytes.

    Args:
        found: The value: a number, or a text such as `4GiB`.
        least: Least allowed number of bytes.

    Raises:
        ValueError: The value is no size, or too small.
    """
    return as_whole(_core.parse_size(found) if isinstance(found, str) else found, least, 2**63 - 1)


def as_rate(found: Any) -> float:
    """Read a rate.

    Args:
        found: The value: a number of bytes a second, or a text such as `200MB/s`.

    Returns:
        The bytes a second.

    Raises:
        ValueError: The value is no rate above 0.
    """
    return _core.parse_rate(found) if isinstance(found, str) else as_number(found, 1e-9, 1e18)


def as_seconds(found: Any) -> float:
    """Read a time.

    Args:
        found: The value: a number of seconds, or a text such as `100us`.

    Raises:
        ValueError: The value is no time.
    """
    return _core.parse_seconds(found) if isinstance(found, str) else as_number(found, 0.0, 1e12)


def _shown(found: Any) -> str:
    """A value in an error; a long one is cut."""
    text = repr(found)
    return text if len(text) <= 60 else f"{text[:57]}..."
