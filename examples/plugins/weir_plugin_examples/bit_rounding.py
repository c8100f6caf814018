"""Bit rounding of floats (after Kloewer and others, Nature Computational Science 1, 2021), a few bits in each part."""

import zlib
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

_EXPONENT_BITS = {4: 8, 8: 11}
"""Bits of the exponent by the bytes of a float."""
_FIRST_BITS = 3
"""Bits of the mantissa in the first part, beside sign and exponent."""
_NEXT_BITS = 4
"""Bits of the mantissa in each further part."""


class BitRounding:
    """Keeps the sign, the exponent and the first bits of each float; each part adds four bits."""

    def encode(self, values: Array, tolerance: float | None) -> list[bytes]:
        if values.dtype.kind != "f" or values.dtype.itemsize not in _EXPONENT_BITS:
            raise ValueError(f"bits of floats of 4 or 8 bytes are rounded, not those of {values.dtype}")
        raw = values.view(f"u{values.dtype.itemsize}").ravel()
        parts: list[bytes] = []
        for begin, end in _cuts(values.dtype.itemsize):
            parts.append(_packed(raw, begin, end))
            if (
                tolerance is not None
                and np.abs(self.decode(parts, values.shape, values.dtype) - values).max() <= tolerance
            ):
                break
        return parts

    def decode(self, parts: Sequence[bytes], shape: tuple[int, ...], dtype: "np.dtype[Any]") -> Array:
        bits = 8 * dtype.itemsize
        raw = np.zeros(int(np.prod(shape)), f"u{dtype.itemsize}")
        for part, (begin, end) in zip(parts, _cuts(dtype.itemsize), strict=False):
            raw |= _unpacked(part, begin, end, raw.dtype) << raw.dtype.type(bits - end)
            last = end
        if last < bits:
            # The middle of all floats that begin with the known bits.
            raw |= raw.dtype.type(1 << (bits - last - 1))
        return raw.view(dtype).reshape(shape)


def _cuts(size: int) -> list[tuple[int, int]]:
    """First bit and end of each part, counted from the sign."""
    begins = [0, *range(1 + _EXPONENT_BITS[size] + _FIRST_BITS, 8 * size, _NEXT_BITS), 8 * size]
    return list(pairwise(begins))


def _packed(raw: Array, begin: int, end: int) -> bytes:
    bits = 8 * raw.dtype.itemsize
    taken = (raw >> raw.dtype.type(bits - end)) & raw.dtype.type((1 << (end - begin)) - 1)
    return zlib.compress(taken.astype(np.uint8 if end - begin <= 8 else np.uint16).tobytes())


def _unpacked(part: bytes, begin: int, end: int, dtype: "np.dtype[Any]") -> Array:
    return np.frombuffer(zlib.decompress(part), np.uint8 if end - begin <= 8 else np.uint16).astype(dtype)
