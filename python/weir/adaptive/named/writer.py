"""The writer of streams of named variables."""

import secrets
import threading
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Any, Self

import numpy

from weir.adaptive.catalogue import place_of
from weir.adaptive.errors import AdaptiveError, AdaptiveWarning, StepError, told
from weir.adaptive.manifest import NAMES, STREAM, ManifestError
from weir.adaptive.named.dataset import Dataset, Variable
from weir.adaptive.named.places import dataset_at, records_at, tiers_below
from weir.adaptive.named.plan import Tolerance, forms_told, schema_of
from weir.adaptive.named.records import packed, unpacked
from weir.adaptive.named.schema import Described, Kind, Schema
from weir.adaptive.tiers import Tier, TierLike, tiers_of
from weir.adaptive.writer import CHUNK_BYTES, Codec, Writer

_MEANING = ("units", "calendar", "scale_factor", "add_offset", "_Unsigned", "_FillValue", "missing_value")
"""Attributes without which values of two files are not alike."""


class DatasetWriter:
    """A stream of named variables that grows by a step at a time. Use it as a context: the end of the block ends it."""

    def __init__(
        self,
        tiers: Sequence[TierLike] | TierLike,
        *,
        along: str | None = None,
        tolerance: Tolerance = None,
        codec: Codec = "planes",
        chunk_bytes: int = CHUNK_BYTES,
        base_bytes: int | None = None,
        threads: int = 1,
        append: bool = False,
        overwrite: bool = False,
    ) -> None:
        """Begin a stream.

        Args:
            tiers: Folders, as URLs of fsspec, the fastest first.
            along: The dimension of the steps; None where a dataset is one step.
            tolerance: Largest error of a whole step, in the variable's units: of each variable by name, or one for all
                data of real and complex numbers. All else is exact.
            codec: `planes`, or the paper's `decimate`.
            chunk_bytes: Bytes of one read of augmentation.
            base_bytes: Approximate bytes of a base; by default the codec's choice.
            threads: Number of threads that refactor.
            append: Whether to continue an existing stream.
            overwrite: Whether to remove an existing stream from the tiers, with all its steps.

        Raises:
            AdaptiveError: A tier cannot be opened, or holds another stream.
        """
        if append and overwrite:
            raise AdaptiveError("a stream is either continued or removed", hint="give append or overwrite")
        self._tiers = tiers_of(tiers)
        self._place = place_of(self._tiers[0])
        self._along, self._tolerance = along, tolerance
        self._options: dict[str, Any] = {
            "codec": codec, "chunk_bytes": chunk_bytes, "base_bytes": base_bytes, "threads": threads
        }  # fmt: skip
        self._overwrite = overwrite
        self._writer = secrets.token_hex(8)
        self._schema: Schema | None = None
        self._streams: dict[str, Writer] = {}
        self._static: dict[str, numpy.ndarray[Any, Any]] = {}
        self._records: list[dict[str, numpy.ndarray[Any, Any]]] = []
        self._ended = False
        self._lock = threading.Lock()
        self._find(append=append)

    @property
    def steps(self) -> int:
        """Number of the next step."""
        return len(self._records)

    @property
    def schema(self) -> Schema | None:
        """The description of the stream; None before the first step is written."""
        return self._schema

    def write(self, dataset: Dataset) -> int:
        """Write the next steps.

        Args:
            dataset: Variables of all steps along the dimension of the steps; those without that dimension are as in the
                steps before.

        Returns:
            Number of the written steps.

        Raises:
            AdaptiveError: The dataset is unlike the steps before.
            StepError: A step cannot be written.
        """
        with self._lock:
            if self._ended:
                raise AdaptiveError("the stream was ended", hint="open a writer that appends, or begin another stream")
            schema = self._begun(dataset)
            count = 1 if schema.along is None else dataset.sizes.get(schema.along, 0)
            if schema.along is None and self._records:
                raise AdaptiveError(
                    "the stream has one step, which has all", hint="name the dimension of the steps when it begins"
                )
            for number in range(count):
                places = {} if schema.along is None else {schema.along: slice(number, number + 1)}
                self._step(schema, dataset.at(places))
            return count

    def end(self) -> None:
        """End the stream: no more steps will come.

        Raises:
            StepError: Another program writes the stream now, or the end cannot be written.
        """
        with self._lock:
            schema = self._schema
            if schema is None or self._ended:
                return
            for each in self._streams.values():
                each.end()
            self._claim(schema)
            arrays = {
                each.name: numpy.stack([record[each.name] for record in self._records], axis=_axis(each, schema))
                for each in schema.variables
                if each.kind is Kind.RECORD and self._records
            }
            self._put(schema.end_name, packed(arrays, steps=self.steps, compress=True))
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
        """Continue the existing stream, or refuse to write over it."""
        try:
            names = self._place.names()
        except Exception as error:
            # Each file system has errors of its own.
            raise AdaptiveError(f"tier {self._place.tier.url} cannot be listed: {told(error)}") from error
        if NAMES in names and append:
            self._continue(dataset_at(self._place))
        elif STREAM in names and append:
            raise AdaptiveError(
                f"the stream on tier {self._place.tier.url} has no names", hint="write arrays to it, as it was begun"
            )
        elif {NAMES, STREAM} & set(names) and not self._overwrite:
            raise AdaptiveError(
                f"tier {self._place.tier.url} holds a stream already",
                hint="choose another folder, append to the stream, or overwrite it, which removes its steps",
            )

    def _continue(self, schema: Schema) -> None:
        """Become the writer of a stream."""
        if self._along not in (None, schema.along):
            raise AdaptiveError(f"the steps of the stream lie along {schema.along}, not {self._along}")
        _check_tolerance(self._tolerance, schema)
        self._records = records_at(self._place, schema)
        self._schema = replace(schema, writer=self._writer)
        if any(each.kind is Kind.STATIC for each in schema.variables):
            self._static = unpacked(self._place.read(schema.static_name))[0]
        for each in schema.streamed:
            self._streams[each.name] = self._stream(each, schema, append=True)
        self._put(NAMES, self._schema.encode())
        try:
            self._place.remove(schema.end_name)
        except OSError as error:
            raise AdaptiveError(f"{self._place.name(schema.end_name)} cannot be removed: {told(error)}") from error

    def _begun(self, dataset: Dataset) -> Schema:
        """The schema, of which the first dataset decides, and which others keep."""
        if self._schema is not None:
            _check(dataset, self._schema, self._static)
            return self._schema
        schema = schema_of(dataset, along=self._along, tolerance=self._tolerance, writer=self._writer)
        if words := forms_told(dataset, schema, self._tolerance):
            warnings.warn(f"{self._place.tier.url}: {words}", AdaptiveWarning, stacklevel=4)
        self._static = {
            each.name: dataset.variables[each.name].loaded() for each in schema.variables if each.kind is Kind.STATIC
        }
        if self._overwrite:
            Writer(self._tiers, overwrite=True)
        else:
            # Another writer may have begun a stream here since this writer was made.
            self._find(append=False)
        self._streams = {each.name: self._stream(each, schema, append=False) for each in schema.streamed}
        if self._static:
            self._put(schema.static_name, packed(self._static, steps=0, compress=True))
        self._put(NAMES, schema.encode())
        self._schema = schema
        return schema

    def _stream(self, variable: Described, schema: Schema, *, append: bool) -> Writer:
        return Writer(
            tiers_below(self._tiers, schema.folder_of(variable)),
            tolerance=variable.tolerance or None,
            exact=not variable.tolerance,
            append=append,
            overwrite=self._overwrite,
            named=True,
            **self._options,
        )

    def _step(self, schema: Schema, dataset: Dataset) -> None:
        """Write one step: its streams, and then its record, which makes it visible."""
        number = self.steps
        record = {}
        for each in schema.variables:
            if each.kind is Kind.STATIC:
                continue
            variable = dataset.variables[each.name]
            values = variable.loaded()
            if schema.along in each.dims:
                values = values.squeeze(axis=each.dims.index(schema.along))
            if each.kind is Kind.RECORD:
                record[each.name] = values
                continue
            stream = self._streams[each.name]
            stream.rewind(number)
            if schema.along in each.dims or not number:
                stream.write(values, attributes=variable.attributes)
        self._claim(schema)
        self._put(schema.record_name(number), packed(record, steps=number + 1))
        self._records.append(record)

    def _claim(self, schema: Schema) -> None:
        """Refuse to continue a stream that another writer writes."""
        try:
            found = Schema.decode(self._place.read(NAMES))
            is_mine = (found.identity, found.writer) == (schema.identity, self._writer)
        except (OSError, ManifestError):
            is_mine = False
        if not is_mine:
            raise StepError(
                self.steps,
                self._place.name(NAMES),
                "another program has begun to write here",
                hint="one program writes a stream: give each a folder of its own",
            )

    def _put(self, name: str, data: bytes) -> None:
        try:
            self._place.write(name, data)
        except Exception as error:
            # Each file system has errors of its own.
            raise StepError(
                self.steps,
                self._place.name(name),
                f"cannot be written: {told(error)}",
                hint="steps before it are whole; is there room, and may you write there?",
            ) from error


def remove_named(tiers: Sequence[Tier]) -> None:
    """Remove a stream with names: its description first, so that no reader finds half a stream.

    Raises:
        AdaptiveError: An object cannot be removed.
    """
    place = place_of(tiers[0])
    schema = dataset_at(place)
    for name in (NAMES, *(name for name in place.names() if f".{schema.identity}." in name)):
        try:
            place.remove(name)
        except OSError as error:
            raise AdaptiveError(f"{place.name(name)} cannot be removed: {told(error)}") from error
    for each in schema.streamed:
        Writer(tiers_below(tiers, schema.folder_of(each)), overwrite=True, named=True)


def _axis(variable: Described, schema: Schema) -> int:
    assert schema.along is not None
    return variable.dims.index(schema.along)


def _check_tolerance(tolerance: Tolerance, schema: Schema) -> None:
    """Refuse another tolerance than the stream was begun with."""
    for each in schema.streamed if tolerance is not None else ():
        asked = tolerance.get(each.name, 0.0) if isinstance(tolerance, Mapping) else tolerance
        if asked != each.tolerance and (isinstance(tolerance, Mapping) or each.tolerance):
            raise AdaptiveError(
                f"{each.name} was begun with a tolerance of {each.tolerance:g}, not {asked:g}",
                hint="all steps of a stream are alike: give the same again, or none",
            )


def _check(dataset: Dataset, schema: Schema, static: dict[str, numpy.ndarray[Any, Any]]) -> None:
    """Refuse a dataset unlike the earlier ones."""
    hint = "all steps of a stream are alike; write others to a stream of their own"
    for each in schema.variables:
        variable = dataset.variables.get(each.name)
        if variable is None:
            raise AdaptiveError(f"there is no variable {each.name}, which the stream has", hint=hint)
        lengths = dict(zip(variable.dims, variable.shape, strict=True))
        if variable.dims != each.dims or any(
            schema.sizes.get(dim, length) != length for dim, length in lengths.items()
        ):
            raise AdaptiveError(f"{each.name} has the dimensions {lengths}, unlike the steps before", hint=hint)
        for name in _MEANING:
            here, there = variable.attributes.get(name), each.attributes.get(name)
            if not _alike(here, there):
                raise AdaptiveError(
                    f"the {name} of {each.name} is {here!r}, and of the steps before {there!r}", hint=hint
                )
        if each.kind is Kind.STATIC and not _alike(variable.loaded(), static[each.name]):
            raise AdaptiveError(
                f"{each.name} has other values than in the steps before, and no dimension of steps", hint=hint
            )


def _alike(one: Any, other: Any) -> bool:
    if one is None or other is None:
        return one is other
    first, second = numpy.asarray(one), numpy.asarray(other)
    is_float = first.dtype.kind in "fc" and second.dtype.kind in "fc"
    return bool(numpy.array_equal(first, second, equal_nan=is_float))


def one_step(dataset: Dataset, step: str) -> Dataset:
    """Give a dataset a first dimension of one step, along which its data go on.

    Args:
        step: Name of the dimension. Variables that describe cells are without it.
    """
    coordinates = dataset.coordinates
    variables = {
        name: each
        if name in coordinates
        else Variable((step, *each.dims), each.loaded()[numpy.newaxis], each.attributes)
        for name, each in dataset.variables.items()
    }
    return Dataset(variables, dataset.attributes, (*dataset.unlimited, step))
