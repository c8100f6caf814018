"""The ways by which named variables go into Weir and come back, and what each does to a file that follows CF."""

import subprocess
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import h5py
import netCDF4
import numpy as np
import weir.adaptive.xarray  # noqa: F401 - registers Dataset.weir
import xarray
import zarr
from cf_samples import faults
from click.testing import CliRunner
from weir import adaptive
from weir.adaptive import hdf5
from weir.adaptive import zarr as groups
from weir.adaptive.named import Dataset, netcdf
from weir.adaptive.named.files import opened
from weir.adaptive.zarr_codec import NAME, RefactoredCodec
from weir.cli.adapt import adapt
from zarr.registry import register_codec

Tolerated = dict[str, float]
register_codec(NAME, RefactoredCodec)


def command(*words: object) -> None:
    """Run `weir adapt` in this process."""
    answer = CliRunner().invoke(adapt, [*map(str, words)])
    if answer.exception is not None:
        raise answer.exception


def by_command(original: Path, folder: Path, tolerated: Tolerated) -> list[str]:
    """From a file to tiers by `weir adapt refactor`, and to another file by `weir adapt reconstruct`."""
    stated = [word for name, error in tolerated.items() for word in ("--tolerance", f"{name}={error}")]
    command("refactor", original, "--tier", folder / "fast", "--tier", folder / "shared", *stated)
    command("reconstruct", folder / "fast", "--to", folder / "back.nc")
    return faults(original, folder / "back.nc", tolerated)


def by_xarray(original: Path, folder: Path, tolerated: Tolerated) -> list[str]:
    """From xarray to tiers by `Dataset.weir.write`, and back by the engine `weir`."""
    with _quiet(), _opened(original) as one:
        one.weir.write([folder / "fast", folder / "shared"], tolerance=tolerated)
        with xarray.open_dataset(folder / "fast", engine="weir", decode_timedelta=False) as other:
            return list(dataset_faults(one, other, tolerated, told=True))


def by_zarr_codec(original: Path, folder: Path, tolerated: Tolerated) -> list[str]:
    """From xarray to an array of Zarr whose chunks are containers, and back by xarray."""
    with _quiet(), _opened(original) as one:
        for each in one.variables.values():
            each.encoding = {key: value for key, value in each.encoding.items() if key not in ("chunksizes", "szip")}
        plain = one.weir.distinct_fills()
        plain.to_zarr(folder / "a.zarr", encoding=plain.weir.zarr_encoding(tolerated), consolidated=False)
        with xarray.open_zarr(folder / "a.zarr", consolidated=False, decode_timedelta=False) as other:
            return list(dataset_faults(one, other, tolerated, told=False))


def by_hdf5(original: Path, folder: Path, tolerated: Tolerated) -> list[str]:
    """Each variable as a group of HDF5."""
    with h5py.File(folder / "sink.h5", "w") as sink:
        return _by_groups(sink, hdf5, original, folder, tolerated)


def by_zarr(original: Path, folder: Path, tolerated: Tolerated) -> list[str]:
    """Each variable as a group of Zarr."""
    return _by_groups(zarr.open_group(folder / "sink.zarr", mode="w"), groups, original, folder, tolerated)


def by_arrays(original: Path, folder: Path, tolerated: Tolerated) -> list[str]:
    """Each large variable alone by `weir adapt refactor FILE:VARIABLE`, read as numbers in its units."""
    found = []
    with netCDF4.Dataset(original) as file:
        for name, error in tolerated.items():
            command("refactor", f"{original}:{name}", "--tier", folder / name, "--tolerance", f"{name}={error}")
            file[name].set_always_mask(True)
            whole = file[name][...]
            (step,) = adaptive.open(folder / name)
            missing = np.ma.getmaskarray(whole)
            distances = np.abs(step.data[~missing].astype("f8") - whole.data[~missing].astype("f8"))
            distance = float(distances.max(initial=0.0))
            if not distance <= step.max_error <= error:
                found.append(f"{name} is off by {distance}, told {step.max_error}, tolerated {error}")
            if step.data.dtype.kind != "f" and whole.dtype.kind == "f":
                found.append(f"{name} is not in its units")
    return found


DOORS: dict[str, Callable[[Path, Path, Tolerated], list[str]]] = {
    "command": by_command,
    "xarray": by_xarray,
    "zarr codec": by_zarr_codec,
    "hdf5": by_hdf5,
    "zarr": by_zarr,
    "arrays": by_arrays,
}
"""Every way in and out."""


def dataset_faults(one: xarray.Dataset, other: xarray.Dataset, tolerated: Tolerated, *, told: bool) -> Iterator[str]:
    """What is wrong with a dataset that is to be another one, by xarray: all is equal but within the tolerances."""
    if one.variables.keys() != other.variables.keys() or one.attrs != other.attrs:
        yield f"there are other variables or attributes: {list(other.variables)}, {other.attrs}"
        return
    for key in one.variables:
        name, first, second = str(key), one[key].variable, other[key].variable
        attributes = {word: value for word, value in second.attrs.items() if not word.startswith("weir_")}
        if not xarray.Variable((), 0, first.attrs).identical(xarray.Variable((), 0, attributes)):
            yield f"{name} has other attributes: {attributes} for {first.attrs}"
        if (first.dims, first.shape, first.dtype.kind) != (second.dims, second.shape, second.dtype.kind):
            yield f"{name} is {second.dtype} of {second.dims}"
        elif name not in tolerated:
            if not first.equals(second):
                yield f"{name} has other values"
        else:
            values, restored = first.values.astype("f8"), second.values.astype("f8")
            if not np.array_equal(np.isnan(values), np.isnan(restored)):
                yield f"{name} has other missing cells"
            distance = float(np.nanmax(np.abs(values - restored), initial=0.0))
            stated = float(second.attrs["weir_max_error"]) if told else tolerated[name]
            if not distance <= stated <= tolerated[name]:
                yield f"{name} is off by {distance}, told {stated}, tolerated {tolerated[name]}"


def ncdump(path: Path) -> list[str]:
    """The lines that ncdump prints of a file, sorted, less its name, its kind and what Weir adds."""
    answer = subprocess.run(["ncdump", "-p", "9,17", path], capture_output=True, text=True, check=True)
    # Of files of the classic kind a text is broken where it has a new line.
    whole = answer.stdout.replace('\\n",\n\t\t\t"', "\\n")
    lines = (line.strip() for line in whole.splitlines())
    return sorted(line for line in lines if not line.startswith("netcdf ") and ":weir_" not in line)


def _by_groups(sink: Any, form: Any, original: Path, folder: Path, tolerated: Tolerated) -> list[str]:
    with opened(original) as dataset:
        for name, variable in dataset.variables.items():
            form.save_variable(sink, name, variable, tolerance=tolerated.get(name))
        back = {name: form.load_variable(sink, name) for name in dataset.variables}
        whole = Dataset(back, dataset.attributes, dataset.unlimited)
        with (folder / "back.nc").open("wb") as file:
            netcdf.write(file, whole)
    return faults(original, folder / "back.nc", tolerated)


def _opened(path: Path) -> xarray.Dataset:
    return xarray.open_dataset(path, engine="netcdf4", decode_timedelta=False)


@contextmanager
def _quiet() -> Iterator[None]:
    """Without what xarray and Zarr say of files of others: of several fill values, and of texts of any length."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", xarray.SerializationWarning)
        warnings.filterwarnings("ignore", ".*Zarr", Warning)
        yield
