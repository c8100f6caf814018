"""Codecs: arrays as parts, each of which makes the array more accurate."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

from weir.plugins.errors import PluginError, wrong_answer
from weir.plugins.plugin import Plugin

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray

    Array = NDArray[Any]

PARTS_MAX = 4096
"""Most parts of an array: each has a line in the header, which every reader reads."""


class Codec(Protocol):
    """Refactors arrays. One object serves all arrays of a writer or a reader, whose threads may share it."""

    def encode(self, values: "Array", tolerance: float | None) -> Sequence[bytes]:
        """Refactor an array.

        Args:
            values: Finite values, in C order. Missing cells have the mean of the others; Weir keeps these exactly.
            tolerance: Largest error of a value that all parts together may leave; None is the codec's choice.

        Returns:
            The parts, the most important one first. The first is the base, which every reader reads.
        """

    def decode(self, parts: Sequence[bytes], shape: tuple[int, ...], dtype: "numpy.dtype[Any]") -> "Array":
        """Restore an array.

        Args:
            parts: The first parts of `encode`, one at least. Later ones were not read, or are damaged.

        Returns:
            The array, of this shape and dtype. The same parts always give the same array: its errors were measured
            when it was written.
        """


class CheckedCodec:
    """A codec whose faults name it, and whose arrays have the right shape. See `Codec`."""

    def __init__(self, plugin: Plugin) -> None:
        """Make the codec.

        Raises:
            PluginError: The plug-in cannot be loaded or made.
        """
        self.plugin = plugin
        self._made = plugin.make()

    def encode(self, values: "Array", tolerance: float | None) -> list[bytes]:
        """See `Codec`.

        Raises:
            PluginError: The plug-in fails, or answers something else than parts.
        """
        # A codec may work in place, and the errors are measured against the values that it was given.
        found = self.plugin.call("encode", self._made.encode, values.copy(), tolerance)
        try:
            parts = [bytes(memoryview(part)) for part in found]
        except TypeError:
            raise wrong_answer(self.plugin, "encode", "it is no list of bytes") from None
        if not 1 <= len(parts) <= PARTS_MAX:
            raise wrong_answer(self.plugin, "encode", f"{len(parts)} parts are not 1 to {PARTS_MAX}")
        return parts

    def decode(self, parts: Sequence[bytes], shape: tuple[int, ...], dtype: "numpy.dtype[Any]") -> "Array":
        """See `Codec`.

        Raises:
            PluginError: The plug-in fails, or answers another array.
        """
        import numpy

        found = self.plugin.call("decode", self._made.decode, list(parts), shape, dtype)
        if not isinstance(found, numpy.ndarray) or found.dtype != dtype or found.shape != shape:
            told = f"{found.dtype} {found.shape}" if isinstance(found, numpy.ndarray) else type(found).__name__
            raise wrong_answer(self.plugin, "decode", f"{told} is no array of {dtype} {shape}")
        if dtype.kind == "f" and not numpy.isfinite(found).all():
            raise wrong_answer(self.plugin, "decode", "it has values that are not finite")
        return numpy.array(found, order="C", copy=True)

    def kept_too_little(self, tolerance: float, error: float) -> PluginError:
        """Describe an array that came back less accurate than was asked for.

        Args:
            error: The largest error of a value, with all parts.
        """
        return wrong_answer(
            self.plugin, "encode", f"all parts leave an error of {error:g}, and {tolerance:g} was asked"
        )
