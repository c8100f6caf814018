"""Streams of named variables for xarray: the engine `weir`, and the accessor `Dataset.weir`.

`xarray.open_dataset(folder, engine="weir")` finds the engine by its entry point. Importing this module registers the
accessor.
"""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar, Self

import numpy

from weir.distribution import install_command

try:
    import xarray
except ImportError as error:
    raise ImportError(f"xarray is not installed: {install_command('xarray')}") from error

from xarray.backends import AbstractDataStore, BackendArray, BackendEntrypoint, StoreBackendEntrypoint
from xarray.core import indexing

from weir.adaptive.encoding import Encoding
from weir.adaptive.manifest import NAMES, STREAM
from weir.adaptive.named.dataset import Dataset, Variable
from weir.adaptive.named.plan import Tolerance, schema_of, usual_dimension
from weir.adaptive.named.reader import ERROR, RMSE, DatasetReader, PerVariable, Reading
from weir.adaptive.named.schema import Kind, Schema
from weir.adaptive.named.writer import DatasetWriter
from weir.adaptive.tiers import TierLike

_ENCODED = ("units", "calendar", "scale_factor", "add_offset", "_FillValue", "missing_value", "_Unsigned")
"""Attributes that xarray takes for the encoding of a variable."""
_KEPT = (*_ENCODED, "dtype")
"""Parts of an encoding that say how values, and not how bytes, are stored."""
Tiers = Sequence[TierLike] | TierLike


class WeirBackend(BackendEntrypoint):
    """The engine `weir` of xarray: streams of steps, with and without names."""

    description = "Streams of steps that Weir refactored onto storage tiers"
    url = "https://github.com/weir-hpc/weir"
    open_dataset_parameters: ClassVar[tuple[str, ...]] = (
        "filename_or_obj", "mask_and_scale", "decode_times", "concat_characters", "decode_coords", "drop_variables",
        "use_cftime", "decode_timedelta", "tolerance", "budget_seconds", "deadline_seconds", "base_only", "tolerant",
        "threads",
    )  # fmt: skip

    def guess_can_open(self, filename_or_obj: Any) -> bool:
        """Whether a local folder holds a stream."""
        if not isinstance(filename_or_obj, str | os.PathLike):
            return False
        folder = Path(filename_or_obj)
        return any((folder / name).is_file() for name in (NAMES, STREAM))

    def open_dataset(
        self,
        filename_or_obj: Any,
        *,
        mask_and_scale: bool = True,
        decode_times: Any = True,
        concat_characters: bool = True,
        decode_coords: Any = True,
        drop_variables: str | Iterable[str] | None = None,
        use_cftime: bool | None = None,
        decode_timedelta: Any = None,
        tolerance: PerVariable = None,
        budget_seconds: PerVariable = None,
        deadline_seconds: PerVariable = None,
        base_only: bool = False,
        tolerant: bool = False,
        threads: int = 1,
    ) -> xarray.Dataset:
        """Open the whole steps of a stream; nothing but coordinates is read until it is used.

        Args:
            filename_or_obj: The first tier, or all tiers in the order of the writer.
            mask_and_scale: As for `xarray.open_dataset`, and so are the next ones.
            tolerance: Sufficient largest error, in the variables' units: one number, or one for each variable by name.
            budget_seconds: Time to read the augmentation of a step, likewise.
            deadline_seconds: Longest time of a step, with the bytes that arrived, likewise.
            base_only: Whether shared tiers are left alone.
            tolerant: Whether missing and damaged parts are tolerated, with a warning.
            threads: Number of threads that restore arrays.

        Returns:
            The dataset. Streamed variables have a bound of their largest error as the attribute `weir_max_error`.

        Raises:
            AdaptiveError: There is no stream, or a tier cannot be used.
        """
        reading = Reading(tolerance, budget_seconds, deadline_seconds, base_only, tolerant, threads)
        store = _Store(_Source(filename_or_obj, reading))
        return StoreBackendEntrypoint().open_dataset(
            store,
            mask_and_scale=mask_and_scale,
            decode_times=decode_times,
            concat_characters=concat_characters,
            decode_coords=decode_coords,
            drop_variables=drop_variables,
            use_cftime=use_cftime,
            decode_timedelta=decode_timedelta,
        )


class _Source:
    """A stream that is opened again in another process, with the same steps."""

    def __init__(self, tiers: Tiers, reading: Reading, steps: int | None = None) -> None:
        self._tiers, self._reading = tiers, reading
        self._reader: DatasetReader | None = None
        self.steps = self.reader.steps if steps is None else steps

    @property
    def reader(self) -> DatasetReader:
        if self._reader is None:
            self._reader = DatasetReader(self._tiers, reading=self._reading, steps=getattr(self, "steps", None))
        return self._reader

    def __reduce__(self) -> tuple[Any, ...]:
        return _Source, (self._tiers, self._reading, self.steps)

    def close(self) -> None:
        if self._reader is not None:
            self._reader.close()


class _StreamArray(BackendArray):
    """A variable that is read where it is indexed."""

    def __init__(self, source: _Source, name: str) -> None:
        self._source, self._name = source, name
        variable = source.reader.variable(name)
        self.shape, self.dtype = source.reader.shape_of(variable), variable.dtype

    def __getitem__(self, key: indexing.ExplicitIndexer) -> Any:
        if isinstance(key, indexing.BasicIndexer | indexing.OuterIndexer):
            # xarray cannot turn an empty slice round.
            pairs = zip(key.tuple, self.shape, strict=True)
            key = type(key)(tuple(slice(0, 0) if _is_empty(part, length) else part for part, length in pairs))
        return indexing.explicit_indexing_adapter(key, self.shape, indexing.IndexingSupport.BASIC, self._values)

    def _values(self, key: tuple[Any, ...]) -> numpy.ndarray[Any, Any]:
        return self._source.reader.values(self._name, key)


class _Store(AbstractDataStore):
    """The variables of a stream as xarray's decoders take them."""

    def __init__(self, source: _Source) -> None:
        self._source = source
        self._dataset = source.reader.dataset()

    def __reduce__(self) -> tuple[Any, ...]:
        return _Store, (self._source,)

    def get_variables(self) -> Any:
        return {name: self._variable(name, each) for name, each in self._dataset.variables.items()}

    def get_attrs(self) -> Any:
        return dict(self._dataset.attributes)

    def get_dimensions(self) -> Any:
        return self._source.reader.sizes

    def get_encoding(self) -> Any:
        return {"unlimited_dims": set(self._dataset.unlimited)}

    def close(self) -> None:
        self._source.close()

    def _variable(self, name: str, variable: Variable) -> xarray.Variable:
        schema = self._source.reader.schema
        is_stream = self._source.reader.variable(name).kind is Kind.STREAM
        chunks = {schema.along: 1} if is_stream and schema.along in variable.dims else {}
        encoding = {"preferred_chunks": chunks} if chunks else {}
        data = indexing.LazilyIndexedArray(_StreamArray(self._source, name))
        return xarray.Variable(variable.dims, data, dict(variable.attributes), encoding)


class StreamWriter:
    """A stream of datasets that grows. Use it as a context: the end of the block ends the stream."""

    def __init__(self, tiers: Tiers, *, along: str | None = None, **options: Any) -> None:
        """Begin a stream.

        Args:
            tiers: Folders, as URLs of fsspec, the fastest first.
            along: The dimension of the steps; by default that of time.
            options: As for `DatasetWriter`: `tolerance`, `codec`, `chunk_bytes`, `base_bytes`, `threads`, `append`,
                `overwrite`.
        """
        self._tiers, self._along, self._options = tiers, along, options
        self._writer: DatasetWriter | None = None
        if along is not None or options.get("append"):
            self._writer = DatasetWriter(tiers, along=along, **options)

    def write(self, dataset: xarray.Dataset) -> int:
        """Write the steps of a dataset.

        Returns:
            Number of the written steps.

        Raises:
            AdaptiveError: The dataset is unlike the steps before, or a step cannot be written.
        """
        begun = None if self._writer is None else self._writer.schema
        encoded = encoded_of(dataset, like=begun)
        if self._writer is None:
            self._writer = DatasetWriter(self._tiers, along=usual_dimension(encoded), **self._options)
        return self._writer.write(encoded)

    def end(self) -> None:
        """End the stream: no more steps will come."""
        if self._writer is not None:
            self._writer.end()

    def __enter__(self) -> Self:
        """Write steps in a block."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the stream, unless the writing failed."""
        if kind is None:
            self.end()


@xarray.register_dataset_accessor("weir")
class WeirAccessor:
    """`Dataset.weir`: a dataset as a stream of steps."""

    def __init__(self, dataset: xarray.Dataset) -> None:
        """Stand beside a dataset."""
        self._dataset = dataset

    def write(self, tiers: Tiers, *, along: str | None = None, tolerance: Tolerance = None, **options: Any) -> int:
        """Write the dataset as a stream of steps, and end the stream.

        Args:
            tiers: Folders, as URLs of fsspec, the fastest first.
            along: The dimension of the steps; by default that of time. Without one the dataset is one step.
            tolerance: Largest error, in the variables' units: of each variable by name, or one for all data of real and
                complex numbers. All else is exact.
            options: As for `StreamWriter`; `append=True` continues a stream, and `overwrite=True` removes one.

        Returns:
            Number of the written steps.

        Raises:
            AdaptiveError: A tier holds another stream, or a variable cannot be written.
        """
        with StreamWriter(tiers, along=along, tolerance=tolerance, **options) as writer:
            return writer.write(self._dataset)

    def distinct_fills(self) -> xarray.Dataset:
        """State one fill value of each variable, where a file stated several: xarray writes no more than one.

        Returns:
            The dataset, whose missing cells are NaN either way.
        """
        dataset = self._dataset.copy()
        for name in dataset.variables:
            dataset[name].encoding = _one_fill(dataset[name].encoding)
        return dataset

    @property
    def max_errors(self) -> dict[str, float]:
        """Bound of the largest error of each variable that has one, in its units."""
        variables = self._dataset.variables.items()
        return {str(name): float(each.attrs[ERROR]) for name, each in variables if ERROR in each.attrs}

    def zarr_encoding(self, tolerance: Tolerance = None) -> dict[str, dict[str, Any]]:
        """Make the encoding by which `Dataset.to_zarr` stores variables as refactored chunks (Zarr version 3).

        Args:
            tolerance: As for `write`.

        Returns:
            The value for the argument `encoding` of `to_zarr`.
        """
        from weir.adaptive.zarr_codec import RefactoredCodec

        encoded = encoded_of(self._dataset)
        schema = schema_of(encoded, along=None, tolerance=tolerance, writer="zarr")
        found: dict[str, dict[str, Any]] = {}
        for each in schema.variables:
            if each.dtype.kind not in "fiubc":
                continue
            encoding = Encoding(each.dtype, each.attributes)
            limit = float(numpy.iinfo(each.dtype).max) if each.dtype.kind in "iu" else 0.0
            error = encoding.counted_error(each.tolerance, limit) if encoding.valid is None else 0.0
            fill = tuple(encoding.stored(encoding.fills).tolist()) or None
            codec = RefactoredCodec(tolerance=error or None, exact=not error, fill=fill)
            # What `to_zarr` is given takes the place of a variable's encoding.
            own = {key: value for key, value in self._dataset[each.name].encoding.items() if key in _KEPT}
            found[each.name] = {**own, "serializer": codec, "compressors": None, "filters": None}
        return found


def steps(tiers: Tiers, **options: Any) -> Iterator[xarray.Dataset]:
    """Read a stream step by step, each variable within its time.

    Args:
        tiers: The first tier, or all tiers in the order of the writer.
        options: `tolerance`, `budget_seconds`, `deadline_seconds`, `base_only`, `tolerant`, `threads`, as for the
            engine.

    Yields:
        One dataset for each step that is whole, in memory. Streamed variables have the bounds of the errors that remain
        as the attributes `weir_max_error` and `weir_rmse`.

    Raises:
        AdaptiveError: There is no stream, or a step cannot be read.
    """
    with DatasetReader(tiers, reading=Reading(**options)) as reader:
        for number in range(reader.steps):
            yield decoded(reader.taken(number)[0])


def decoded(dataset: Dataset) -> xarray.Dataset:
    """Decode stored variables by the conventions, as xarray does."""
    variables = {
        name: xarray.Variable(each.dims, each.loaded(), dict(each.attributes))
        for name, each in dataset.variables.items()
    }
    return xarray.decode_cf(xarray.Dataset(variables, attrs=dict(dataset.attributes)))


def encoded_of(dataset: xarray.Dataset, *, like: Schema | None = None) -> Dataset:
    """Encode a dataset by the conventions, as xarray does for netCDF files.

    Args:
        like: The stream that the dataset continues: its times and packed variables are encoded as those before.
    """
    dataset = dataset.weir.distinct_fills()
    for name in dataset.variables:
        dataset[name].attrs = {key: value for key, value in dataset[name].attrs.items() if key not in (ERROR, RMSE)}
    for each in like.variables if like is not None else ():
        if each.name in dataset.variables:
            _encode_like(dataset[each.name], each.dtype, each.attributes)
    variables, attributes = xarray.conventions.encode_dataset_coordinates(dataset)
    encoded, attributes = xarray.conventions.cf_encoder(variables, attributes)
    found = {str(name): _variable(each) for name, each in encoded.items()}
    for begun in like.variables if like is not None else ():
        if begun.name in found and _are_same_times(begun.attributes, found[begun.name].attributes):
            # xarray spells the time from which it counts in its own way.
            attributes = {**found[begun.name].attributes, "units": begun.attributes["units"]}
            found[begun.name] = replace(found[begun.name], attributes=attributes)
    unlimited = tuple(str(dim) for dim in dataset.encoding.get("unlimited_dims", ()) if dim in dataset.dims)
    return Dataset(found, dict(attributes), unlimited)


def _are_same_times(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether two spellings of units count times in the same way."""
    units = [each.get("units") for each in (one, other)]
    if not all(isinstance(each, str) and " since " in each for each in units):
        return False
    times = [
        xarray.Variable(("n",), [0, 1, 1000], {"units": each, "calendar": one.get("calendar", "standard")})
        for each in units
    ]
    first, second = (xarray.conventions.decode_cf_variable("times", each) for each in times)
    return bool(first.equals(second))


def _is_empty(part: Any, length: int) -> bool:
    return isinstance(part, slice) and not range(length)[part]


def _one_fill(encoding: Mapping[Any, Any]) -> dict[Any, Any]:
    stated = [*numpy.ravel(encoding.get("_FillValue", ())), *numpy.ravel(encoding.get("missing_value", ()))]
    kept = {key: value for key, value in encoding.items() if key != "missing_value"}
    return {**kept, "_FillValue": stated[0]} if len(stated) > 1 else dict(encoding)


def _encode_like(array: xarray.DataArray, dtype: numpy.dtype[Any], attributes: Mapping[str, Any]) -> None:
    names = [name for name in _ENCODED if name in attributes and name not in array.attrs]
    is_text = dtype.kind in "OSU"
    array.encoding = {**{name: attributes[name] for name in names}, **({} if is_text else {"dtype": dtype})}


def _variable(variable: xarray.Variable) -> Variable:
    return Variable(tuple(map(str, variable.dims)), _Values(variable), dict(variable.attrs))


class _Values:
    """Values of xarray, which may be computed where they are indexed."""

    def __init__(self, variable: xarray.Variable) -> None:
        self._variable = variable
        self.shape, self.dtype = variable.shape, numpy.dtype(variable.dtype)

    def __getitem__(self, key: Any) -> numpy.ndarray[Any, Any]:
        return numpy.asarray(self._variable[key].values)
