"""The writer of a stream's steps: the base goes onto the first tier, ranges of chunks onto the others."""

import secrets
import threading
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from types import SimpleNamespace, TracebackType
from typing import TYPE_CHECKING, Any, Self

import numpy

from weir.adaptive.array import native
from weir.adaptive.catalogue import Catalogue, place_of, stream_at
from weir.adaptive.containers import CODECS, check, opened, refactor
from weir.adaptive.encoding import Encoding, encoding_of
from weir.adaptive.errors import AdaptiveError, AdaptiveWarning, StepError, told
from weir.adaptive.fills import FillLike
from weir.adaptive.forms import Form
from weir.adaptive.manifest import (
    END,
    NAMES,
    STREAM,
    Manifest,
    Part,
    Stream,
    end_object,
    header_checksum,
    manifest_name,
    number_of,
    part_name,
    spelled,
)
from weir.adaptive.meaning import Coded, Meaning
from weir.adaptive.mesh import NodeOrder
from weir.adaptive.tiers import Place, TierLike, divide, tiers_of

if TYPE_CHECKING:
    import numpy.typing as npt

CHUNK_BYTES = 1 << 20
"""Bytes of one read of augmentation, unless the writer chooses another number."""
_IDENTITY_BYTES = 8
"""Bytes of a random identity: no two streams, and no two writers, have the same."""
_FOLDER_HINT = "a tier is a folder, and here is a file of that name: name another"
Codec = str
"""One of `containers.CODECS`, or the name of a plug-in that a package declares."""


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
        overwrite: bool = False,
        mesh: "NodeOrder | npt.ArrayLike | None" = None,
        fill: FillLike | None = None,
        named: bool = False,
    ) -> None:
        """Begin a stream.

        Args:
            tiers: Folders, as URLs of fsspec, the fastest first.
            codec: `planes`, the paper's `decimate`, or the name of a plug-in, which has `tolerance` and `exact` alone.
            tolerance: Largest error of any value of a whole step, in the data's units; by default the codec's smallest.
            exact: Whether all bytes together restore every bit.
            chunk_bytes: Bytes of one read of augmentation.
            base_bytes: Approximate bytes of the base; by default the codec's choice.
            ratios: Decimation ratio of each level of `decimate`, growing, each a multiple of the one before.
            threads: Number of threads that refactor.
            append: Whether to continue an existing stream.
            overwrite: Whether to remove an existing stream from the tiers, with all its steps.
            mesh: Mesh of the values, where each step is one value for each node of an unstructured mesh: its cells
                (cells x corners, integers), the nodes' coordinates (nodes x axes), or their order. The values are
                stored in that order, and read in the nodes' own order.
            fill: Fill values of the steps, which mark cells as missing: such cells are kept exactly, and are no part of
                any error. By default those that a step's own attributes state (`_FillValue`, `missing_value`); where
                nothing is stated, values far above all others are taken for marks. An empty list: there are none.
                Attributes `scale_factor`, `add_offset`, `valid_range` and `_Unsigned` of the first step count, too:
                tolerances and errors are in units, and readers hand out values in units.
            named: Whether this is the stream of one variable of a stream with names, whose writer tells its user what
                this one would: a warning says, once, if values are stored in another form than their own.

        Raises:
            AdaptiveError: An option makes no sense; a tier cannot be opened, or holds another stream.
            PluginError: There is no such codec, or its package cannot be loaded.
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
        if append and overwrite:
            raise AdaptiveError("a stream is either continued or removed", hint="give append or overwrite")
        self._writer = secrets.token_hex(_IDENTITY_BYTES)
        self._mesh, self._named, self._tell = mesh, named, not named
        self._meaning: Meaning | None = None
        self._fill = fill
        self._order: NodeOrder | None = None
        self._stream: Stream | None = None
        self._next = 0
        self._ended = False
        self._lock = threading.Lock()
        self._find(append=append, overwrite=overwrite)

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

    def write(
        self,
        array: "npt.ArrayLike",
        *,
        fill: FillLike | None = None,
        attributes: Mapping[str, Any] | None = None,
    ) -> Manifest:
        """Write the next step.

        Args:
            array: The step, of at least one axis; of the shape and dtype of the steps before. On a mesh it has shape
                (nodes,). Masked cells become the first fill value; without one, those of floats become NaN.
            fill: Fill values of this step; by default the writer's.
            attributes: Attributes that state the meaning of the values; by default those of the array itself.

        Raises:
            StepError: The step does not fit the steps before, or cannot be refactored or written.
            PluginError: The codec is a plug-in, and fails.
        """
        with self._lock:
            return self._write(array, self._fill if fill is None else fill, attributes)

    def _write(self, array: "npt.ArrayLike", fill: FillLike | None, attributes: Mapping[str, Any] | None) -> Manifest:
        number = self._next
        place = self._places[0].name(manifest_name(number))
        if self._ended:
            raise StepError(
                number, place, "the stream was ended", hint="open a writer that appends, or begin another stream"
            )
        try:
            values, encoding = _values(array, fill, attributes)
            meaning = Meaning(Form.of(encoding.counted_dtype, values.shape), encoding)
            coded = self._coded(values, meaning)
            self._check(meaning, number, place)
            container = refactor(coded.values, **{**self._options, **coded.options})
        except (ValueError, TypeError) as error:
            raise StepError(number, place, f"the array cannot be refactored: {error}") from error
        self._begin(coded, meaning)
        manifest = self._lay_out(number, container, meaning, whole=coded.whole)
        self._store(manifest, memoryview(container))
        self._next = number + 1
        return manifest

    def rewind(self, steps: int) -> None:
        """Go back to a step, which is written again: the step of another variable that belongs to it has failed.

        Args:
            steps: Number of the step that is written next.
        """
        with self._lock:
            self._next = min(self._next, steps)

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

    def _find(self, *, append: bool = False, overwrite: bool = False) -> None:
        """Continue the existing stream, remove it, or refuse to write over it."""
        first = self._places[0]
        try:
            names = first.names()
        except Exception as error:
            # Each file system has errors of its own.
            raise AdaptiveError(f"tier {first.tier.url} cannot be listed: {told(error)}") from error
        if overwrite:
            self._remove(names)
        has_names = NAMES in names and not self._named
        if overwrite or not (STREAM in names or has_names):
            return
        if append:
            catalogue = Catalogue(first)
            numbers, _ = catalogue.look()
            self._continue(catalogue, numbers[-1] + 1 if numbers else 0)
        else:
            raise AdaptiveError(
                f"tier {first.tier.url} holds a stream already",
                hint="choose another folder, append to the stream, or overwrite it, which removes its steps",
            )

    def _remove(self, names: Sequence[str]) -> None:
        """Remove the stream of the first tier: its description first, so that no reader finds half a stream."""
        first = self._places[0]
        if NAMES in names and not self._named:
            from weir.adaptive.named.writer import remove_named

            remove_named(self._tiers)
        if STREAM not in names:
            return
        stream = stream_at(first)
        steps = [name for name in names if number_of(name) is not None]
        for name in (STREAM, END, stream.mesh, *steps):
            _remove(first, name)
        for place in self._places:
            for name in place.names():
                if name.endswith(f".{stream.identity}.weir"):
                    _remove(place, name)

    def _continue(self, catalogue: Catalogue, steps: int) -> None:
        """Become the writer of a stream with this number of steps."""
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
        self._stream, self._meaning = replace(stream, writer=self._writer), catalogue.meaning
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

    def _check(self, meaning: Meaning, number: int, place: str) -> None:
        """Refuse an array unlike the earlier ones."""
        begun = self._meaning
        if begun is None:
            return
        found, held = ((each.encoding.dtype.name, each.form.shape) for each in (meaning, begun))
        if found != held:
            words = f"the array is {spelled(*found)}, and the stream holds {spelled(*held)}"
        elif not meaning.encoding.packs_as(begun.encoding):
            stated = meaning.encoding.attributes, begun.encoding.attributes
            words = f"the array's attributes are {stated[0]}, and the stream's {stated[1]}"
        else:
            return
        raise StepError(
            number, place, words, hint="all steps of a stream are alike; write others to a stream of their own"
        )

    def _coded(self, values: numpy.ndarray[Any, Any], meaning: Meaning) -> Coded:
        """A step as the codec takes it, on a mesh in the stored order of its nodes."""
        _, tolerance, exact = self._kept
        if self._tell and (words := meaning.form.words):
            self._tell = False
            warnings.warn(f"{self._places[0].tier.url}: {words}", AdaptiveWarning, stacklevel=5)
        coded = meaning.coded(values, tolerance=tolerance, exact=exact)
        if self._order is None and self._mesh is None:
            return coded
        if coded.values.shape != values.shape:
            raise ValueError(f"values of {values.dtype} on a mesh are more than one number each")
        return replace(coded, values=native(self._arranged(coded.values)))

    def _begin(self, coded: Coded, meaning: Meaning) -> None:
        """Describe the stream by its first array."""
        if self._stream is None:
            # Another writer may have begun a stream here since this writer was made.
            self._find()
            stream = Stream(
                secrets.token_hex(_IDENTITY_BYTES),
                self._writer,
                coded.values.dtype.name,
                coded.values.shape,
                tuple((each.url, str(each.tier.zone)) for each in self._places),
                *self._kept,
                None if self._order is None else self._order.nodes,
                None if meaning.is_plain else meaning.to_document(),
            )
            if self._order is not None:
                self._put(self._places[0], stream.mesh, self._order.to_bytes(), self._next)
            self._put(self._places[0], STREAM, stream.encode(), self._next)
            self._stream, self._meaning = stream, meaning

    def _arranged(self, values: numpy.ndarray[Any, Any]) -> numpy.ndarray[Any, Any]:
        """Values on a mesh in the stored order of its nodes; other values unchanged."""
        if self._order is None and self._mesh is not None:
            self._order = NodeOrder.of(self._mesh, nodes=len(values))
        return values if self._order is None else self._order.arrange(values)

    def _lay_out(self, number: int, container: bytes, meaning: Meaning, *, whole: bool) -> Manifest:
        assert self._stream is not None
        refactored = opened(container)
        offset, length, *_ = refactored.chunks[0]
        base_end = refactored.total_bytes if whole else offset + length
        ranges = divide(self._tiers, base_end=base_end, total=refactored.total_bytes)
        stream = self._stream
        parts = tuple(
            Part(part_name(stream.identity, number, tier), offset, length)
            for tier, (offset, length) in enumerate(ranges)
        )
        checksum = header_checksum(container, refactored.header_bytes)
        lines = refactored.table[-1 if whole else 0], refactored.table[-1]
        of_base, of_all = (meaning.errors(rmse, max_error, refactored) for _, rmse, max_error, _ in lines)
        return Manifest(
            number,
            stream.identity,
            stream.dtype,
            stream.shape,
            refactored.codec,
            checksum,
            base_end,
            parts,
            of_base,
            of_all,
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
    overwrite: bool = False,
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
        overwrite=overwrite,
        mesh=mesh,
        fill=fill,
    ) as writer:
        before = writer.steps
        stated = getattr(steps, "attrs", None)
        for array in steps:
            writer.write(array, attributes=stated if isinstance(stated, Mapping) else None)
        return writer.steps - before


def _try(options: dict[str, Any]) -> None:
    """Refuse options with which no array can be refactored.

    Raises:
        AdaptiveError: The options make no sense.
    """
    for name in ("chunk_bytes", "base_bytes", "threads"):
        if options[name] is not None and options[name] < 1:
            raise AdaptiveError(f"{name} = {options[name]} is too few", hint="it is 1 or more")
    if "ratios" in options and options["codec"] != "decimate":
        raise AdaptiveError(f"the codec `{options['codec']}` has no ratios", hint="they are those of `decimate`")
    if options["codec"] not in CODECS and options["base_bytes"] is not None:
        raise AdaptiveError(f"the codec `{options['codec']}` chooses its base itself", hint="leave base_bytes out")
    try:
        check(options["codec"], is_kept=True)
        if options["codec"] in CODECS:
            refactor(numpy.zeros(1), **options)
    except (ValueError, TypeError) as error:
        raise AdaptiveError(f"no array can be refactored so: {error}") from error


def _values(
    array: "npt.ArrayLike", fill: FillLike | None, attributes: Mapping[str, Any] | None
) -> tuple[numpy.ndarray[Any, Any], Encoding]:
    """Find the values of an array, with the first fill value in masked cells, and their meaning.

    Raises:
        ValueError: The value is no array, has no axis, or has masked cells for which there is no value.
    """
    values = array.data if isinstance(array, numpy.ma.MaskedArray) else numpy.asarray(array)
    if values.ndim == 0:
        raise ValueError("it is one value, and has no axis")
    stating = array if attributes is None else SimpleNamespace(attrs=attributes)
    encoding = encoding_of(stating, values.dtype, given=fill)
    if isinstance(array, numpy.ma.MaskedArray) and numpy.ma.is_masked(array):
        if values.dtype.kind not in "fc" and not encoding.fills.size:
            raise ValueError(
                f"it has masked cells of {values.dtype}, which has no NaN; state the fill value of such cells"
            )
        mark = encoding.stored(encoding.fills)[0] if encoding.fills.size else numpy.nan
        values = numpy.where(numpy.ma.getmaskarray(array), mark, values)
    return values, encoding


def _remove(place: Place, name: str) -> None:
    try:
        place.remove(name)
    except OSError as error:
        raise AdaptiveError(
            f"{place.name(name)} cannot be removed: {told(error)}", hint="may you write there?"
        ) from error
