"""Files that follow the conventions for climate and forecast metadata: published ones, and one for each hard case.

The published ones come with the package iris-sample-data (Open Government Licence). The others are made by netCDF4.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import netCDF4
import numpy as np
from numpy.typing import NDArray

NetcdfVariable = Any
Array = NDArray[Any]
PUBLISHED = (
    "A1B_north_america", "E1_north_america", "SOI_Darwin", "atlantic_profiles", "hybrid_height",
    "mesh_C4_synthetic_float", "orca2_votemper", "ostia_monthly", "rotated_pole", "space_weather",
    "toa_brightness_stereographic", "vlstr_type",
)  # fmt: skip
LATITUDES, LONGITUDES = 40, 60


@dataclass(frozen=True)
class Sample:
    """One file of the set."""

    name: str
    path: Path


def published(names: tuple[str, ...] = PUBLISHED) -> Iterator[Sample]:
    """The published files."""
    import iris_sample_data

    for name in names:
        yield Sample(name, Path(iris_sample_data.path) / f"{name}.nc")


def made(folder: Path) -> Iterator[Sample]:
    """The files of hard cases, made in a folder."""
    for name, make in MAKERS.items():
        path = folder / f"{name}.nc"
        with netCDF4.Dataset(path, "w") as file:
            file.Conventions = "CF-1.11"
            make(file)
        yield Sample(name, path)


def field(shape: tuple[int, ...], seed: int = 1) -> Array:
    """A smooth field with noise, in kelvin."""
    random = np.random.default_rng(seed)
    axes = np.meshgrid(*(np.linspace(0, 3, length) for length in shape), indexing="ij")
    waves = sum(np.sin((number + 1.7) * axis) for number, axis in enumerate(axes))
    found: Array = 280 + 8 * waves + random.normal(0, 0.05, shape)
    return found


def masked(shape: tuple[int, ...], part: float, seed: int = 2) -> Array:
    """Cells that are missing: a coast, and single ones."""
    random = np.random.default_rng(seed)
    found: Array = random.random(shape) < part / 3
    found[..., : int(shape[-1] * part)] = True
    return found


def grid(file: netCDF4.Dataset, times: int | None = 5, calendar: str = "standard") -> tuple[str, ...]:
    """Coordinates of time, latitude and longitude, with bounds of time."""
    file.createDimension("lat", LATITUDES)
    file.createDimension("lon", LONGITUDES)
    add(file, "lat", "f4", ("lat",), np.linspace(-78, 78, LATITUDES), units="degrees_north", standard_name="latitude")
    add(file, "lon", "f4", ("lon",), np.arange(LONGITUDES) * 6.0, units="degrees_east", standard_name="longitude")
    if times is None:
        return ("lat", "lon")
    file.createDimension("time", None)
    file.createDimension("nv", 2)
    at = np.arange(times) * 30.0 + 15
    since = {"units": "days since 2001-01-01", "calendar": calendar}
    add(file, "time", "f8", ("time",), at, bounds="time_bnds", standard_name="time", axis="T", **since)
    add(file, "time_bnds", "f8", ("time", "nv"), np.stack([at - 15, at + 15], axis=1))
    return ("time", "lat", "lon")


def add(
    file: netCDF4.Dataset,
    name: str,
    dtype: Any,
    dims: tuple[str, ...],
    values: Any,
    fill: Any = None,
    **attributes: Any,
) -> NetcdfVariable:
    """A variable with its stored values."""
    made_one = file.createVariable(name, dtype, dims, fill_value=fill)
    made_one.set_auto_maskandscale(False)
    made_one.setncatts(attributes)
    made_one[...] = values
    return made_one


def packed(file: netCDF4.Dataset) -> None:
    """Shorts with scale, offset, fill values and a valid range; bytes that are unsigned; flags."""
    dims = grid(file)
    shape = (5, LATITUDES, LONGITUDES)
    stored = np.round((field(shape) - 280) / 0.01).astype("i2")
    stored[masked(shape, 0.2)] = -32768
    stored[:, 3, 40:50] = -32767
    stored[:, 5, 40:44] = 31000
    add(
        file, "t", "i2", dims, stored, -32768, scale_factor=np.float64(0.01), add_offset=np.float64(280), units="K",
        missing_value=np.array([-32767], "i2"), valid_range=np.array([-30000, 30000], "i2"),
        standard_name="air_temperature",
    )  # fmt: skip
    single = np.round((field(shape, 3) - 250) * 4).astype("u1").view("i1")
    add(file, "cloud", "i1", dims, single, -1, _Unsigned="true", scale_factor=np.float32(0.25), units="percent")
    flags = (field(shape, 4) > 280).astype("i1") + (masked(shape, 0.1) * 2).astype("i1")
    add(file, "quality", "i1", dims, flags, flag_values=np.arange(4, dtype="i1"), flag_meanings="a b c d")


def fills(file: netCDF4.Dataset) -> None:
    """Fill values of every kind: both attributes, several, NaN, netCDF's own, and cells outside a valid range."""
    dims = grid(file)
    shape = (5, LATITUDES, LONGITUDES)
    both = field(shape).astype("f4")
    both[masked(shape, 0.2)], both[:, 9, 30:40] = -999, 1e20
    add(file, "both", "f4", dims, both, -999, missing_value=np.float32(1e20), units="K")
    several = field(shape, 3)
    several[:, 1, 20:30], several[:, 2, 20:30] = -1, -2
    add(file, "several", "f8", dims, several, missing_value=np.array([-1.0, -2.0]), units="K")
    nan = np.where(masked(shape, 0.3), np.nan, field(shape, 4)).astype("f4")
    add(file, "nan", "f4", dims, nan, np.nan, units="K")
    default = np.where(masked(shape, 0.3), netCDF4.default_fillvals["f4"], field(shape, 5)).astype("f4")
    add(file, "default", "f4", dims, default, units="K")
    ranged = field(shape, 6).astype("f4")
    ranged[:, 4, ::7], ranged[:, 6, ::7] = 400, -5
    add(file, "ranged", "f4", dims, ranged, valid_min=np.float32(255), valid_max=np.float32(305), units="K")


def calendars(file: netCDF4.Dataset) -> None:
    """Times in every calendar, one dimension each."""
    grid(file, times=None)
    for calendar in ("standard", "proleptic_gregorian", "julian", "noleap", "all_leap", "360_day"):
        name = f"time_{calendar}"
        file.createDimension(name, 6)
        at = np.array([0, 31, 58.5, 59, 60, 365.25])
        add(file, name, "f8", (name,), at, units="days since 2000-01-01 12:00", calendar=calendar, axis="T")
        add(file, f"rain_{calendar}", "f4", (name, "lat", "lon"), field((6, LATITUDES, LONGITUDES)), units="mm")


def ensemble(file: netCDF4.Dataset) -> None:
    """Realizations with names, in letters and in texts of any length; time is not the first dimension."""
    file.createDimension("realization", 3)
    file.createDimension("letters", 8)
    dims = grid(file, calendar="360_day")
    add(file, "realization", "i4", ("realization",), [0, 1, 2], standard_name="realization", units="1")
    names = netCDF4.stringtochar(np.array(["control", "warm", "cold"], "S8"))
    add(file, "name", "S1", ("realization", "letters"), names, long_name="names")
    text = file.createVariable("institution", str, ("realization",))
    text[:] = np.array(["Exeter", "", "Zürich"], dtype=object)
    shape = (3, 5, LATITUDES, LONGITUDES)
    dims = ("realization", *dims)
    add(file, "t", "f4", dims, field(shape), coordinates="name institution", units="K", cell_methods="time: mean")


def integers(file: netCDF4.Dataset) -> None:
    """Integers of every size and sign, with fill values that a double can have: xarray decodes to doubles."""
    dims = grid(file)
    shape = (5, LATITUDES, LONGITUDES)
    for code in ("i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8"):
        limits = np.iinfo(code)
        values = np.clip((field(shape) - 250) * 2, limits.min, limits.max).astype(code)
        fill = min(limits.max, 2**53)
        values[masked(shape, 0.1)] = fill
        add(file, code, code, dims, values, fill, units="1")


def curvilinear(file: netCDF4.Dataset) -> None:
    """Coordinates of two dimensions with corners, areas of the cells, and a mapping."""
    for name, length in (("time", None), ("y", LATITUDES), ("x", LONGITUDES), ("corner", 4)):
        file.createDimension(name, length)
    along, across = np.meshgrid(np.linspace(40, 60, LATITUDES), np.linspace(-10, 30, LONGITUDES), indexing="ij")
    add(file, "time", "i4", ("time",), [0, 6, 12], units="hours since 1990-01-01", standard_name="time")
    for name, values, units in (("lat", along, "degrees_north"), ("lon", across, "degrees_east")):
        add(file, name, "f8", ("y", "x"), values, units=units, bounds=f"{name}_corners")
        corners = values[..., np.newaxis] + np.array([-0.2, 0.2, 0.2, -0.2])
        add(file, f"{name}_corners", "f8", ("y", "x", "corner"), corners)
    add(file, "area", "f4", ("y", "x"), np.full((LATITUDES, LONGITUDES), 2.5e8), units="m2", standard_name="cell_area")
    add(file, "crs", "i4", (), 0, grid_mapping_name="latitude_longitude", earth_radius=6371229.0)
    add(
        file, "wind", "f4", ("time", "y", "x"), field((3, LATITUDES, LONGITUDES)) - 280, units="m s-1",
        coordinates="lat lon", cell_measures="area: area", grid_mapping="crs", ancillary_variables="flag",
    )  # fmt: skip
    add(file, "flag", "i1", ("time", "y", "x"), 1, flag_values=np.array([0, 1], "i1"), flag_meanings="bad good")


def five_axes(file: netCDF4.Dataset) -> None:
    """A forecast of five dimensions: more than a container has."""
    for name, length in (("member", 2), ("level", 3), ("lead", 4)):
        file.createDimension(name, length)
    grid(file, times=2)
    dims = ("time", "member", "lead", "level", "lat", "lon")
    add(file, "t", "f4", dims, field((2, 2, 4, 3, LATITUDES, LONGITUDES)), units="K")


def time_last(file: netCDF4.Dataset) -> None:
    """A variable whose last dimension is time."""
    grid(file)
    add(file, "t", "f4", ("lat", "lon", "time"), field((LATITUDES, LONGITUDES, 5)), units="K")


MAKERS: dict[str, Callable[[netCDF4.Dataset], None]] = {
    make.__name__: make for make in (packed, fills, calendars, ensemble, integers, curvilinear, five_axes, time_last)
}


def tolerances(path: Path, part: float = 1e-3) -> dict[str, float]:
    """A tolerance of each large variable of measured values: a part of its range, in its units."""
    found = {}
    with netCDF4.Dataset(path) as file:
        for name, variable in file.variables.items():
            is_number = variable.dtype is not str and variable.dtype.kind in "fiu"
            is_measured = is_number and (variable.dtype.kind == "f" or hasattr(variable, "scale_factor"))
            if is_measured and variable.size > 2000 and name not in variable.dimensions:
                values = np.ma.compressed(variable[...])
                found[name] = float(np.ptp(values)) * part or part
    return found


def faults(original: Path, back: Path, tolerated: dict[str, float]) -> list[str]:
    """What is wrong with a file that is to be another one, by netCDF4: all is equal but within the tolerances."""
    with netCDF4.Dataset(original) as one, netCDF4.Dataset(back) as other:
        lost = [f"{name} is gone" for name in one.variables if name not in other.variables]
        lost += [f"{name} is new" for name in other.variables if name not in one.variables]
        lost += _attribute_faults("the file", one, other)
        for name in one.variables.keys() & other.variables.keys():
            lost += _faults(name, one[name], other[name], tolerated.get(name, 0.0))
    return lost


def _faults(name: str, one: NetcdfVariable, other: NetcdfVariable, tolerance: float) -> Iterator[str]:
    yield from _attribute_faults(name, one, other)
    if (one.dimensions, one.shape, one.dtype) != (other.dimensions, other.shape, other.dtype):
        yield f"{name} is {other.dtype} of {other.dimensions}, {other.shape}"
        return
    if tolerance == 0.0:
        for each in (one, other):
            each.set_auto_maskandscale(False)
        if not np.array_equal(one[...], other[...], equal_nan=one.dtype is not str and one.dtype.kind == "f"):
            yield f"{name} has other values"
        return
    for each in (one, other):
        each.set_always_mask(True)
    first, second = one[...], other[...]
    if not np.array_equal(np.ma.getmaskarray(first), np.ma.getmaskarray(second)):
        yield f"{name} has other missing cells"
    marks = [each.data[np.ma.getmaskarray(each)] for each in (first, second)]
    if not np.array_equal(marks[0], marks[1], equal_nan=True):
        yield f"{name} has other fill values"
    distances = np.abs(np.ma.compressed(first).astype("f8") - np.ma.compressed(second).astype("f8"))
    distance = float(np.nanmax(distances, initial=0.0))
    stated = float(other.getncattr("weir_max_error"))
    if not distance <= stated <= tolerance:
        yield f"{name} is off by {distance}, told {stated}, tolerated {tolerance}"


def _attribute_faults(name: str, one: Any, other: Any) -> Iterator[str]:
    first, second = ({key: each.getncattr(key) for key in each.ncattrs()} for each in (one, other))
    for key in first.keys() | second.keys():
        if key in ("weir_max_error", "weir_rmse", "_NCProperties"):
            continue
        mine, others = np.asarray(first.get(key)), np.asarray(second.get(key))
        same = (mine.dtype, mine.shape) == (others.dtype, others.shape)
        if not same or not np.array_equal(mine, others, equal_nan=mine.dtype.kind == "f"):
            yield f"the attribute {key} of {name} is {others!r} for {mine!r}"
