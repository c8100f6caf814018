"""Writes the steps of a stream onto tiers: the base onto the first, ranges of chunks onto the others."""

from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self

from weir.adaptive.catalogue import Catalogue
from weir.adaptive.errors import AdaptiveError, StepError
from weir.adaptive.manifest import END, STREAM, Manifest, Part, Stream, manifest_name, part_name
from weir.adaptive.tiers import Place, TierLike, divide, tiers_of

if TYPE_CHECKING:
    import numpy.typing as npt

CHUNK_BYTES = 1 << 20
Codec = Literal["planes", "decimate"]


class Writer:
    """A stream that grows by a step at a time. Use it as a context: its end says that no more steps will come."""

    def __init__(
        self,
        tiers: Sequence[TierLike] | TierLike,
        *,
        codec: Codec = "planes",
        tolerance: float | None = None,
        exact: bool = False,
        chunk_bytes: int = CHUNK_BYTES,
        base_bytes: int | None = None,
        ratios: Sequence[int] | None = None,
        threads: int = 1,
        append: bool = False,
    ) -> None:
        """Begin a stream on `tiers`, the fastest first.

        Args:
            tiers: Folders, as URLs of fsspec.
            codec: `planes`, or the paper's `decimate`.
            tolerance: Largest error of any value when all is read, in units of the data; by default as small as the
                codec can.
            exact: Whether all together restores every bit.
            chunk_bytes: Of one read of augmentation.
            base_bytes: About so many for the base; by default what the codec finds fit.
            ratios: Of `decimate`: by how much each level is decimated, growing, each a multiple of the one before.
            threads: That refactor.
            append: Whether to go on with a stream that is there.

        Raises:
            AdaptiveError: A tier cannot be opened, or holds another stream.
        """
        self._tiers = tiers_of(tiers)
        self._places = [Place(tier) for tier in self._tiers]
        self._options: dict[str, Any] = {
            "codec": codec,
            "tolerance": tolerance,
            "exact": exact,
            "chunk_bytes": chunk_bytes,
            "base_bytes": base_bytes,
            "threads": threads,
        }
        if ratios is not None:
            self._options["ratios"] = list(ratios)
        self._stream: Stream | None = None
        self._next = 0
        self._find(append)

    @property
    def steps(self) -> int:
        """Number of the next step."""
        return self._next

    def write(self, array: "npt.ArrayLike") -> Manifest:
        """Write the next step.

        Raises:
            StepError: It does not fit the steps before, or cannot be refactored or written.
        """
        import numpy

        from weir import _core

        values = numpy.ascontiguousarray(array)
        number = self._next
        place = self._places[0].name(manifest_name(number))
        self._check(values.dtype.name, values.shape, number, place)
        try:
            container = _core.refactor(values, **self._options)
        except (ValueError, TypeError) as error:
            raise StepError(number, place, f"the array cannot be refactored: {error}") from error
        manifest = self._lay_out(number, _core.Refactored(container))
        self._store(manifest, memoryview(container))
        self._next = number + 1
        return manifest

    def end(self) -> None:
        """Say that no more steps will come."""
        self._put(self._places[0], END, b"{}", self._next)

    def __enter__(self) -> Self:
        """Write steps."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the stream, unless the writing failed."""
        if kind is None:
            self.end()

    def _find(self, append: bool) -> None:
        first = self._places[0]
        try:
            names = first.names()
        except OSError as error:
            raise AdaptiveError(f"tier {first.tier.url} cannot be listed: {error}") from error
        if STREAM not in names:
            return
        if not append:
            raise AdaptiveError(
                f"tier {first.tier.url} holds a stream already",
                hint="choose another folder, or append to it",
            )
        catalogue = Catalogue(first)
        if len(catalogue.stream.tiers) != len(self._tiers):
            raise AdaptiveError(
                f"the stream on tier {first.tier.url} has {len(catalogue.stream.tiers)} tiers, not {len(self._tiers)}"
            )
        self._stream = catalogue.stream
        self._next = max(catalogue.numbers(), default=-1) + 1

    def _check(self, dtype: str, shape: tuple[int, ...], number: int, place: str) -> None:
        """Refuse an array unlike those before; the first one says what a stream holds."""
        if self._stream is None:
            urls = tuple((each.url, str(each.tier.zone)) for each in self._places)
            self._stream = Stream(dtype, shape, urls)
            self._put(self._places[0], STREAM, self._stream.encode(), number)
        if (dtype, shape) != (self._stream.dtype, self._stream.shape):
            raise StepError(
                number,
                place,
                f"the array is {spelled(dtype, shape)}, and the stream holds "
                f"{spelled(self._stream.dtype, self._stream.shape)}",
                hint="all steps of a stream are alike; write others to a stream of their own",
            )

    def _lay_out(self, number: int, refactored: Any) -> Manifest:
        assert self._stream is not None
        ends = [int(chunk[0] + chunk[1]) for chunk in refactored.chunks]
        ranges = divide(self._tiers, base_end=ends[0], chunk_ends=ends[1:])
        parts = tuple(Part(part_name(number, tier), offset, length) for tier, (offset, length) in enumerate(ranges))
        return Manifest(number, self._stream.dtype, self._stream.shape, str(refactored.codec), ends[0], parts)

    def _store(self, manifest: Manifest, container: memoryview) -> None:
        for place, part in zip(self._places, manifest.parts, strict=True):
            if part.length:
                self._put(place, part.name, container[part.offset : part.end], manifest.number)
        self._put(self._places[0], manifest_name(manifest.number), manifest.encode(), manifest.number)

    def _put(self, place: Place, name: str, data: bytes | memoryview, number: int) -> None:
        try:
            place.write(name, data)
        except Exception as error:
            raise StepError(
                number,
                place.name(name),
                f"cannot be written: {error or type(error).__name__}",
                hint="steps before it are whole; is there room, and may you write there?",
            ) from error


def write(tiers: Sequence[TierLike] | TierLike, steps: "Iterable[npt.ArrayLike]", **options: Any) -> int:
    """Write each array of `steps`, as they come, onto `tiers`, and end the stream; the number of steps written.

    `options` are those of `Writer`. A stacked array is a stream of its first axis.

    Raises:
        AdaptiveError: A tier or a step cannot be written. Steps before it can be read.
    """
    with Writer(tiers, **options) as writer:
        before = writer.steps
        for array in steps:
            writer.write(array)
        return writer.steps - before


def spelled(dtype: str, shape: Sequence[int]) -> str:
    """An array's type and shape, as in `float32 of 64 x 32`."""
    return f"{dtype} of {' x '.join(map(str, shape)) or 'one value'}"
