"""The codec `weir.refactored` of Zarr version 3: each chunk of an array is a container.

Zarr finds the codec by the entry point of its name, so any program that opens the array decodes it, once weir is
installed. Zarr reads a part of an array by those bytes of its chunks that the part needs.
"""

import asyncio
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy
from zarr.abc.codec import ArrayBytesCodec, ArrayBytesCodecPartialDecodeMixin
from zarr.abc.store import RangeByteRequest

from weir.adaptive.array import Restored, restore
from weir.adaptive.errors import AdaptiveWarning
from weir.adaptive.fills import FillLike, parse_fill
from weir.adaptive.forms import Form
from weir.adaptive.meaning import Meaning

if TYPE_CHECKING:
    from zarr.abc.store import ByteGetter
    from zarr.core.array_spec import ArraySpec
    from zarr.core.buffer import Buffer, NDBuffer

NAME = "weir.refactored"
"""Name of the codec."""
_HEAD_BYTES = 1 << 16
"""First bytes of a container to read. They hold nearly every header; a longer header takes another read."""
_OPTIONS = frozenset({"codec", "tolerance", "exact", "fill"})


@dataclass(frozen=True)
class RefactoredCodec(ArrayBytesCodec, ArrayBytesCodecPartialDecodeMixin):
    """Serializer for `zarr.create_array`, without compressors behind it.

    Attributes:
        codec: `planes` or `decimate`.
        tolerance: Largest error of any value, in units of the data; by default the codec's smallest.
        exact: Whether every bit is kept.
        fill: Fill values, which mark cells as missing: such cells are kept exactly, and are no part of any error. By
            default the array's own `fill_value`, unless that is Zarr's default of 0. The codec does not see attributes.
    """

    codec: str = "planes"
    tolerance: float | None = None
    exact: bool = False
    fill: FillLike | None = None

    is_fixed_size = False

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """Make the codec from the metadata of an array.

        Args:
            data: Metadata: `name` and `configuration`, as Zarr calls the codec's options.

        Raises:
            ValueError: The metadata is another codec's, or has an option that this version does not know.
        """
        options = dict(data.get("configuration") or {})
        if data.get("name") != NAME or not options.keys() <= _OPTIONS:
            known = ", ".join(sorted(_OPTIONS))
            raise ValueError(f"{data} is no configuration of the codec {NAME}, which takes {known}")
        if options.get("fill") is not None:
            options["fill"] = tuple(
                parse_fill(str(value)) for value in numpy.asarray(options["fill"], dtype=object).ravel()
            )
        return cls(**options)

    def to_dict(self) -> dict[str, Any]:
        """Describe the codec as metadata of an array.

        Returns:
            `name` and `configuration`; options that are None are left out.
        """
        options: dict[str, Any] = {"codec": self.codec, "tolerance": self.tolerance, "exact": self.exact}
        if self.fill is not None:
            # JSON has neither NaN nor infinities.
            options["fill"] = [
                value if numpy.isfinite(value) else str(value)
                for value in numpy.asarray(self.fill, dtype=object).ravel()
            ]
        return {"name": NAME, "configuration": {name: value for name, value in options.items() if value is not None}}

    def compute_encoded_size(self, input_byte_length: int, chunk_spec: "ArraySpec") -> int:
        """Refuse: the size is not known before.

        Args:
            input_byte_length: Bytes of a chunk.
            chunk_spec: Specification of a chunk.

        Returns:
            Nothing.

        Raises:
            NotImplementedError: Always.
        """
        raise NotImplementedError

    async def _encode_single(self, chunk_data: "NDBuffer", chunk_spec: "ArraySpec") -> "Buffer":
        from weir import _core

        values = chunk_data.as_numpy_array()
        meaning = self._meaning(values.dtype, values.shape, chunk_spec.fill_value)
        coded = meaning.coded(values, tolerance=self.tolerance, exact=self.exact)
        container = await asyncio.to_thread(_core.refactor, coded.values, codec=self.codec, **coded.options)
        return chunk_spec.prototype.buffer.from_bytes(container)

    def _meaning(self, dtype: "numpy.dtype[Any]", shape: tuple[int, ...], fill_value: Any) -> Meaning:
        if self.fill is not None:
            return Meaning.of(dtype, shape, given=self.fill)
        # Zarr fills with 0 where nobody chose a value, so a 0 says nothing.
        return Meaning.of(dtype, shape, {} if fill_value is None or not fill_value else {"_FillValue": fill_value})

    async def _decode_single(self, chunk_data: "Buffer", chunk_spec: "ArraySpec") -> "NDBuffer":
        restored = await asyncio.to_thread(restore, chunk_data.to_bytes())
        return _buffer(restored, (), chunk_spec)

    async def _decode_partial_single(
        self, byte_getter: "ByteGetter", selection: Any, chunk_spec: "ArraySpec"
    ) -> "NDBuffer | None":
        from weir import _core

        head = await _bytes(byte_getter, 0, _HEAD_BYTES, chunk_spec)
        if head is None:
            return None
        if not Form.of(chunk_spec.dtype.to_native_dtype(), chunk_spec.shape).is_plain:
            whole = await byte_getter.get(chunk_spec.prototype)
            return None if whole is None else _buffer(restore(whole.to_bytes()), selection, chunk_spec)
        header_bytes = _core.refactored_header_bytes(head)
        if header_bytes > len(head):
            head = await _bytes(byte_getter, 0, header_bytes, chunk_spec) or head
        header = _core.Refactored(head)
        region, within = _box(selection, header.shape)
        parts = [(0, head)]
        for offset, length in header.ranges(region):
            begin, end = max(offset, len(head)), offset + length
            if begin < end:
                parts.append((begin, await _bytes(byte_getter, begin, end, chunk_spec) or b""))
        restored = await asyncio.to_thread(restore, parts, region=region)
        return _buffer(restored, within, chunk_spec)


def _box(selection: Any, shape: list[int]) -> tuple[list[tuple[int, int]] | None, Any]:
    """The smallest region that holds the selection, and the selection within it."""
    if not isinstance(selection, tuple) or len(selection) != len(shape):
        return None, selection
    region: list[tuple[int, int]] = []
    within: list[slice | int] = []
    for part, length in zip(selection, shape, strict=True):
        if isinstance(part, slice):
            begin, end, step = part.indices(length)
            if step < 1 or begin >= end:
                return None, selection
            region.append((begin, end))
            within.append(slice(None, None, step))
        elif hasattr(part, "__index__") and not hasattr(part, "shape"):
            region.append((int(part), int(part) + 1))
            within.append(0)
        else:
            return None, selection
    return region, tuple(within)


async def _bytes(byte_getter: "ByteGetter", begin: int, end: int, chunk_spec: "ArraySpec") -> bytes | None:
    found = await byte_getter.get(chunk_spec.prototype, RangeByteRequest(begin, end))
    return None if found is None else found.to_bytes()


def _buffer(restored: Restored, within: Any, chunk_spec: "ArraySpec") -> "NDBuffer":
    for damage in restored.damaged:
        warnings.warn(f"a chunk of {chunk_spec.shape}: {damage}", AdaptiveWarning, stacklevel=2)
    form = Form.of(chunk_spec.dtype.to_native_dtype(), chunk_spec.shape)
    # A region has the shape of the region, and is of values that are stored as they are.
    data = restored.data if form.is_plain and chunk_spec.shape else form.values(restored.data)
    return chunk_spec.prototype.nd_buffer.from_numpy_array(numpy.asarray(data[within]))
