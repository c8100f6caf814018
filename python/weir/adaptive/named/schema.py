"""The description of a stream of named variables: `dataset.json`, on its first tier."""

import json
from dataclasses import dataclass
from enum import StrEnum
from typing import Any
from urllib.parse import quote

import numpy

from weir.adaptive.attributes import from_json, to_json
from weir.adaptive.manifest import ManifestError, count_of, document_of, entries_of, list_of, text_of

VERSION = 1
"""Version of the description."""
STEP = "step"
"""Name of the dimension of steps that have no name of their own."""
_TEXT = "text"
_VARIABLES_MAX = 100_000
"""Most variables that a reader believes of a damaged object."""


class Kind(StrEnum):
    """The place of a variable's values."""

    STREAM = "stream"
    """A stream of its own: refactored, a step at a time."""
    RECORD = "record"
    """A small part of each step's record: exact."""
    STATIC = "static"
    """The same for all steps, stored once: exact."""


@dataclass(frozen=True)
class Described:
    """One variable.

    Attributes:
        name: Its name.
        dims: Its dimensions.
        dtype: Type of its values; texts of any length are objects.
        attributes: Its attributes.
        kind: The place of its values.
        tolerance: Largest error of a value, in the variable's units; 0 where every bit is kept.
    """

    name: str
    dims: tuple[str, ...]
    dtype: "numpy.dtype[Any]"
    attributes: dict[str, Any]
    kind: Kind
    tolerance: float = 0.0

    @property
    def is_text(self) -> bool:
        """Whether the values are texts of any length."""
        return self.dtype.kind == "O"

    @property
    def folder(self) -> str:
        """Folder of the variable's stream, below that of the tier. No name of a file of a stream is one."""
        return quote(self.name, safe=" ").replace(".", "%2E")


@dataclass(frozen=True)
class Schema:
    """The variables of a stream.

    Attributes:
        identity: Identity of the stream, which its objects bear.
        writer: Identity of the writer.
        along: The dimension of the steps; None where there is one step that has all.
        sizes: Length of each other dimension.
        attributes: Attributes of the whole.
        unlimited: Dimensions that grow.
        variables: The variables.
    """

    identity: str
    writer: str
    along: str | None
    sizes: dict[str, int]
    attributes: dict[str, Any]
    unlimited: tuple[str, ...]
    variables: tuple[Described, ...]

    @property
    def streamed(self) -> tuple[Described, ...]:
        """The variables with streams of their own."""
        return tuple(each for each in self.variables if each.kind is Kind.STREAM)

    @property
    def static_name(self) -> str:
        """Name of the object with what is the same for all steps."""
        return f"dataset.static.{self.identity}.npz"

    @property
    def end_name(self) -> str:
        """Name of the object that ends the stream, with all records."""
        return f"dataset.end.{self.identity}.npz"

    def record_name(self, number: int) -> str:
        """Name the object with the record of a step."""
        return f"dataset.{number:08d}.{self.identity}.npz"

    def number_of(self, name: str) -> int | None:
        """Find the step of a record's name; None where it is none."""
        parts = name.split(".")
        is_record = len(parts) == 4 and parts[0] == "dataset" and parts[1].isdigit()
        return int(parts[1]) if is_record and self.record_name(int(parts[1])) == name else None

    def folder_of(self, variable: Described) -> str:
        """Folder of a variable's stream below a tier's; empty where it is the only one, and lies in the tier's."""
        return "" if len(self.streamed) == 1 else variable.folder

    def encode(self) -> bytes:
        """Encode the description as a JSON object."""
        document = {
            "weir_adaptive_dataset": VERSION,
            "identity": self.identity,
            "writer": self.writer,
            "along": self.along,
            "sizes": [{"name": name, "length": length} for name, length in self.sizes.items()],
            "attributes": to_json(self.attributes),
            "unlimited": list(self.unlimited),
            "variables": [
                {
                    "name": each.name,
                    "dims": list(each.dims),
                    "dtype": _TEXT if each.is_text else numpy.lib.format.dtype_to_descr(each.dtype),
                    "attributes": to_json(each.attributes),
                    "kind": each.kind,
                    "tolerance": each.tolerance,
                }
                for each in self.variables
            ],
        }
        return json.dumps(document, indent=1).encode()

    @staticmethod
    def decode(data: bytes) -> "Schema":
        """Decode a description.

        Raises:
            ManifestError: The object is damaged, or of another version.
        """
        document = document_of(data, "weir_adaptive_dataset")
        along = document.get("along")
        if along is not None and not isinstance(along, str):
            raise ManifestError("`along` is no name")
        sizes = {
            str(each["name"]): count_of(each, "length")
            for each in list_of(document, "sizes")
            if isinstance(each, dict) and "name" in each
        }
        variables = tuple(map(_described, entries_of(document, "variables", most=_VARIABLES_MAX)))
        known = {*sizes, along}
        for each in variables:
            if not known.issuperset(each.dims):
                raise ManifestError(f"the variable {each.name} has dimensions that are not there")
        return Schema(
            text_of(document, "identity"),
            text_of(document, "writer"),
            along,
            sizes,
            _attributes(document),
            tuple(map(str, list_of(document, "unlimited"))),
            variables,
        )


def _described(entry: dict[str, Any]) -> Described:
    dtype, tolerance = entry.get("dtype"), entry.get("tolerance")
    if not isinstance(tolerance, int | float) or isinstance(tolerance, bool) or not tolerance >= 0:
        raise ManifestError("`tolerance` is no error that a value may have")
    try:
        kind = Kind(text_of(entry, "kind"))
        found = numpy.dtype(object) if dtype == _TEXT else numpy.lib.format.descr_to_dtype(_tuples(dtype))
    except (TypeError, ValueError) as error:
        raise ManifestError(f"a variable is damaged: {error}") from error
    dims = tuple(map(str, list_of(entry, "dims")))
    return Described(text_of(entry, "name"), dims, found, _attributes(entry), kind, float(tolerance))


def _tuples(dtype: Any) -> Any:
    return [tuple(field) for field in dtype] if isinstance(dtype, list) else dtype


def _attributes(document: dict[str, Any]) -> dict[str, Any]:
    try:
        return from_json(document.get("attributes"))
    except ValueError as error:
        raise ManifestError(str(error)) from error
