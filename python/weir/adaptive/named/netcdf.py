"""Named variables as netCDF files."""

import io
import warnings
from collections.abc import Mapping
from typing import Any, BinaryIO

import numpy

from weir.adaptive.errors import AdaptiveError, AdaptiveWarning
from weir.adaptive.named.dataset import Dataset, Variable

_CODES = {"S1", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8"}
"""Types of netCDF-4 besides texts of any length, in numpy's spelling."""
_UNITS = {
    "D": "days", "h": "hours", "m": "minutes", "s": "seconds", "ms": "milliseconds", "us": "microseconds",
    "ns": "nanoseconds",
}  # fmt: skip
_NO_TIME = numpy.iinfo(numpy.int64).min
"""The whole number of a time that is none (NaT)."""


def write(file: BinaryIO, dataset: Dataset) -> None:
    """Write variables as a netCDF-4 file. Types that netCDF has not are split or widened; one warning says which.

    Args:
        file: The opened file.

    Raises:
        AdaptiveError: A variable has a type that no netCDF file can hold.
    """
    import h5netcdf

    forms = {name: _form(name, each) for name, each in dataset.variables.items()}
    told = [words for words, _ in forms.values() if words]
    if told:
        warnings.warn(f"netCDF has other types: {'; '.join(told)}", AdaptiveWarning, stacklevel=2)
    variables = {name: each for _, parts in forms.values() for name, each in parts.items()}
    content = io.BytesIO()
    with h5netcdf.File(content, "w") as written:
        for dim, length in Dataset(variables).sizes.items():
            written.dimensions[dim] = None if dim in dataset.unlimited else length
            if dim in dataset.unlimited:
                written.resize_dimension(dim, length)
        for name, each in variables.items():
            _create(written, name, each)
        written.attrs.update(_attributes(dataset.attributes))
    file.write(content.getbuffer())


def _create(written: Any, name: str, variable: Variable) -> None:
    attributes = dict(variable.attributes)
    values = variable.values
    dtype: Any = values.dtype
    if values.dtype.kind == "U":
        import h5py

        # Fill values of texts are none of netCDF's.
        attributes.pop("_FillValue", None)
        dtype, values = h5py.string_dtype(), values.astype(object)
    fill = attributes.pop("_FillValue", None)
    if fill is not None:
        fill = numpy.asarray(fill).astype(dtype).ravel()[0]
    made = written.create_variable(name, variable.dims, dtype, fillvalue=fill)
    if values.size:
        made[...] = values
    made.attrs.update(_attributes(attributes))


def _attributes(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Attributes as h5netcdf takes them: a text is one of letters, as in netCDF's own model, and a list is an array."""
    return {name: _attribute(value) for name, value in attributes.items()}


def _attribute(value: Any) -> Any:
    if isinstance(value, str):
        return numpy.bytes_(value.encode())
    return numpy.array(value, dtype=object) if isinstance(value, list) else value


def _form(name: str, variable: Variable) -> tuple[str, dict[str, Variable]]:
    """The variables in which netCDF holds one, and the words for what differs; empty where nothing does."""
    values = variable.loaded()
    attributes, dtype = dict(variable.attributes), values.dtype
    plain = Variable(variable.dims, values, attributes)
    code = dtype.str[1:]
    if dtype.kind == "U" or code in _CODES:
        return "", {name: plain}
    if dtype.kind == "b":
        return "", {name: Variable(variable.dims, values.view("i1"), {**attributes, "dtype": "bool"})}
    if dtype.kind == "S":
        letters = numpy.ascontiguousarray(values).reshape(*values.shape, 1).view("S1")
        dims = (*variable.dims, f"string{dtype.itemsize}")
        return "", {name: Variable(dims, letters, attributes)}
    if code == "f2":
        return f"{name} of {dtype} has single floats", {name: Variable(variable.dims, values.astype("f4"), attributes)}
    if code in ("c8", "c16"):
        parts = {"real": values.real, "imag": values.imag}
        told = f"{name} of {dtype} is split into {name}_real and {name}_imag"
        return told, {f"{name}_{part}": Variable(variable.dims, each, attributes) for part, each in parts.items()}
    if dtype.kind in "mM" and (unit := _UNITS.get(numpy.datetime_data(dtype)[0])) is not None:
        step = numpy.datetime_data(dtype)[1]
        whole = values.view("i8")
        whole = numpy.where(whole == _NO_TIME, whole, whole * step)
        since = f"{unit} since 1970-01-01" if dtype.kind == "M" else unit
        stated = {**attributes, "units": since, "_FillValue": numpy.int64(_NO_TIME)}
        return "", {name: Variable(variable.dims, whole, stated)}
    raise AdaptiveError(
        f"{name} has values of {dtype}, which netCDF has not", hint="leave it out, or read it with weir.adaptive"
    )
