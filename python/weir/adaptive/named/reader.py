"""The reader of streams of named variables: each variable as accurate as its time allows."""

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any, Self

import numpy

from weir.adaptive.budget import Budget
from weir.adaptive.catalogue import complete, place_of
from weir.adaptive.contents import header_of, manifest_of
from weir.adaptive.encoding import Encoding
from weir.adaptive.errors import AdaptiveError, NoStreamError, StepError
from weir.adaptive.named.dataset import Dataset, Variable
from weir.adaptive.named.places import Record, arrays_at, dataset_at, records_at, tiers_below
from weir.adaptive.named.schema import STEP, Described, Kind, Schema
from weir.adaptive.policy import Accuracy
from weir.adaptive.reader import Reader, Step
from weir.adaptive.region import Region
from weir.adaptive.tiers import TierLike, named_tiers, tiers_of

UNNAMED = "data"
"""Name of the variable of a stream that was written without names."""
ERROR, RMSE = "weir_max_error", "weir_rmse"
"""Attributes of a variable with the bounds of its errors, in its units."""
PerVariable = float | Mapping[str, float] | None
"""One number for all variables, or one for each by name."""


@dataclass(frozen=True)
class Reading:
    """The options for reading each variable.

    Attributes:
        tolerance: Sufficient largest error, in the variable's units; the reader reads no more than it needs.
        budget_seconds: Time to read the augmentation of a step; no read begins later.
        deadline_seconds: Longest time of a step, with the bytes that arrived.
        base_only: Whether shared tiers are left alone.
        tolerant: Whether missing and damaged parts are tolerated, with a warning.
        threads: Number of threads that restore arrays.
        accuracy: Sufficient accuracy of variables without a tolerance.
    """

    tolerance: PerVariable = None
    budget_seconds: PerVariable = None
    deadline_seconds: PerVariable = None
    base_only: bool = False
    tolerant: bool = False
    threads: int = 1
    accuracy: Accuracy | None = None

    def options(self, name: str) -> dict[str, Any]:
        """Options of the reader of a variable."""
        error, budget = _of(self.tolerance, name), _of(self.budget_seconds, name)
        policy = Budget(seconds=budget) if budget is not None else "isolation" if self.base_only else "best-effort"
        return {
            "accuracy": self.accuracy if error is None else Accuracy(max_error=error),
            "policy": policy,
            "deadline_seconds": _of(self.deadline_seconds, name),
            "tolerant": self.tolerant,
            "threads": self.threads,
        }

    def is_bounded(self, name: str) -> bool:
        """Whether the time of a read bounds its bytes, so that its error is known afterwards."""
        return (
            self.base_only or _of(self.budget_seconds, name) is not None or _of(self.deadline_seconds, name) is not None
        )


class DatasetReader:
    """The named variables of a stream, as they are stored. Threads may share a reader.

    Attributes:
        schema: The description of the variables.
        tiers: The named tiers.
    """

    def __init__(
        self, tiers: Sequence[TierLike] | TierLike, *, reading: Reading | None = None, steps: int | None = None
    ) -> None:
        """Open a stream.

        Args:
            tiers: Tiers in the order of the writer, the fastest first; the stream names the missing ones.
            reading: Options for reading each variable.
            steps: Number of steps to show; by default those that are whole now. Steps that come later are not shown.

        Raises:
            AdaptiveError: There is no stream, or a tier cannot be used.
        """
        self.tiers = named_tiers(tiers)
        tiers_of(self.tiers)
        self._place = place_of(self.tiers[0])
        self.reading = reading or Reading()
        try:
            self.schema = dataset_at(self._place)
            self._records = records_at(self._place, self.schema)
        except NoStreamError:
            self.schema, self._records = self._unnamed()
        for asked in (self.reading.tolerance, self.reading.budget_seconds, self.reading.deadline_seconds):
            unknown = asked.keys() - {each.name for each in self.schema.variables} if isinstance(asked, Mapping) else ()
            if unknown:
                known = ", ".join(each.name for each in self.schema.variables)
                raise AdaptiveError(f"there is no variable {', '.join(sorted(unknown))}", hint=f"there are {known}")
        if steps is not None:
            self._records = self._records[:steps]
        self._static: Record | None = None
        self._readers: dict[str, Reader] = {}
        self._lock = threading.Lock()

    @property
    def steps(self) -> int:
        """Number of the steps."""
        return len(self._records)

    @property
    def sizes(self) -> dict[str, int]:
        """Length of each dimension."""
        along = {} if self.schema.along is None else {self.schema.along: self.steps}
        return self.schema.sizes | along

    def shape_of(self, variable: Described) -> tuple[int, ...]:
        """Shape of a variable, over all steps."""
        sizes = self.sizes
        return tuple(sizes[dim] for dim in variable.dims)

    def variable(self, name: str) -> Described:
        """Find the description of a variable.

        Raises:
            AdaptiveError: There is no such variable.
        """
        for each in self.schema.variables:
            if each.name == name:
                return each
        raise AdaptiveError(f"there is no variable {name}", hint=f"there are {', '.join(self.names)}")

    @property
    def names(self) -> list[str]:
        """Names of the variables."""
        return [each.name for each in self.schema.variables]

    def values(self, name: str, key: tuple[int | slice, ...] = ()) -> numpy.ndarray[Any, Any]:
        """Read a part of a variable.

        Args:
            key: A number or a slice for each dimension, as for numpy; dimensions without one are whole.

        Returns:
            The stored values, of the dtype of the variable: not decoded.

        Raises:
            AdaptiveError: A tier, or a step, cannot be used.
        """
        variable = self.variable(name)
        shape = self.shape_of(variable)
        key = (*key, *[slice(None)] * (len(shape) - len(key)))
        if variable.kind is not Kind.STREAM:
            whole = self._exact(variable, shape)
            part = whole[key]
            return part.astype(object) if variable.is_text else part
        if self.schema.along not in variable.dims:
            step = self._step(variable, 0, key, shape)
            return numpy.asarray(step)
        axis = variable.dims.index(self.schema.along)
        numbers = range(shape[axis])[key[axis]]
        within, rest = (*key[:axis], *key[axis + 1 :]), (*shape[:axis], *shape[axis + 1 :])
        if isinstance(numbers, int):
            return self._step(variable, numbers, within, rest)
        # Places that a number names have no axis in the steps, and so none before that of the steps.
        place = axis - sum(not isinstance(part, slice) for part in key[:axis])
        steps = [self._step(variable, number, within, rest) for number in numbers]
        if not steps:
            lengths = [
                len(range(length)[part]) for part, length in zip(key, shape, strict=True) if isinstance(part, slice)
            ]
            return numpy.empty(lengths, dtype=variable.dtype)
        return numpy.stack(steps, axis=place)

    def step(self, name: str, number: int, region: Sequence[slice] | None = None) -> Step:
        """Read one step of a streamed variable, with its errors and costs.

        Args:
            region: A slice for each dimension but that of the steps.
        """
        reader = self._reader(self.variable(name))
        found = reader[number] if region is None else reader[(number, *region)]
        assert isinstance(found, Step)
        return found

    def alone(self, name: str, *, region: Region | None = None) -> Reader:
        """Open the stream of one variable, whose steps are in the variable's units.

        Args:
            region: A slice for each dimension but that of the steps; None is all.
        """
        variable = self.variable(name)
        tiers = tiers_below(self.tiers, self.schema.folder_of(variable))
        return Reader(tiers, region=region, **self.reading.options(name))

    def taken(
        self, number: int, *, names: Sequence[str] | None = None, region: Mapping[str, slice] | None = None
    ) -> tuple[Dataset, dict[str, Step]]:
        """Read one step of every variable, each within its own time, with the errors that remain.

        Args:
            names: The variables that are wanted; coordinates come with them. None wants all.
            region: A slice for each dimension that is to be cut; others are whole.

        Returns:
            The variables, not decoded: the dimension of the steps has length 1, and variables of data have the bounds
            of their errors as the attributes `weir_max_error` and `weir_rmse`. And the costs of the streamed ones.

        Raises:
            StepError: The step is not there, or cannot be read.
        """
        if not 0 <= number < self.steps:
            place = self._place.name(self.schema.record_name(max(number, 0)))
            hint = f"there are steps up to {self.steps - 1}" if self.steps else "there are none yet"
            raise StepError(number, place, "there is no such step", hint=hint)
        wanted = self.dataset(errors=False)
        coordinates = wanted.coordinates
        if names is not None:
            for name in names:
                self.variable(name)
            wanted = wanted.with_coordinates(names)
        along = self.schema.along
        places = {**(region or {}), **({} if along is None else {along: slice(number, number + 1)})}
        steps: dict[str, Step] = {}
        variables = {}
        for name, each in wanted.variables.items():
            described = self.variable(name)
            if described.kind is not Kind.STREAM:
                is_data = name not in coordinates and each.dtype.kind in "fiubc"
                exact = {ERROR: 0.0, RMSE: 0.0} if is_data else {}
                variables[name] = replace(each.at(places), attributes={**each.attributes, **exact})
                continue
            cut = [places.get(dim, slice(None)) for dim in each.dims if dim != along]
            is_stepped = along in each.dims
            step = self.step(name, number if is_stepped else 0, cut if region else None)
            values = numpy.expand_dims(step.data, each.dims.index(along)) if along in each.dims else step.data
            stated = {**each.attributes, ERROR: step.max_error, RMSE: step.rmse}
            variables[name], steps[name] = Variable(each.dims, values, stated), step
        if self.is_unnamed:
            plain = variables[UNNAMED]
            unnamed = {UNNAMED: Variable(plain.dims[1:], plain.values[0], plain.attributes)}
            return Dataset(unnamed, {"step": numpy.int64(number)}), steps
        return Dataset(variables, wanted.attributes, wanted.unlimited), steps

    def max_error(self, name: str) -> float | None:
        """Find a bound of the largest error of a variable, in its units, before it is read.

        Returns:
            The bound for all steps: that of the bases, where time bounds the reads. None: nothing tells it.
        """
        variable = self.variable(name)
        if variable.kind is not Kind.STREAM:
            return 0.0
        stored: float | None = variable.tolerance
        if self.reading.accuracy is not None:
            return None
        if self.reading.is_bounded(name) or (self.is_unnamed and not stored):
            place = place_of(tiers_below(self.tiers[:1], self.schema.folder_of(variable))[0])
            count = self.steps if self.schema.along in variable.dims else min(self.steps, 1)
            manifests = [manifest_of(place, number) for number in range(count)]
            errors = [each.base_errors if self.reading.is_bounded(name) else each.errors for each in manifests]
            stored = None if None in errors else max((each[1] for each in errors if each is not None), default=0.0)
        return None if stored is None else max(stored, _of(self.reading.tolerance, name) or 0.0)

    def dataset(self, *, errors: bool = True) -> Dataset:
        """All variables, read where they are indexed.

        Args:
            errors: Whether variables of data have the bound of their errors as the attribute `weir_max_error`.
        """
        plain = {each.name: Variable(each.dims, _Lazy(self, each), each.attributes) for each in self.schema.variables}
        found = Dataset(plain, self.schema.attributes, self.schema.unlimited)
        coordinates = found.coordinates
        variables = {}
        for name, each in plain.items():
            is_data = name not in coordinates or self.variable(name).tolerance > 0
            told = self.max_error(name) if errors and is_data and each.dtype.kind in "fiubc" else None
            variables[name] = each if told is None else replace(each, attributes={**each.attributes, ERROR: told})
        return replace(found, variables=variables)

    def close(self) -> None:
        """Give up reads that are under way."""
        with self._lock:
            readers, self._readers = list(self._readers.values()), {}
        for each in readers:
            each.close()

    def __enter__(self) -> Self:
        """Read in a block."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the reader."""
        self.close()

    def _exact(self, variable: Described, shape: tuple[int, ...]) -> numpy.ndarray[Any, Any]:
        if variable.kind is Kind.STATIC:
            with self._lock:
                if self._static is None:
                    self._static, _ = arrays_at(self._place, self.schema.static_name)
                arrays = self._static
            values = arrays.get(variable.name)
        elif self._records:
            axis = variable.dims.index(self.schema.along)
            values = numpy.stack([record[variable.name] for record in self._records], axis=axis)
        else:
            values = numpy.empty(shape, dtype=variable.dtype)
        if values is None or values.shape != shape:
            raise AdaptiveError(f"tier {self._place.tier.url} is damaged: it has no whole {variable.name}")
        return values

    def _step(
        self, variable: Described, number: int, key: tuple[int | slice, ...], shape: tuple[int, ...]
    ) -> numpy.ndarray[Any, Any]:
        """One step of a part, of which no axis may be empty for the reader of a stream."""
        lengths = [len(range(length)[part]) for part, length in zip(key, shape, strict=True) if isinstance(part, slice)]
        if not all(lengths):
            return numpy.empty(lengths, dtype=variable.dtype)
        reader = self._reader(variable)
        is_whole = all(part == slice(None) for part in key)
        found = reader[number] if is_whole else reader[(number, *key)]
        assert isinstance(found, Step)
        return found.data

    def _reader(self, variable: Described) -> Reader:
        with self._lock:
            reader = self._readers.get(variable.name)
            if reader is None:
                tiers = tiers_below(self.tiers, self.schema.folder_of(variable))
                reader = Reader(tiers, unpack=False, **self.reading.options(variable.name))
                self._readers[variable.name] = reader
            return reader

    @property
    def is_unnamed(self) -> bool:
        """Whether the stream was written without names."""
        return self.schema.identity == UNNAMED

    def _unnamed(self) -> tuple[Schema, list[Record]]:
        """The schema of a stream that was written without names: one variable, whose axes have numbers."""
        _, catalogue = complete(self.tiers, tolerant=self.reading.tolerant)
        meaning, nodes = catalogue.meaning, catalogue.stream.nodes
        axes = [f"axis_{axis}" for axis in range(len(meaning.form.shape))] if nodes is None else ["node"]
        numbers = catalogue.look()[0]
        attributes = {**self._fills_of(numbers, meaning.encoding), **meaning.encoding.attributes}
        variable = Described(
            UNNAMED, (STEP, *axes), meaning.encoding.dtype, attributes, Kind.STREAM, catalogue.stream.tolerance or 0.0
        )
        sizes = dict(zip(axes, meaning.form.shape, strict=True))
        schema = Schema(UNNAMED, catalogue.stream.writer, STEP, sizes, {}, (STEP,), (variable,))
        return schema, [{} for _ in numbers]

    def _fills_of(self, numbers: Sequence[int], encoding: Encoding) -> dict[str, Any]:
        """The fill values that the first step states, as attributes; none where it cannot be read."""
        try:
            fills = numpy.array(header_of(self._place, numbers[0]).fill if numbers else (), dtype=encoding.dtype)
        except StepError:
            return {}
        stated = {"_FillValue": fills[0]} if fills.size else {}
        return stated if fills.size < 2 else {**stated, "missing_value": fills[1:]}


class _Lazy:
    """An array that is read where it is indexed."""

    def __init__(self, reader: DatasetReader, variable: Described) -> None:
        self._reader, self._variable = reader, variable
        self.shape, self.dtype = reader.shape_of(variable), variable.dtype

    def __getitem__(self, key: Any) -> Any:
        if key is ... or key == ():
            return self._reader.values(self._variable.name)
        return self._reader.values(self._variable.name, key if isinstance(key, tuple) else (key,))


def _of(given: PerVariable, name: str) -> float | None:
    return given.get(name) if isinstance(given, Mapping) else given


def without_errors(dataset: Dataset) -> Dataset:
    """Leave out the attributes that a reader adds."""
    variables = {
        name: replace(each, attributes={key: value for key, value in each.attributes.items() if not _is_added(key)})
        for name, each in dataset.variables.items()
    }
    return replace(dataset, variables=variables)


def _is_added(attribute: str) -> bool:
    return attribute in (ERROR, RMSE)
