"""Fill values: masked cells come back exactly, whatever marks them, and no error counts them."""

from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import zarr
from masked import KINDS, faults_of_prefixes, faults_of_readers, faults_of_zarr, masked_array
from scipy.io import netcdf_file
from seeds import seed
from weir import _core, adaptive
from weir.adaptive.array import restore
from weir.adaptive.encoding import Encoding, with_fills
from weir.adaptive.fills import fills_of, stated_in
from weir.adaptive.zarr_codec import NAME, RefactoredCodec
from weir.cli.adapt.arrays import Source, arrays_of
from zarr.registry import register_codec

FIELD = Path(__file__).resolve().parents[1] / "data" / "fields" / "echam_t_17x96x192.npy"
register_codec(NAME, RefactoredCodec)


@pytest.mark.parametrize("kind", KINDS)
def test_masked_cells_come_back_exactly_from_any_prefix(kind: str) -> None:
    random = np.random.default_rng(seed())
    for number in range(100):
        case = masked_array(random, kinds=(kind,))
        faults = [fault for found in faults_of_prefixes(case, random) for fault in found]
        assert faults == [], (number, case)


def test_masked_cells_come_back_exactly_in_every_way_of_reading(tmp_path: Path) -> None:
    random = np.random.default_rng(seed())
    for number in range(20):
        case = masked_array(random)
        faults = [fault for found in faults_of_readers(case, tmp_path / f"{number}") for fault in found]
        faults += [fault for found in faults_of_zarr(case, tmp_path / f"{number}.zarr") for fault in found]
        assert faults == [], (number, case)


@pytest.mark.parametrize("fill", [-9999.0, -999.0, -32768.0, 1e20, np.nan, 0.0, 280.0])
def test_a_real_field_with_a_mask_is_stored_as_accurately_as_with_nan(tmp_path: Path, fill: float) -> None:
    """With -9999 cells came back as data of -9999.001, and a PSNR of 50 left 1.67 K for 0.29 K."""
    field = np.load(FIELD)[0]
    mask = np.random.default_rng(1).random(field.shape) < 0.3
    errors = []
    for number, mark in enumerate((fill, np.nan)):
        values = np.where(mask, np.float32(mark), field)
        adaptive.write(tmp_path / f"{number}", [values], fill=mark)
        with adaptive.open(tmp_path / f"{number}", accuracy=adaptive.Accuracy(psnr=50)) as reader:
            step = reader.step(0)
        assert step.data[mask].tobytes() == values[mask].tobytes()
        assert np.abs(step.data - field)[~mask].max() <= step.max_error
        errors.append(step.max_error)
        assert step.fill == pytest.approx((np.float32(mark),), nan_ok=True)
    assert errors[0] == pytest.approx(errors[1], rel=0.1)


def test_what_is_stated_beats_the_guess() -> None:
    """Where fill values are stated, values of any magnitude are data within the tolerance, and count in the errors."""
    values = np.random.default_rng(2).normal(280, 5, (60, 60)).astype("f4")
    values[:9] = 1e20
    guessed, stated = _core.refactor(values), _core.refactor(values, fill=np.array([-9999], "f4"))
    assert _core.Refactored(guessed).range[1] < 400
    assert _core.Refactored(stated).range[1] == np.float32(1e20)
    assert _core.Refactored(guessed).fill == []
    assert _core.Refactored(stated).fill == [-9999.0]


def test_no_error_of_integers_is_below_one() -> None:
    """A tolerance below 1 took 2.2 times the bytes of no option."""
    values = np.load(FIELD)[0].astype("i4")
    exact = _core.refactor(values)
    assert np.array_equal(restore(exact).data, values)
    for tolerance in (0.99, 0.5, 1e-6):
        found = _core.refactor(values, tolerance=tolerance)
        assert np.array_equal(restore(found).data, values)
        assert len(found) == len(exact)


def test_masks_of_numpy_become_the_fill_value(tmp_path: Path) -> None:
    mask = [[True, False, False], [False, False, True]]
    whole = np.ma.masked_array([[1, 2, 3], [4, 5, 6]], mask=mask, dtype="i2")
    with adaptive.Writer(tmp_path / "whole", exact=True, fill=-9) as writer:
        writer.write(whole)
    assert adaptive.open(tmp_path / "whole").step(0).data.tolist() == [[-9, 2, 3], [4, 5, -9]]
    with adaptive.Writer(tmp_path / "none") as writer, pytest.raises(adaptive.StepError, match="state the fill value"):
        writer.write(whole)
    with adaptive.Writer(tmp_path / "nan") as writer:
        writer.write(whole.astype("f4"))
    assert np.isnan(adaptive.open(tmp_path / "nan").step(0).data).tolist() == mask


def test_attributes_state_fill_values(tmp_path: Path) -> None:
    values = np.random.default_rng(3).normal(280, 5, (3, 40, 40)).astype("f4")
    values[:, :9] = -999
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["t"] = values
        file["t"].attrs["_FillValue"] = np.array([-999], "f4")
        file["t"].attrs["missing_value"] = -999.0
        adaptive.write(tmp_path / "fast", file["t"], tolerance=0.01)
    for step in adaptive.open(tmp_path / "fast"):
        assert step.fill == (-999.0,)
        assert (step.data[:9] == -999).all()
    # Both zeros, NaN as JSON spells it, and a double as xarray does.
    attributes = {"_FillValue": "AAAAAAAA+H8=", "missing_value": [-999, "NaN"]}
    assert fills_of(stated_in(attributes), np.dtype("f4"), lenient=True).tolist() == pytest.approx(
        [np.nan, -999.0], nan_ok=True
    )
    with pytest.raises(ValueError, match="no value of uint8"):
        fills_of(-9999, np.dtype("u1"))


def test_the_array_of_zarr_states_its_fill_value(tmp_path: Path) -> None:
    values = np.random.default_rng(4).normal(280, 5, (40, 40)).astype("f4")
    values[:9] = -9999
    made = zarr.create_array(
        tmp_path / "a", shape=values.shape, chunks=(20, 20), dtype="f4", fill_value=-9999.0, compressors=None,
        filters=None, serializer=RefactoredCodec(tolerance=0.01),
    )  # fmt: skip
    made[...] = values
    assert (np.asarray(zarr.open_array(tmp_path / "a")[:9]) == -9999).all()
    stated = RefactoredCodec(tolerance=0.01, fill=(np.nan, -9999))
    again = RefactoredCodec.from_dict(stated.to_dict())
    assert again.to_dict() == stated.to_dict()
    assert [stored_fill(field) for field in read(tmp_path / "a")] == [[-9999.0]]


def stored_fill(field: Any) -> list[Any]:
    """The fill values that the attributes of an array in a file state."""
    found: list[Any] = Encoding(field.values.dtype, field.attributes).fills.tolist()
    return found


def read(path: Path, dataset: str | None = None, **options: Any) -> list[Any]:
    found = {"dtype": None, "shape": None, "stacked": False, **options}
    return list(arrays_of([Source(path, dataset)], dataset=None, **found))


PACKED = np.array([[3, 12, 15], [-32768, 0, -32768]], dtype="i2")
UNITS = np.array([[280.03, 280.12, 280.15], [np.nan, 280.0, np.nan]])


@pytest.mark.parametrize("kind", ["hdf5", "classic", "zarr"])
def test_packed_variables_are_in_their_units(tmp_path: Path, kind: str) -> None:
    """`weir adapt refactor c.nc:T` stored 3, 12 and 15 for 280.03 K."""
    attributes: dict[str, Any] = {"scale_factor": 0.01, "add_offset": 280.0, "_FillValue": np.int16(-32768)}
    path = tmp_path / "c.nc"
    if kind == "hdf5":
        with h5py.File(path, "w") as file:
            file["T"] = PACKED
            file["T"].attrs.update(attributes)
    elif kind == "classic":
        with netcdf_file(path, "w") as old:
            for axis, length in zip("yx", PACKED.shape, strict=True):
                old.createDimension(axis, length)
            variable = old.createVariable("T", "i2", ("y", "x"))
            variable[:] = PACKED
            for name, value in attributes.items():
                setattr(variable, name, value)
    else:
        node = zarr.open_group(path, mode="w").create_array("T", data=PACKED)
        node.attrs.update({**attributes, "_FillValue": -32768})
    (field,) = read(path, "T")
    assert field.values.dtype == np.int16
    with adaptive.Writer(tmp_path / "fast", tolerance=0.015) as writer:
        writer.write(field.values, attributes=field.attributes)
    step = adaptive.open(tmp_path / "fast").step(0)
    # scipy writes attributes as single floats.
    assert step.data.dtype == (np.float32 if kind == "classic" else np.float64)
    np.testing.assert_allclose(step.data, UNITS, atol=0.015)
    assert step.max_error <= 0.015
    packed = adaptive.open(tmp_path / "fast", unpack=False).step(0).data
    assert packed.dtype == np.int16
    assert (packed == -32768).tolist() == (PACKED == -32768).tolist()
    stacked = read(path, "T", stacked=True)
    assert [step.values.shape for step in stacked] == [(3,), (3,)]


def units(stored: Any, attributes: dict[str, Any]) -> Any:
    encoding = Encoding(stored.dtype, attributes)
    return encoding.in_units(encoding.counted(stored))


def test_packed_values_follow_the_conventions() -> None:
    stored = np.array([-1, 2, 3], dtype="i1")
    unsigned = Encoding(stored.dtype, {"_Unsigned": b"true", "_FillValue": np.int8(-1)})
    assert unsigned.counted(stored).tolist() == [255, 2, 3]
    assert unsigned.fills.tolist() == [255]
    assert unsigned.stored(unsigned.counted(stored)).tolist() == stored.tolist()
    single = units(stored, {"scale_factor": np.float32(0.5), "missing_value": [2, 3]})
    assert single.dtype == np.float32
    assert single.tolist()[0] == -0.5
    assert np.isnan(single[1:]).all()
    assert units(stored, {"scale_factor": np.int32(2)}).dtype == np.float64
    ranged = Encoding(stored.dtype, {"valid_range": np.array([0, 2], "i1")})
    assert ranged.missing(stored).tolist() == [True, False, True]
    assert ranged.settled(np.array([-1, 3, 3], "i1"), np.array([-1])).tolist() == [-1, 2, 2]
    assert not Encoding(stored.dtype, {}).is_stated
    # The attribute of another type is no value of this one.
    assert not Encoding(stored.dtype, {"missing_value": 1e20}).is_stated
    assert with_fills({"missing_value": np.int8(2)}, stored.dtype, (3,))["missing_value"].tolist() == [2, 3]
    for attributes, given in (({"scale_factor": "two"}, ()), ({}, (1000,))):
        with pytest.raises(ValueError, match=r"no number|no value"):
            Encoding(stored.dtype, with_fills(attributes, stored.dtype, given))
