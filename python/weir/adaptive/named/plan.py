"""The place and the accuracy of each variable, decided when a stream begins."""

import secrets
from collections.abc import Mapping
from math import prod

import numpy

from weir.adaptive.encoding import Encoding
from weir.adaptive.errors import AdaptiveError
from weir.adaptive.forms import Form
from weir.adaptive.named.dataset import Dataset, Variable
from weir.adaptive.named.schema import Described, Kind, Schema

Tolerance = float | Mapping[str, float] | None
"""Largest error: of each variable by name, or one for all data of real and complex numbers."""
SMALL_BYTES = 4096
"""Bytes of a variable's step up to which a stream of its own takes more than it saves."""
STATIC_BYTES_MAX = 16 << 20
"""Bytes of what is the same for all steps, above which a variable has a stream of its own."""
_FLAGS = ("flag_values", "flag_masks")
"""Attributes of numbers that stand for words (section 3.5 of the conventions)."""
_IDENTITY_BYTES = 8


def usual_dimension(dataset: Dataset) -> str | None:
    """Find the dimension along which the steps of a dataset lie, where nobody names it.

    Returns:
        The dimension of time. None: there is none, or no variable has enough along it for a stream.
    """
    along = dataset.time_dimension()
    kinds = (_kind(name, each, dataset, along, 0.0) for name, each in dataset.variables.items() if along in each.dims)
    return along if along is not None and any(kind is Kind.STREAM for kind in kinds) else None


def schema_of(dataset: Dataset, *, along: str | None, tolerance: Tolerance, writer: str) -> Schema:
    """Plan a stream.

    Args:
        dataset: The first steps.
        along: The dimension of the steps; None where the dataset is one step.
        tolerance: Largest errors, in the variables' units; what is not stated is exact.
        writer: Identity of the writer.

    Raises:
        AdaptiveError: A tolerance makes no sense, or a variable cannot be stored.
    """
    if not dataset.variables:
        raise AdaptiveError("there is no variable to be written")
    errors = _tolerances(dataset, tolerance)
    if along is not None and along not in dataset.sizes:
        known = ", ".join(dataset.sizes) or "none"
        raise AdaptiveError(f"there is no dimension `{along}` for the steps", hint=f"there are {known}")
    variables = tuple(
        Described(
            name, each.dims, each.dtype, dict(each.attributes), kind, errors[name] if kind is Kind.STREAM else 0.0
        )
        for name, each in dataset.variables.items()
        for kind in [_kind(name, each, dataset, along, errors[name])]
    )
    sizes = {dim: length for dim, length in dataset.sizes.items() if dim != along}
    identity = secrets.token_hex(_IDENTITY_BYTES)
    return Schema(identity, writer, along, sizes, dict(dataset.attributes), dataset.unlimited, variables)


def forms_told(dataset: Dataset, schema: Schema, tolerance: Tolerance) -> str:
    """Describe the variables to which a stated tolerance does not apply as it stands; empty where there are none."""
    stated = tolerance if isinstance(tolerance, Mapping) else {}
    told = []
    for each in schema.variables:
        if each.name in stated and (each.is_text or _is_coded(dataset.variables[each.name])):
            told.append(f"no tolerance applies to {each.name}, whose values stand for words: it is kept exactly")
        elif each.kind is Kind.STREAM and each.tolerance:
            words = Form.of(each.dtype, dataset.variables[each.name].shape).words
            told += [f"{each.name}: {words}"] if words else []
    return "; ".join(told)


def _tolerances(dataset: Dataset, tolerance: Tolerance) -> dict[str, float]:
    """Largest error of each variable; 0 keeps every bit."""
    if isinstance(tolerance, Mapping):
        unknown = tolerance.keys() - dataset.variables.keys()
        if unknown:
            raise AdaptiveError(
                f"there is no variable {', '.join(sorted(unknown))} for the tolerance",
                hint=f"there are {', '.join(dataset.variables)}",
            )
        stated = {name: float(tolerance.get(name, 0.0)) for name in dataset.variables}
    else:
        coordinates = dataset.coordinates
        stated = {
            name: 0.0 if name in coordinates or not _is_measured(each) else float(tolerance or 0.0)
            for name, each in dataset.variables.items()
        }
    for name, error in stated.items():
        if not 0.0 <= error < numpy.inf:
            raise AdaptiveError(f"a tolerance of {error} of {name} is no error that a value may have")
    return {name: 0.0 if _is_coded(dataset.variables[name]) else error for name, error in stated.items()}


def _is_measured(variable: Variable) -> bool:
    """Whether values are measured or computed, and not counted."""
    kind = variable.dtype.kind
    return kind in "fc" or (kind in "iu" and Encoding(variable.dtype, variable.attributes).is_packed)


def _is_coded(variable: Variable) -> bool:
    """Whether numbers stand for words."""
    return any(flag in variable.attributes for flag in _FLAGS) or variable.attributes.get("dtype") == "bool"


def _kind(name: str, variable: Variable, dataset: Dataset, along: str | None, error: float) -> Kind:
    if variable.dtype.kind in "OT" or not all(variable.shape):
        return Kind.RECORD if along in variable.dims else Kind.STATIC
    lengths = [length for dim, length in zip(variable.dims, variable.shape, strict=True) if dim != along]
    is_small = prod(lengths) * variable.dtype.itemsize <= SMALL_BYTES
    if along in variable.dims:
        return Kind.RECORD if is_small else Kind.STREAM
    is_data = error > 0 or (along is None and name not in dataset.coordinates)
    is_large = prod(lengths) * variable.dtype.itemsize > STATIC_BYTES_MAX
    return Kind.STREAM if is_large or (is_data and not is_small) else Kind.STATIC
