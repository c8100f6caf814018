"""Containers of codecs of one's own: plug-ins of the kind `codec`.

A container is a magic number, the length and checksum of a header of JSON, the header, and the parts. The header states
the errors that the first parts leave. They were measured when the array was written: by decoding every one of them.
Cells that are missing stand in a part before those of the codec, and come back exactly.
"""

import json
import math
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Any

import numpy

from weir.plugins import CODEC, Plugin, PluginError, declared
from weir.plugins.codec import PARTS_MAX, CheckedCodec

MAGIC = b"\x89WOC\r\n\x1a\n"
_PREFIX = struct.Struct("<8sII")
"""The magic number, and length and checksum of the header."""
_HEADER_BYTES_MAX = 1 << 24
_BYTES_MAX = 1 << 48
"""Most bytes of a part that a damaged header may promise."""
_VERSION = 1
_KINDS = "fiu"
"""Kinds of numbers that codecs of plug-ins take, in numpy's spelling."""

Array = numpy.ndarray[Any, numpy.dtype[Any]]


@dataclass(frozen=True)
class OwnRestored:
    """An array that was restored: the fields of `weir._core.Restored`."""

    data: bytearray
    shape: list[int]
    rmse: float
    max_error: float
    damaged: list[int]


def refactor(values: Array, plugin: Plugin, *, tolerance: float | None, exact: bool, fill: Array | None) -> bytes:
    """Refactor an array.

    Args:
        values: The array, in C order and this machine's byte order.
        tolerance: Largest error of a value that the whole container may leave; None is the codec's choice.
        exact: Whether the whole container has to restore every bit.
        fill: Fill values, of the array's type; None where none are stated.

    Returns:
        The container.

    Raises:
        PluginError: The codec fails, or keeps less than was asked for.
        ValueError: The array is not of integers or floats.
    """
    if values.dtype.kind not in _KINDS:
        raise ValueError(f"codecs of plug-ins take integers and floats, not {values.dtype}")
    codec = CheckedCodec(plugin)
    missing = _missing(values, fill)
    plain = _without(values, missing)
    parts = codec.encode(plain, 0.0 if exact else tolerance)
    errors = [_errors(codec, parts[: count + 1], plain, missing) for count in range(len(parts))]
    last = errors[-1][1]
    if (exact and last > 0) or (tolerance is not None and last > tolerance):
        raise codec.kept_too_little(0.0 if exact else tolerance or 0.0, last)
    marks = _marks(values, missing)
    stored = [marks + parts[0], *parts[1:]]
    ordinary = plain[~missing] if missing.any() else plain
    header = {
        "version": _VERSION,
        "codec": plugin.name,
        "package": plugin.package,
        "dtype": values.dtype.name,
        "shape": list(values.shape),
        "range": [float(ordinary.min()), float(ordinary.max())] if ordinary.size else [0.0, 0.0],
        "fill": [] if fill is None else fill.tolist(),
        "marks": len(marks),
        "parts": [
            {"bytes": len(part), "checksum": zlib.crc32(part), "rmse": rmse, "max_error": max_error}
            for part, (rmse, max_error) in zip(stored, errors, strict=True)
        ],
    }
    text = json.dumps(header).encode()
    return b"".join([_PREFIX.pack(MAGIC, len(text), zlib.crc32(text)), text, *stored])


class OwnContainer:
    """The header of a container: the methods of `weir._core.Refactored`."""

    def __init__(self, head: bytes) -> None:
        """Read a header.

        Args:
            head: First bytes of the container, the whole header among them.

        Raises:
            ValueError: The header is missing or damaged.
        """
        if len(head) < _PREFIX.size:
            raise ValueError(f"a container begins with {_PREFIX.size} bytes, and there are {len(head)}")
        magic, length, checksum = _PREFIX.unpack_from(head)
        text = bytes(head[_PREFIX.size : _PREFIX.size + length])
        if magic != MAGIC or length > _HEADER_BYTES_MAX or len(text) < length or zlib.crc32(text) != checksum:
            raise ValueError("the header of the container is damaged")
        try:
            self._read(json.loads(text))
        except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
            raise ValueError(f"the header of the container is damaged: {error}") from error
        self.header_bytes: int = _PREFIX.size + length

    def _read(self, document: dict[str, Any]) -> None:
        if document["version"] != _VERSION:
            raise ValueError(f"it is of version {document['version']}")
        self.version = _VERSION
        self.codec, self._package = str(document["codec"]), str(document["package"])
        dtype = numpy.dtype(str(document["dtype"]))
        if dtype.kind not in _KINDS:
            raise ValueError(f"it is of {dtype}")
        self.dtype = dtype.name
        self.shape = [int(each) for each in document["shape"]]
        low, high = document["range"]
        self.range = (float(low), float(high))
        self.fill = list(document["fill"])
        self._marks = int(document["marks"])
        self._parts = document["parts"]
        lengths = [int(part["bytes"]) for part in self._parts]
        numbers = [float(part[name]) for part in self._parts for name in ("rmse", "max_error")]
        sizes_fit = 1 <= len(lengths) <= PARTS_MAX and all(0 <= each <= _BYTES_MAX for each in (*self.shape, *lengths))
        if not sizes_fit or not 0 <= self._marks <= lengths[0] or math.prod(self.shape) > _BYTES_MAX:
            raise ValueError("its sizes are none")
        if any(math.isnan(number) or number < 0 for number in numbers):
            raise ValueError("its errors are no numbers")

    @cached_property
    def _ends(self) -> list[int]:
        """The end of each part in the container."""
        lengths: list[int] = [int(part["bytes"]) for part in self._parts]
        return list(accumulate(lengths, initial=self.header_bytes))[1:]

    @property
    def base_bytes(self) -> int:
        """Bytes of the base."""
        return self._ends[0] - self.header_bytes

    @property
    def total_bytes(self) -> int:
        """Bytes of the whole container."""
        return self._ends[-1]

    @property
    def chunks(self) -> list[tuple[int, int, float, float]]:
        """Offset, length, and errors with all before, of each part."""
        begins = [self.header_bytes, *self._ends]
        return [
            (begin, int(part["bytes"]), float(part["rmse"]), float(part["max_error"]))
            for begin, part in zip(begins, self._parts, strict=False)
        ]

    @property
    def table(self) -> list[tuple[int, float, float, bool]]:
        """End, errors, and whether they were measured, of each part."""
        return [(begin + length, rmse, max_error, True) for begin, length, rmse, max_error in self.chunks]

    def ranges(
        self, region: Sequence[tuple[int, int]] | None = None, *, chunks: int | None = None
    ) -> list[tuple[int, int]]:
        """Offset and length of the bytes behind the base that a region needs: all, because parts are whole arrays."""
        end = self.total_bytes if chunks is None else self._ends[min(chunks, len(self._ends)) - 1]
        return [(self._ends[0], end - self._ends[0])] if end > self._ends[0] else []

    def bytes_for(
        self,
        *,
        rmse: float | None = None,
        max_error: float | None = None,
        psnr: float | None = None,
        relative: float | None = None,
    ) -> int:
        """Find the bytes that are accurate enough.

        Raises:
            ValueError: Not even the whole container is.
        """
        width = self.range[1] - self.range[0]
        rmse = width / 10 ** (psnr / 20) if psnr is not None else rmse
        max_error = relative * width if relative is not None else max_error
        for end, rmse_there, max_error_there, _ in self.table:
            if (rmse is None or rmse_there <= rmse) and (max_error is None or max_error_there <= max_error):
                return end
        raise ValueError("even the whole container is not as accurate")

    def restore(
        self,
        parts: Sequence[tuple[int, Any]],
        *,
        region: Sequence[tuple[int, int]] | None = None,
        threads: int = 1,
    ) -> OwnRestored:
        """Restore the array from the bytes that are there.

        Args:
            parts: Offset and bytes of parts of the container, in order.
            region: (start, stop) along each axis; None is the whole array.
            threads: Not used: the codec decides.

        Raises:
            ValueError: The base is missing or damaged, or the region does not lie in the array.
            PluginError: The codec is not installed, or fails.
        """
        whole, damaged = self._whole(parts)
        if not whole:
            raise ValueError("the base is missing or damaged")
        codec = CheckedCodec(self._plugin())
        dtype, shape = numpy.dtype(self.dtype), tuple(self.shape)
        marks, first = whole[0][: self._marks], whole[0][self._marks :]
        values = _marked(codec.decode([first, *whole[1:]], shape, dtype), marks)
        if region is not None:
            if len(region) != len(shape) or any(
                not 0 <= start < stop <= size for (start, stop), size in zip(region, shape, strict=False)
            ):
                raise ValueError(f"the region {region} does not lie in an array of {shape}")
            values = numpy.ascontiguousarray(values[tuple(slice(*bounds) for bounds in region)])
        last = self._parts[len(whole) - 1]
        shape_there = list(values.shape)
        return OwnRestored(
            bytearray(values.tobytes()), shape_there, float(last["rmse"]), float(last["max_error"]), damaged
        )

    def _whole(self, parts: Sequence[tuple[int, Any]]) -> tuple[list[bytes], list[int]]:
        """The first parts that are there whole, and the offset of the part that is damaged, if one ends them."""
        found: list[bytes] = []
        for (begin, length, _, _), part in zip(self.chunks, self._parts, strict=True):
            data = _bytes_at(parts, begin, length)
            if data is None:
                break
            if zlib.crc32(data) != part["checksum"]:
                return found, [begin]
            found.append(data)
        return found, []

    def _plugin(self) -> Plugin:
        """The plug-in that made the container. Data may name what is installed, and nothing else."""
        plugin = declared(CODEC, self.codec) or _CHOSEN.get(self.codec)
        if plugin is None:
            raise PluginError(
                self.codec,
                f"the array was written by the codec `{self.codec}`, which no installed package declares",
                hint=f"install {self._package}" if self._package else f"see {CODEC.page}",
            )
        return plugin


_CHOSEN: dict[str, Plugin] = {}
"""Codecs that this program chose by their places or gave: what it wrote by them it can read."""


def choose(plugin: Plugin) -> Plugin:
    """Take a codec that the program named or gave, so that its containers can be read in this process.

    Raises:
        PluginError: The plug-in cannot be loaded.
    """
    plugin.load()
    _CHOSEN[plugin.name] = plugin
    return plugin


def _bytes_at(parts: Sequence[tuple[int, Any]], begin: int, length: int) -> bytes | None:
    for offset, data in parts:
        if offset <= begin and begin + length <= offset + len(data):
            return bytes(memoryview(data)[begin - offset : begin - offset + length])
    return None


def _missing(values: Array, fill: Array | None) -> Array:
    missing = ~numpy.isfinite(values) if values.dtype.kind == "f" else numpy.zeros(values.shape, dtype=bool)
    for each in () if fill is None else fill:
        # NaN is missing already.
        missing |= values == each
    return missing


def _without(values: Array, missing: Array) -> Array:
    """The values with the mean of the ordinary ones in missing cells."""
    if not missing.any():
        return values
    ordinary = values[~missing]
    mean = ordinary.astype(numpy.float64).mean() if ordinary.size else 0.0
    return numpy.where(missing, values.dtype.type(mean), values)


def _marks(values: Array, missing: Array) -> bytes:
    """The missing cells and their values; nothing where no cell is missing."""
    if not missing.any():
        return b""
    return zlib.compress(numpy.packbits(missing.ravel()).tobytes() + values[missing].tobytes())


def _marked(values: Array, marks: bytes) -> Array:
    """The array with the missing cells that `_marks` describes."""
    if not marks:
        return values
    bits = -(-values.size // 8)
    try:
        data = zlib.decompressobj().decompress(marks, bits + values.nbytes)
    except zlib.error as error:
        raise ValueError(f"the marks of missing cells are damaged: {error}") from error
    missing = numpy.unpackbits(numpy.frombuffer(data[:bits], numpy.uint8), count=values.size).astype(bool)
    cells = numpy.frombuffer(data[bits:], values.dtype)
    if len(cells) != int(missing.sum()):
        raise ValueError("the marks of missing cells are damaged")
    values.reshape(-1)[missing] = cells
    return values


def _errors(codec: CheckedCodec, parts: Sequence[bytes], values: Array, missing: Array) -> tuple[float, float]:
    """The root mean square and the largest error of the ordinary cells that the first parts leave."""
    found = codec.decode(parts, values.shape, values.dtype)
    if values.dtype.kind == "f":
        differences = numpy.abs(found.astype(numpy.longdouble) - values.astype(numpy.longdouble))
    else:
        # The difference of two whole numbers of 64 bits fits into one without a sign.
        high, low = numpy.maximum(found, values), numpy.minimum(found, values)
        differences = (high.astype(numpy.uint64) - low.astype(numpy.uint64)).astype(numpy.longdouble)
    ordinary = differences[~missing]
    if not ordinary.size:
        return 0.0, 0.0
    return float(numpy.sqrt((ordinary**2).mean())), float(ordinary.max())
