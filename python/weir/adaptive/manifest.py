"""The small JSON objects that describe a stream and the places of each step's bytes.

A step's manifest is written last, so a visible step is whole. All of these objects lie on the first tier.
"""

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

VERSION = 1
"""Version of the objects."""
_MEANING_VERSION = 2
"""Version of the description of a stream whose stored numbers are not the values: earlier readers know no others."""
STREAM = "stream.json"
"""Name of the object that describes a stream."""
NAMES = "dataset.json"
"""Name of the object that describes the variables of a stream with names."""
END = "end.json"
"""Name of the object that marks the end of a stream."""
_MANIFEST = re.compile(r"(\d{8,19})\.json")
_DIMENSIONS_MAX = 4
_TIERS_MAX = 64
"""Most tiers that a reader believes of a damaged object: more than any machine has."""
_BYTES_MAX = (1 << 63) - 1


Errors = tuple[float, float]
"""Root mean square error and largest error."""


class ManifestError(ValueError):
    """An object that is no manifest."""


@dataclass(frozen=True, slots=True)
class Part:
    """The bytes of one step on one tier.

    Attributes:
        name: Name of the object, below the tier's folder.
        offset: Offset of the first byte in the step's container.
        length: Number of bytes.
    """

    name: str
    offset: int
    length: int

    @property
    def end(self) -> int:
        """One past the part's last byte in the container."""
        return self.offset + self.length


@dataclass(frozen=True, slots=True)
class Manifest:
    """The manifest of one step.

    Attributes:
        number: Number of the step.
        stream: Identity of the step's stream.
        dtype: Type of the array in numpy's spelling, such as `float32`.
        shape: Shape of the array.
        codec: Codec of the container.
        checksum: Checksum of the container's header, which no other container has.
        base_end: Bytes of header and base together.
        parts: One part for each tier, in order, without a gap; an empty part has length 0.
        base_errors: RMSE and largest error of the base alone, in units of the values; None where nothing tells them.
        errors: RMSE and largest error of the whole step, likewise.
    """

    number: int
    stream: str
    dtype: str
    shape: tuple[int, ...]
    codec: str
    checksum: int
    base_end: int
    parts: tuple[Part, ...]
    base_errors: Errors | None = None
    errors: Errors | None = None

    @property
    def total_bytes(self) -> int:
        """Bytes of the whole container."""
        return self.parts[-1].end

    def encode(self) -> bytes:
        """Encode the manifest.

        Returns:
            The JSON object.
        """
        document = {
            "weir_adaptive_step": VERSION,
            "step": self.number,
            "stream": self.stream,
            "dtype": self.dtype,
            "shape": list(self.shape),
            "codec": self.codec,
            "checksum": self.checksum,
            "base_end": self.base_end,
            "parts": [{"name": part.name, "offset": part.offset, "length": part.length} for part in self.parts],
        }
        for name, errors in (("base_errors", self.base_errors), ("errors", self.errors)):
            if errors is not None and all(map(math.isfinite, errors)):
                document[name] = list(errors)
        return json.dumps(document, indent=1).encode()

    @staticmethod
    def decode(data: bytes) -> "Manifest":
        """Decode a manifest.

        Args:
            data: The JSON object.

        Raises:
            ManifestError: The object is damaged, or of another version.
        """
        document = document_of(data, "weir_adaptive_step")
        entries = entries_of(document, "parts")
        parts = tuple(
            Part(text_of(entry, "name"), count_of(entry, "offset"), count_of(entry, "length")) for entry in entries
        )
        manifest = Manifest(
            count_of(document, "step"),
            text_of(document, "stream"),
            text_of(document, "dtype"),
            _shape(document),
            text_of(document, "codec"),
            count_of(document, "checksum"),
            count_of(document, "base_end"),
            parts,
            _errors(document, "base_errors"),
            _errors(document, "errors"),
        )
        ends = [0, *(part.end for part in parts)]
        gapless = all(part.offset == end for part, end in zip(parts, ends, strict=False))
        if not gapless or not 0 < manifest.base_end <= parts[0].end or any("/" in part.name for part in parts):
            raise ManifestError("its parts do not fit together")
        return manifest


@dataclass(frozen=True, slots=True)
class Stream:
    """The common properties of all steps of a stream.

    Attributes:
        identity: Identity of this stream, which its objects bear.
        writer: Identity of the writer. A writer that begins or continues a stream is its writer from then on.
        dtype: Type of each array in numpy's spelling.
        shape: Shape of each array, as it is refactored.
        tiers: URL and zone of each tier, as the writer knew it.
        codec: Codec of the steps.
        tolerance: Requested largest error of a whole step; None is the codec's smallest.
        exact: Whether a whole step restores every bit.
        nodes: Number of nodes of the values' mesh; None where the values have no mesh.
        meaning: What the stored arrays mean, as by `Meaning.to_document`; None where they are the values.
    """

    identity: str
    writer: str
    dtype: str
    shape: tuple[int, ...]
    tiers: tuple[tuple[str, str], ...]
    codec: str
    tolerance: float | None
    exact: bool
    nodes: int | None = None
    meaning: dict[str, Any] | None = None

    @property
    def mesh(self) -> str:
        """Name of the object with the order of the mesh's nodes, on the first tier."""
        return f"mesh.{self.identity}.weir"

    def encode(self) -> bytes:
        """Encode the description.

        Returns:
            The JSON object.
        """
        document = {
            "weir_adaptive_stream": VERSION if self.meaning is None else _MEANING_VERSION,
            "identity": self.identity,
            "writer": self.writer,
            "dtype": self.dtype,
            "shape": list(self.shape),
            "tiers": [{"url": url, "zone": zone} for url, zone in self.tiers],
            "codec": self.codec,
            "tolerance": self.tolerance,
            "exact": self.exact,
            "nodes": self.nodes,
            **({} if self.meaning is None else {"meaning": self.meaning}),
        }
        return json.dumps(document, indent=1).encode()

    @staticmethod
    def decode(data: bytes) -> "Stream":
        """Decode a description.

        Args:
            data: The JSON object.

        Raises:
            ManifestError: The object is damaged, or of another version.
        """
        document = document_of(data, "weir_adaptive_stream", versions=(VERSION, _MEANING_VERSION))
        pairs = tuple((text_of(tier, "url"), text_of(tier, "zone")) for tier in entries_of(document, "tiers"))
        return Stream(
            text_of(document, "identity"),
            text_of(document, "writer"),
            text_of(document, "dtype"),
            _shape(document),
            pairs,
            text_of(document, "codec"),
            _tolerance(document),
            document.get("exact") is True,
            None if document.get("nodes") is None else count_of(document, "nodes"),
            document.get("meaning"),
        )


def end_object(steps: int) -> bytes:
    """Encode the end of a stream.

    Args:
        steps: Number of the stream's steps.

    Returns:
        The JSON object.
    """
    return json.dumps({"weir_adaptive_end": VERSION, "steps": steps}).encode()


def steps_at_end(data: bytes) -> int:
    """Decode the end of a stream.

    Args:
        data: The JSON object.

    Returns:
        Number of the stream's steps.

    Raises:
        ManifestError: The object is damaged, or of another version.
    """
    return count_of(document_of(data, "weir_adaptive_end"), "steps")


def manifest_name(number: int) -> str:
    """Name the object of a step's manifest."""
    return f"{number:08d}.json"


def part_name(identity: str, number: int, tier: int) -> str:
    """Name the object of a step's bytes on a tier. Streams may share folders, but no name.

    Args:
        tier: Number of the tier, from 0.
    """
    return f"{number:08d}.{tier}.{identity}.weir"


def header_checksum(container: bytes | bytearray | memoryview, header_bytes: int) -> int:
    """Read the checksum at the end of a container's header.

    Args:
        container: The container, or a prefix that holds its header.
        header_bytes: Length of the header.
    """
    return int.from_bytes(container[header_bytes - 4 : header_bytes], "little")


def spelled(dtype: str, shape: Sequence[int], nodes: int | None = None) -> str:
    """Describe an array, as in `float32 of 64 x 32`.

    Args:
        dtype: Type of the array.
        nodes: Number of nodes of the values' mesh; None where they have no mesh.

    Returns:
        The description.
    """
    if nodes is not None:
        return f"{dtype} of {nodes} nodes"
    return f"{dtype} of {' x '.join(map(str, shape)) or 'one value'}"


def number_of(name: str) -> int | None:
    """Find the step of a manifest.

    Args:
        name: Name of an object.

    Returns:
        Number of the step; None where the object is no manifest.
    """
    found = _MANIFEST.fullmatch(name)
    return int(found[1]) if found and manifest_name(int(found[1])) == name else None


def document_of(data: bytes, kind: str, *, versions: tuple[int, ...] = (VERSION,)) -> dict[str, Any]:
    """Read a JSON object that describes something.

    Args:
        kind: The key that says what it describes; its value is the version.

    Raises:
        ManifestError: It is no such object, or of another version.
    """
    try:
        document = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise ManifestError(f"it is no JSON: {error}") from error
    if not isinstance(document, dict) or kind not in document:
        raise ManifestError(f"it has no `{kind}`")
    if document[kind] not in versions:
        raise ManifestError(f"it is of version {document[kind]!r}; this program reads version {versions[-1]}")
    return document


def entries_of(document: dict[str, Any], name: str, *, most: int = _TIERS_MAX) -> list[dict[str, Any]]:
    """Read a list of objects, of which there is at least one.

    Raises:
        ManifestError: It is none, or there are more than `most`.
    """
    entries = list_of(document, name)
    if not 0 < len(entries) <= most or not all(isinstance(entry, dict) for entry in entries):
        raise ManifestError(f"its {name} are damaged")
    return entries


def list_of(document: Mapping[str, Any], name: str) -> list[Any]:
    """Read a list.

    Raises:
        ManifestError: It is none.
    """
    value = document.get(name)
    if not isinstance(value, list):
        raise ManifestError(f"`{name}` is no list")
    return value


def text_of(document: Mapping[str, Any], name: str) -> str:
    """Read a text of at least one character.

    Raises:
        ManifestError: It is none.
    """
    value = document.get(name)
    if not isinstance(value, str) or not value:
        raise ManifestError(f"`{name}` is no text")
    return value


def count_of(document: Mapping[str, Any], name: str) -> int:
    """Read a whole number from 0.

    Raises:
        ManifestError: It is none.
    """
    value = document.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= _BYTES_MAX:
        raise ManifestError(f"`{name}` is no count")
    return value


def _tolerance(document: Mapping[str, Any]) -> float | None:
    value = document.get("tolerance")
    if value is not None and (isinstance(value, bool) or not isinstance(value, int | float) or not value > 0):
        raise ManifestError("`tolerance` is no error that a value may have")
    return value


def _errors(document: Mapping[str, Any], name: str) -> Errors | None:
    values = document.get(name)
    if values is None:
        return None
    if not isinstance(values, list) or len(values) != 2 or not all(_is_error(value) for value in values):
        raise ManifestError(f"`{name}` are no errors")
    return float(values[0]), float(values[1])


def _is_error(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value >= 0


def _shape(document: Mapping[str, Any]) -> tuple[int, ...]:
    values = list_of(document, "shape")
    if len(values) > _DIMENSIONS_MAX:
        raise ManifestError(f"`shape` has {len(values)} dimensions")
    return tuple(count_of({"shape": value}, "shape") for value in values)
