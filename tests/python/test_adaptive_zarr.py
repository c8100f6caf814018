"""Refactored arrays that programs read which know Zarr alone."""

import subprocess
import sys
from contextlib import nullcontext
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import h5py
import numpy
import pytest
import zarr
from numpy.typing import NDArray
from waits import PATIENCE_SECONDS
from weir import _core, adaptive
from weir.adaptive import hdf5
from weir.adaptive import zarr as groups
from weir.adaptive.zarr_codec import NAME, RefactoredCodec
from zarr.registry import register_codec
from zarr.storage import LocalStore

Array = NDArray[Any]
FIELD = Path(__file__).resolve().parents[1] / "data" / "fields" / "echam_t_17x96x192.npy"

register_codec(NAME, RefactoredCodec)


@pytest.fixture(scope="module")
def field() -> Array:
    array: Array = numpy.load(FIELD)
    return array


def stored(path: Path, field: Array, **options: Any) -> "zarr.Array[Any]":
    made: zarr.Array[Any] = zarr.create_array(
        path, shape=field.shape, chunks=(17, 48, 100), dtype=field.dtype, serializer=RefactoredCodec(**options),
        compressors=None, filters=None,
    )  # fmt: skip
    made[...] = field
    return made


def test_an_existing_reader_decodes(tmp_path: Path, field: Array) -> None:
    stored(tmp_path / "a.zarr", field, exact=True)
    program = "import sys, numpy, zarr; numpy.save(sys.argv[2], zarr.open(sys.argv[1], mode='r')[:])"
    command = [sys.executable, "-c", program, str(tmp_path / "a.zarr"), str(tmp_path / "back.npy")]
    subprocess.run(command, check=True, timeout=PATIENCE_SECONDS)
    assert numpy.array_equal(numpy.load(tmp_path / "back.npy"), field)
    (entry,) = entry_points(group="zarr.codecs", name=NAME)
    assert entry.load() is RefactoredCodec


def test_a_tolerance_is_kept_in_fewer_bytes(tmp_path: Path, field: Array) -> None:
    exact, near = stored(tmp_path / "a", field, exact=True), stored(tmp_path / "b", field, tolerance=0.01)
    assert numpy.array_equal(zarr.open_array(tmp_path / "a")[...], field)
    back = numpy.asarray(zarr.open_array(tmp_path / "b")[...])
    assert 0 < numpy.abs(back - field).max() <= 0.01
    assert near.nbytes_stored() < 0.5 * exact.nbytes_stored()


class Counted(LocalStore):
    """Counts the bytes that are read."""

    read_bytes = 0

    async def get(self, key: str, prototype: Any = None, byte_range: Any = None) -> Any:
        found = await super().get(key, prototype, byte_range)
        self.read_bytes += len(found) if found is not None else 0
        return found


@pytest.mark.parametrize(
    "part",
    [
        (slice(0, 17), slice(0, 20), slice(0, 20)),
        (3, slice(10, 90), slice(None)),
        (slice(1, 16, 3), 95, -1),
        (slice(None), slice(47, 49), slice(99, 101)),
        (0, 0, 0),
        ([1, 5], slice(0, 3), slice(0, 3)),
    ],
)
def test_a_part_is_the_part(tmp_path: Path, field: Array, part: Any) -> None:
    stored(tmp_path / "a.zarr", field, exact=True)
    found = numpy.asarray(zarr.open_array(tmp_path / "a.zarr", mode="r").oindex[part])
    assert numpy.array_equal(found, field[part])


def test_a_part_takes_the_bytes_that_it_needs(tmp_path: Path, field: Array) -> None:
    large = numpy.tile(field, (1, 4, 4))
    codec = RefactoredCodec()
    zarr.create_array(tmp_path / "a.zarr", data=large, chunks=large.shape, serializer=codec, compressors=None)
    read = []
    for part in (slice(None), slice(0, 20)):
        store = Counted(tmp_path / "a.zarr", read_only=True)
        array = zarr.open_array(store, mode="r")
        store.read_bytes = 0
        array[:, part, part]
        read.append(store.read_bytes)
    assert read[1] < read[0] / 3


def test_a_damaged_chunk_lowers_the_accuracy_with_a_warning(tmp_path: Path, field: Array) -> None:
    stored(tmp_path / "a.zarr", field, exact=True)
    chunk = tmp_path / "a.zarr" / "c" / "0" / "0" / "0"
    data = bytearray(chunk.read_bytes())
    data[len(data) // 2] ^= 0xFF
    chunk.write_bytes(data)
    with pytest.warns(adaptive.AdaptiveWarning, match="is damaged"):
        found = numpy.asarray(zarr.open_array(tmp_path / "a.zarr", mode="r")[...])
    assert numpy.array_equal(found[:, 48:], field[:, 48:])


@pytest.mark.parametrize("exact", [False, True])
def test_one_value_without_an_axis_is_stored(tmp_path: Path, exact: bool) -> None:
    """A container has an axis, and Zarr could not put an array of one axis into a value."""
    serializer = RefactoredCodec(exact=exact)
    made: zarr.Array[Any] = zarr.create_array(
        tmp_path / "a", shape=(), dtype="float32", serializer=serializer, compressors=None, filters=None
    )
    made[...] = 3.5
    for selection in ((), ...):
        assert numpy.asarray(zarr.open_array(tmp_path / "a")[selection]) == 3.5


def test_settings_of_another_version_are_refused() -> None:
    for wrong in ({"name": "bytes"}, {"name": NAME, "configuration": {"tolerance": 1.0, "wish": 3}}):
        with pytest.raises(ValueError, match=r"no configuration of the codec weir\.refactored"):
            RefactoredCodec.from_dict(wrong)
    codec = RefactoredCodec(tolerance=0.5)
    assert RefactoredCodec.from_dict(codec.to_dict()) == codec


@pytest.mark.parametrize("kind", ["hdf5", "zarr"])
def test_a_chunk_of_a_group_that_is_gone_is_told(tmp_path: Path, field: Array, kind: str) -> None:
    container = _core.refactor(field, chunk_bytes=1 << 14)
    form: Any = hdf5 if kind == "hdf5" else groups
    opened: Any = h5py.File(tmp_path / "a", "w") if kind == "hdf5" else nullcontext(zarr.open_group(tmp_path / "a"))
    with opened as parent:
        form.save(parent, "field", container)
        whole = form.load(parent, "field")
        assert whole.damaged == []
        with pytest.raises(ValueError, match="-1 chunks cannot be read"):
            form.load(parent, "field", chunks=-1)
        del parent["field"]["chunk_0002"]
        lost = form.load(parent, "field")
    assert lost.damaged == ["chunk_0002 is gone"]
    assert lost.max_error > whole.max_error
    assert numpy.abs(lost.data - field).max() <= lost.max_error
