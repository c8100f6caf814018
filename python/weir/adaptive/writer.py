"""The writer of a stream's steps: the base goes onto the first tier, ranges of chunks onto the others."""

import secrets
import threading
from collections.abc import Iterable, Sequence
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy

from weir.adaptive.array import native
from weir.adaptive.catalogue import Catalogue, place_of, stream_at
from weir.adaptive.errors import AdaptiveError, StepError, told
from weir.adaptive.fills import FillLike, fills_of, stated_by
from weir.adaptive.manifest import (
    END,
    STREAM,
    Manifest,
    Part,
    Stream,
    end_object,
    header_checksum,
    manifest_name,
    part_name,
    spelled,
)
from weir.adaptive.mesh import NodeOrder
from weir.adaptive.tiers import Place, TierLike, divide, tiers_of

if TYPE_CHECKING:
    import numpy.typing as npt

CHUNK_BYTES = 1 << 20
"""Bytes of one read of augmentation, unless the writer chooses another number."""
_IDENTITY_BYTES = 8
"""Bytes of a random identity: no two streams, and no two writers, have the same."""
_FOLDER_HINT = "a tier is a folder, and here is a file of that name: name another"
Codec = Literal["planes", "decimate"]


class Writer:
    """A stream that grows by a step at a time. Use it as a context: the end of the block ends the stream.

    Threads may share a writer; steps are numbered in the order in which their writing begins.
    """

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
        mesh: "NodeOrder | npt.ArrayLike | None" = None,
        fill: FillLike | None = None,
    ) -> None:
        """Begin a stream.

        Args:
            tiers: Folders, as URLs of fsspec, the fastest first.
            codec: `planes`, or the paper's `decimate`.
            tolerance: Largest error of any value of a whole step, in units of the data; by default the codec's
                smallest.
            exact: Whether all bytes together restore every bit.
            chunk_bytes: Bytes of one read of augmentation.
            base_bytes: Approximate bytes of the base; by default the codec's choice.
            ratios: Decimation ratio of each level of `decimate`, growing, each a multiple of the one before.
            threads: Number of threads that refactor.
            append: Whether to continue an existing stream.
            mesh: Mesh of the values, where each step is one value for each node of an unstructured mesh: its cells
                (cells x corners, integers), the nodes' coordinates (nodes x axes), or their order. The values are
                stored in that order, and read in the nodes' own order.
            fill: Fill values of the steps, which mark cells as missing: such cells are kept exactly, and are no part of
                any error. By default those that a step's own attributes state (`_FillValue`, `missing_value`); where
                nothing is stated, values far above all others are taken for marks. An empty list: there are none.

        Raises:
            AdaptiveError: An option makes no sense; a tier cannot be opened, or holds another stream.
        """
        self._tiers = tiers_of(tiers)
        self._places = [place_of(tier) for tier in self._tiers]
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
        _try(self._options)
        self._writer = secrets.token_hex(_IDENTITY_BYTES)
        self._mesh = mesh
        self._fill = fill
        self._order: NodeOrder | None = None
        self._stream: Stream | None = None
        self._next = 0
        self._ended = False
        self._lock = threading.Lock()
        self._find(append=append)

    @property
    def steps(self) -> int:
        """Number of the next step."""
        return self._next

    @property
    def nodes(self) -> int | None:
        """Number of the mesh's nodes; None without a mesh, and before the first step is written."""
        return None if self._stream is None else self._stream.nodes

    @property
    def _kept(self) -> tuple[str, float | None, bool]:
        """Codec, tolerance and exactness, which are the same for all steps."""
        return self._options["codec"], self._options["tolerance"], self._options["exact"]

    def write(self, array: "npt.ArrayLike", *, fill: FillLike | None = None) -> Manifest:
        """Write the next step.

        Args:
            array: The step, of at least one axis; of the shape and dtype of the steps before. On a mesh it has shape
                (nodes,). Masked cells become the first fill value; without one, those of floats become NaN.
            fill: Fill values of this step; by default the writer's.

        Raises:
            StepError: The step does not fit the steps before, or cannot be refactored or written.
        """
        with self._lock:
            return self._write(array, self._fill if fill is None else fill)

    def _write(self, array: "npt.ArrayLike", fill: FillLike | None) -> Manifest:
        from weir import _core

        number = self._next
        place = self._places[0].name(manifest_name(number))
        if self._ended:
            raise StepError(
                number, place, "the stream was ended", hint="open a writer that appends, or begin another stream"
            )
        try:
            values, fills = _values(array, fill)
            values = self._arranged(values)
            self._check(values.dtype.name, values.shape, number, place)
            container = _core.refactor(values, fill=fills, **self._options)
        except (ValueError, TypeError) as error:
            raise StepError(number, place, f"the array cannot be refactored: {error}") from error
        self._begin(values.dtype.name, values.shape)
        manifest = self._lay_out(number, container)
        self._store(manifest, memoryview(container))
        self._next = number + 1
        return manifest

    def end(self) -> None:
        """End the stream: no more steps will come.

        Raises:
            StepError: Another program writes the stream now, or the end cannot be written.
        """
        with self._lock:
            if self._stream is not None and not self._ended:
                self._claim()
                self._put(self._places[0], END, end_object(self._next), self._next)
            self._ended = True

    def __enter__(self) -> Self:
        """Write steps in a block."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the stream, unless the writing failed."""
        if kind is None:
            self.end()

    def _find(self, *, append: bool) -> None:
        """Continue the existing stream, or refuse to overwrite a stream with steps."""
        first = self._places[0]
        try:
            names = first.names()
        except Exception as error:
            # Each file system has errors of its own.
            raise AdaptiveError(f"tier {first.tier.url} cannot be listed: {told(error)}") from error
        if STREAM not in names:
            return
        catalogue = Catalogue(first)
        numbers, _ = catalogue.look()
        if append:
            self._continue(catalogue, numbers[-1] + 1 if numbers else 0)
        elif numbers:
            raise AdaptiveError(
                f"tier {first.tier.url} holds a stream already",
                hint="choose another folder, or append to the stream",
            )

    def _continue(self, catalogue: Catalogue, steps: int) -> None:
        """Become the writer of a stream with so many steps."""
        first, stream = self._places[0], catalogue.stream
        recorded, named = [url for url, _ in stream.tiers], [place.url for place in self._places]
        if recorded != named:
            raise AdaptiveError(
                f"the stream on tier {first.tier.url} lies on {', '.join(recorded)}, not on {', '.join(named)}",
                hint="a stream goes on where it was begun: name the same tiers, in the same order",
            )
        begun, asked = (stream.codec, stream.tolerance, stream.exact), self._kept
        if begun != asked:
            words = [
                f"codec={codec}, tolerance={tolerance}, exact={exact}" for codec, tolerance, exact in (begun, asked)
            ]
            raise AdaptiveError(
                f"the stream on tier {first.tier.url} was begun with {words[0]}, not {words[1]}",
                hint="all steps of a stream are alike: give the same again",
            )
        self._order = self._order_there(catalogue)
        self._stream = replace(stream, writer=self._writer)
        self._next = steps
        self._put(first, STREAM, self._stream.encode(), steps)
        try:
            first.remove(END)
        except OSError as error:
            raise StepError(steps, first.name(END), f"cannot be removed: {error!r}") from error

    def _order_there(self, catalogue: Catalogue) -> NodeOrder | None:
        """The order of nodes of the earlier steps."""
        order = catalogue.order()
        if self._mesh is None:
            return order
        try:
            fits = order is not None and (NodeOrder.of(self._mesh, nodes=order.nodes).places == order.places).all()
        except ValueError:
            fits = False
        if not fits:
            begun = "without a mesh" if order is None else f"on another mesh, of {order.nodes} nodes"
            raise AdaptiveError(
                f"the stream on tier {catalogue.place.tier.url} was begun {begun}",
                hint="give the same mesh again, or none: the stream knows its own",
            )
        return order

    def _check(self, dtype: str, shape: tuple[int, ...], number: int, place: str) -> None:
        """Refuse an array unlike the earlier ones."""
        if self._stream is not None and (dtype, shape) != (self._stream.dtype, self._stream.shape):
            raise StepError(
                number,
                place,
                f"the array is {spelled(dtype, shape)}, and the stream holds "
                f"{spelled(self._stream.dtype, self._stream.shape)}",
                hint="all steps of a stream are alike; write others to a stream of their own",
            )

    def _begin(self, dtype: str, shape: tuple[int, ...]) -> None:
        """Describe the stream by its first array."""
        if self._stream is None:
            # Another writer may have begun a stream here since this writer was made.
            self._find(append=False)
            urls = tuple((each.url, str(each.tier.zone)) for each in self._places)
            nodes = None if self._order is None else self._order.nodes
            stream = Stream(secrets.token_hex(_IDENTITY_BYTES), self._writer, dtype, shape, urls, *self._kept, nodes)
            if self._order is not None:
                self._put(self._places[0], stream.mesh, self._order.to_bytes(), self._next)
            self._put(self._places[0], STREAM, stream.encode(), self._next)
            self._stream = stream

    def _arranged(self, values: numpy.ndarray[Any, Any]) -> numpy.ndarray[Any, Any]:
        """Values on a mesh in the stored order of its nodes; other values unchanged."""
        if self._order is None and self._mesh is not None:
            self._order = NodeOrder.of(self._mesh, nodes=len(values))
        return values if self._order is None else self._order.arrange(values)

    def _lay_out(self, number: int, container: bytes) -> Manifest:
        from weir import _core

        assert self._stream is not None
        refactored = _core.Refactored(container)
        offset, length, *_ = refactored.chunks[0]
        base_end = offset + length
        ranges = divide(self._tiers, base_end=base_end, total=refactored.total_bytes)
        stream = self._stream
        parts = tuple(
            Part(part_name(stream.identity, number, tier), offset, length)
            for tier, (offset, length) in enumerate(ranges)
        )
        checksum = header_checksum(container, refactored.header_bytes)
        return Manifest(
            number, stream.identity, stream.dtype, stream.shape, refactored.codec, checksum, base_end, parts
        )

    def _store(self, manifest: Manifest, container: memoryview) -> None:
        for place, part in zip(self._places, manifest.parts, strict=True):
            if part.length:
                self._put(place, part.name, container[part.offset : part.end], manifest.number)
        self._claim()
        self._put(self._places[0], manifest_name(manifest.number), manifest.encode(), manifest.number)

    def _claim(self) -> None:
        """Refuse to continue a stream that another writer writes."""
        place = self._places[0]
        found = stream_at(place)
        if self._stream is None or (found.identity, found.writer) != (self._stream.identity, self._stream.writer):
            raise StepError(
                self._next,
                place.name(STREAM),
                "another program has begun to write here",
                hint="one program writes a stream: give each a folder of its own",
            )

    def _put(self, place: Place, name: str, data: bytes | memoryview, number: int) -> None:
        try:
            place.write(name, data)
        except Exception as error:
            raise StepError(
                number,
                place.name(name),
                f"cannot be written: {told(error)}",
                hint=_FOLDER_HINT
                if isinstance(error, FileExistsError | NotADirectoryError)
                else "steps before it are whole; is there room, and may you write there?",
            ) from error


def write(
    tiers: Sequence[TierLike] | TierLike,
    steps: "Iterable[npt.ArrayLike]",
    *,
    codec: Codec = "planes",
    tolerance: float | None = None,
    exact: bool = False,
    chunk_bytes: int = CHUNK_BYTES,
    base_bytes: int | None = None,
    ratios: Sequence[int] | None = None,
    threads: int = 1,
    append: bool = False,
    mesh: "NodeOrder | npt.ArrayLike | None" = None,
    fill: FillLike | None = None,
) -> int:
    """Write arrays as the steps of a stream, as they come, and end the stream. Further arguments are those of `Writer`.

    Args:
        tiers: Folders, as URLs of fsspec, the fastest first.
        steps: The arrays; a stacked array is a stream of its first axis.
        fill: As for `Writer`; by default also those that the attributes of `steps` itself state.

    Returns:
        Number of the written steps.

    Raises:
        AdaptiveError: A tier or a step cannot be written. Steps before it can be read.
    """
    with Writer(
        tiers,
        codec=codec,
        tolerance=tolerance,
        exact=exact,
        chunk_bytes=chunk_bytes,
        base_bytes=base_bytes,
        ratios=ratios,
        threads=threads,
        append=append,
        mesh=mesh,
        fill=(stated_by(steps) or None) if fill is None else fill,
    ) as writer:
        before = writer.steps
        for array in steps:
            writer.write(array)
        return writer.steps - before


def _try(options: dict[str, Any]) -> None:
    """Refuse options with which no array can be refactored.

    Raises:
        AdaptiveError: The options make no sense.
    """
    from weir import _core

    for name in ("chunk_bytes", "base_bytes", "threads"):
        if options[name] is not None and options[name] < 1:
            raise AdaptiveError(f"{name} = {options[name]} is too few", hint="it is 1 or more")
    if "ratios" in options and options["codec"] != "decimate":
        raise AdaptiveError(f"the codec `{options['codec']}` has no ratios", hint="they are those of `decimate`")
    try:
        _core.refactor(numpy.zeros(1), **options)
    except (ValueError, TypeError) as error:
        raise AdaptiveError(f"no array can be refactored so: {error}") from error


def _values(
    array: "npt.ArrayLike", fill: FillLike | None
) -> tuple[numpy.ndarray[Any, Any], numpy.ndarray[Any, Any] | None]:
    """Bring an array into C order and this machine's byte order, with its fill values in the same type.

    Raises:
        ValueError: The value is no array, has no axis, or has masked cells for which there is no value.
    """
    values = array.data if isinstance(array, numpy.ma.MaskedArray) else numpy.asarray(array)
    if values.ndim == 0:
        raise ValueError("it is one value, and has no axis")
    dtype = values.dtype.newbyteorder("=")
    fills = fills_of(stated_by(array) if fill is None else fill, dtype, lenient=fill is None)
    if isinstance(array, numpy.ma.MaskedArray) and numpy.ma.is_masked(array):
        if dtype.kind != "f" and not fills.size:
            raise ValueError(f"it has masked cells of {dtype}, which has no NaN; state the fill value of such cells")
        values = numpy.where(numpy.ma.getmaskarray(array), fills[0] if fills.size else numpy.nan, values)
    # An empty list says that there are none, but attributes that state none say nothing.
    return native(values), fills if fills.size or fill is not None else None
