"""`weir adapt`: from arrays in files to a stream, and back."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import h5netcdf
import h5py
import numpy
import pytest
import zarr
from scipy.io import netcdf_file
from waits import PATIENCE_SECONDS
from weir.adaptive import AdaptiveError
from weir.adaptive.step_files import format_of

FIELD = Path(__file__).resolve().parents[1] / "data" / "fields" / "echam_t_17x96x192.npy"


def adapt(*arguments: object, code: int = 0) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "weir.cli", "adapt", *map(str, arguments)]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False)
    assert answer.returncode == code, answer.stdout + answer.stderr
    return answer


def document(*arguments: object) -> Any:
    return json.loads(adapt(*arguments, "--output", "json").stdout)


def refactored(tmp_path: Path, *inputs: object) -> list[Path]:
    tiers = [tmp_path / "fast", tmp_path / "shared"]
    adapt("refactor", *inputs, "--tier", tiers[0], "--tier", f"augmentation={tiers[1]}", "--chunk", "64k")
    return tiers


def test_there_and_back(tmp_path: Path) -> None:
    field = numpy.load(FIELD)
    tiers = refactored(tmp_path, FIELD, FIELD)
    steps = document("info", tiers[0])
    assert [step["step"] for step in steps] == [0, 1]
    assert steps[0]["shape"] == [17, 96, 192]
    assert sum(steps[0]["tier_bytes"]) == steps[0]["total_bytes"]

    table = document("info", tiers[0], "--step", 1)
    assert table[0]["bytes"] == steps[1]["base_bytes"]
    assert table[-1]["bytes"] == steps[1]["total_bytes"]
    assert [line["rmse"] for line in table] == sorted((line["rmse"] for line in table), reverse=True)

    target = tmp_path / "back.npy"
    answer = document("reconstruct", *tiers, "--step", 1, "--to", target, "--max-error", 0.1)
    assert answer["max_error"] <= 0.1
    assert numpy.abs(numpy.load(target).astype(float) - field).max() <= answer["max_error"]
    answer = document("reconstruct", *tiers, "--step", 0, "--to", target, "--base-only", "--region", "0:2,:,-5:")
    assert answer["augmentation"] == 0.0
    assert numpy.load(target).shape == (2, 96, 5)


@pytest.mark.slow
def test_what_a_replay_costs(tmp_path: Path) -> None:
    tiers = refactored(tmp_path, FIELD, FIELD, FIELD)
    answer = document("steps", *tiers)
    assert [step["augmentation"] for step in answer["steps"]] == [1.0, 1.0, 1.0]
    assert answer["summary"]["steps"] == 3
    assert answer["summary"]["seconds_variance"] >= 0.0
    assert document("steps", *tiers, "--policy", "isolation")["summary"]["augmentation_mean"] == 0.0
    plot = ("--policy", "plot", "--low", "1000TB/s", "--high", "2000TB/s", "--warm-up", 1)
    dft = ("--forecaster", "paper-dft", "--threshold", 0.75)
    answer = document("steps", *tiers, *plot, *dft, "--steps", 2, "--period", 2)
    assert [step["augmentation"] for step in answer["steps"]] == [1.0, 0.0]
    answer = document("steps", *tiers, "--policy", "budget", "--seconds", 60, "--prefetch")
    assert answer["summary"]["late"] == 0
    assert "variance" in adapt("steps", *tiers).stdout


def test_other_files(tmp_path: Path) -> None:
    field = numpy.load(FIELD)
    raw, deep, stacked = tmp_path / "a.bin", tmp_path / "a.h5", tmp_path / "a.npy"
    field.tofile(raw)
    with h5py.File(deep, "w") as file:
        file["run/temperature"] = field
    numpy.save(stacked, numpy.stack([field, field]))
    fast = tmp_path / "fast"
    adapt("refactor", raw, "--dtype", "float32", "--shape", "17x96x192", "--tier", fast)
    adapt("refactor", deep, "--dataset", "run/temperature", "--tier", fast, "--append")
    adapt("refactor", stacked, "--stacked", "--tier", fast, "--append", "--threads", 2)
    steps = document("info", fast)
    assert len(steps) == 4
    assert len({json.dumps({**step, "step": 0}) for step in steps}) == 1


@pytest.mark.slow
def test_what_a_scientist_has(tmp_path: Path) -> None:
    field = numpy.load(FIELD)
    numpy.savez(tmp_path / "a.npz", temperature=field)
    with h5py.File(tmp_path / "one.h5", "w") as file:
        file["run/temperature"] = field
    with h5py.File(tmp_path / "two.nc", "w") as file:
        file["temperature"], file["time"] = field, [1.0]
    with netcdf_file(tmp_path / "old.nc", "w") as old:
        for axis, length in zip("zyx", field.shape, strict=True):
            old.createDimension(axis, length)
        old.createVariable("temperature", "f4", ("z", "y", "x"))[:] = field
    zarr.create_array(tmp_path / "array.zarr", data=field)
    zarr.open_group(tmp_path / "group.zarr", mode="w").create_array("run/temperature", data=field)
    names = "a.npz one.h5 one.h5:run/temperature two.nc:temperature old.nc array.zarr group.zarr:run/temperature"
    adapt("refactor", *(tmp_path / name for name in names.split()), "--tier", tmp_path / "fast", "--exact")
    steps = document("info", tmp_path / "fast")
    assert len(steps) == len(names.split())
    for step in steps:
        adapt("reconstruct", tmp_path / "fast", "--step", step["step"], "--to", tmp_path / "back.npy")
        assert numpy.array_equal(numpy.load(tmp_path / "back.npy"), field)

    for name, words in {
        "two.nc:pressure": "there is no dataset pressure; it has temperature, time",
        "group.zarr:run": "there is no dataset run; it has run/temperature",
    }.items():
        assert words in adapt("refactor", tmp_path / name, "--tier", tmp_path / "x", code=1).stderr
    absent = adapt("refactor", tmp_path / "none.h5:temperature", "--tier", tmp_path / "x", code=2)
    assert "there is no file" in absent.stderr


@pytest.mark.slow
def test_values_on_a_mesh(tmp_path: Path) -> None:
    coordinates = numpy.random.default_rng(5).uniform(size=(300, 2))
    field = numpy.sin(coordinates.sum(axis=1)).astype("f4")
    numpy.save(tmp_path / "field.npy", field)
    numpy.save(tmp_path / "cells.npy", numpy.stack([numpy.arange(299), numpy.arange(1, 300)], axis=1))
    numpy.savez(tmp_path / "mesh.npz", coordinates=coordinates, cells=numpy.load(tmp_path / "cells.npy"))
    for number, name in enumerate(("cells.npy", "mesh.npz", "mesh.npz:cells")):
        fast = tmp_path / f"fast{number}"
        adapt("refactor", tmp_path / "field.npy", "--mesh", tmp_path / name, "--tier", fast, "--exact")
        answer = adapt("info", fast)
        assert "float32 of 300 nodes" in answer.stdout
        assert "on a mesh of 300 nodes" in answer.stderr
        assert document("info", fast)[0]["nodes"] == 300
        adapt("reconstruct", fast, "--step", 0, "--to", tmp_path / "back.npy")
        assert numpy.array_equal(numpy.load(tmp_path / "back.npy"), field)


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["info", "{}/nothing"], 1, "there is no stream"),
        (["refactor", "{}/text.npy", "--tier", "{}/fast"], 1, "holds no array"),
        (["refactor", "{}/text", "--tier", "{}/fast"], 1, "--dtype and --shape"),
        (["refactor", "{}/text.npy"], 2, "--tier"),
        (["refactor", "{}/text.npy", "--tier", "x", "--chunk", "many"], 2, "is not a size"),
        (["refactor", "{}/text.npy", "--tier", "isolatoin=/fast"], 2, "did you mean isolation=/fast?"),
        (["refactor", "{}/text.npy", "--tier", "foo=x2"], 2, "there is no zone `foo`"),
        (["steps", "{}", "--policy", "plot"], 2, "--low and --high"),
        (["steps", "{}", "--policy", "budget", "--seconds", "1", "--variance", "1"], 2, "either --seconds"),
        (["reconstruct", "{}", "--step", "0", "--to", "{}/x.npy", "--rmse", "1", "--psnr", "1"], 2, "give one of"),
        (["reconstruct", "{}", "--step", "0", "--to", "{}/x.npy", "--region", "3"], 2, "is no region"),
        (["reconstruct", "{}", "--step", "0", "--to", "{}/no/x.npy"], 1, "there is no folder"),
        (["reconstruct", "{}", "--step", "0", "--to", "{}/x.dat"], 1, "let it end with .npy, .nc or .nc4"),
        (["steps", "{}", "--policy", "isolation", "--low", "3M"], 2, "--low is of --policy plot"),
        (["steps", "{}", "--forecaster", "mean", "--threshold", "0.5"], 2, "--threshold is of --forecaster paper-dft"),
    ],
)
def test_what_is_wrong_is_one_line_and_a_hint(tmp_path: Path, arguments: list[str], code: int, words: str) -> None:
    (tmp_path / "text.npy").write_text("no array")
    (tmp_path / "text").write_text("no array")
    answer = adapt(*(argument.replace("{}", str(tmp_path)) for argument in arguments), code=code)
    assert answer.stdout == ""
    first, second = answer.stderr.splitlines()
    assert first.startswith("error: ")
    assert words in first + second
    assert second.startswith("hint: ")


def test_what_was_written_before_a_failure_is_told(tmp_path: Path) -> None:
    damaged = tmp_path / "damaged.npy"
    damaged.write_bytes(FIELD.read_bytes()[:1000])
    words = ["refactor", FIELD, FIELD, damaged, "--tier", tmp_path / "fast", "--output", "json"]
    answer = adapt(*words, code=1)
    assert [step["step"] for step in json.loads(answer.stdout)] == [0, 1]
    assert str(damaged) in answer.stderr


def test_a_replay_gives_a_line_a_step_and_counts_what_had_no_base(tmp_path: Path) -> None:
    tiers = refactored(tmp_path, FIELD, FIELD)
    lines = adapt("steps", *tiers, "--output", "ndjson").stdout.splitlines()
    assert [json.loads(line).get("step") for line in lines] == [0, 1, None]
    assert json.loads(lines[-1])["summary"]["missed"] == 0
    answer = adapt("steps", *tiers, "--deadline", "1e-9", code=1)
    assert "none of 2 steps had its base in time" in answer.stderr


def test_an_accuracy_that_the_base_alone_has_not_is_told(tmp_path: Path) -> None:
    tiers = refactored(tmp_path, FIELD)
    words = ["reconstruct", *tiers, "--step", 0, "--to", tmp_path / "x.npy"]
    told = "warning: the tiers that may be read are not as accurate as requested"
    assert told in adapt(*words, "--base-only", "--psnr", 60).stderr
    for enough in (["--base-only", "--psnr", 1], ["--psnr", 60], ["--base-only"], ["--base-only", "--bytes", "1"]):
        assert adapt(*words, *enough).stderr == ""


def test_a_step_that_is_gone_is_named(tmp_path: Path) -> None:
    tiers = refactored(tmp_path, FIELD)
    answer = adapt("reconstruct", *tiers, "--step", 7, "--to", tmp_path / "x.npy", code=1)
    assert "step 7" in answer.stderr
    (part,) = tiers[1].glob("00000000.1.*.weir")
    part.unlink()
    answer = adapt("reconstruct", *tiers, "--step", 0, "--to", tmp_path / "x.npy")
    assert "warning: step 0" in answer.stderr
    assert str(part) in answer.stderr


def test_a_packed_variable_goes_to_netcdf_and_back(tmp_path: Path) -> None:
    """`--to x.nc` wrote a file of numpy under that name, and a packed variable came back without its packing."""
    packed = numpy.array([[3, 12, 15], [-32768, 0, 7]] * 400, dtype="i2")
    plain = numpy.array([[280.03, -9999, 280.5]] * 800, dtype="f4")
    scale = {"scale_factor": 0.01, "add_offset": 280.0}
    with h5py.File(tmp_path / "c.nc", "w") as file:
        file["T"], file["U"] = packed, plain
        file["T"].attrs.update({**scale, "_FillValue": numpy.int16(-32768), "units": "K"})
        file["U"].attrs["_FillValue"] = numpy.float32(-9999)
    for name, wanted in (("T", packed), ("U", plain)):
        adapt("refactor", f"{tmp_path / 'c.nc'}:{name}", "--tier", tmp_path / name, "--tolerance", 0.02)
        (told,) = document("reconstruct", tmp_path / name, "--step", 0, "--to", tmp_path / f"{name}.nc")
        with h5netcdf.File(tmp_path / f"{name}.nc", "r") as back:
            found, attributes = back[name][...], dict(back[name].attrs)
        assert (found.dtype, attributes["weir_max_error"]) == (wanted.dtype, told["max_error"])
        missing = wanted < -999
        assert (found < -999).tolist() == missing.tolist()
        factor = 0.01 if name == "T" else 1.0
        distance = numpy.abs(found.astype("f8") - wanted)[~missing].max() * factor
        assert distance <= told["max_error"] <= 0.02
        adapt("reconstruct", tmp_path / name, "--step", 0, "--to", tmp_path / f"{name}.npy")
        units = numpy.load(tmp_path / f"{name}.npy")
        assert units.dtype == (numpy.float64 if name == "T" else numpy.float32)
        assert abs(units[0, 0] - 280.03) <= 0.02
    assert attributes.keys() == {"_FillValue", "weir_max_error", "weir_rmse"}


def test_all_variables_of_a_file_are_one_stream(tmp_path: Path) -> None:
    """A file of two variables was refused: it did not say which one."""
    field = numpy.load(FIELD)[:4, :40, :60]
    with h5netcdf.File(tmp_path / "run.nc", "w") as file:
        file.dimensions = {"time": 4, "lat": 40, "lon": 60}
        times = file.create_variable("time", ("time",), "f8", data=numpy.arange(4.0))
        times.attrs["units"] = "hours since 2001-01-01"
        for name in ("t", "u"):
            file.create_variable(name, ("time", "lat", "lon"), "f4", data=field)
            file[name].attrs["units"] = "K"
    tiers = ("--tier", tmp_path / "fast", "--tier", tmp_path / "shared")
    held = document("refactor", tmp_path / "run.nc", *tiers, "--tolerance", "t=0.1")
    assert [(each["variable"], each["kind"], each["tolerance"]) for each in held] == [
        ("time", "record", 0.0), ("t", "stream", 0.1), ("u", "stream", 0.0)
    ]  # fmt: skip
    assert held == document("info", tmp_path / "fast")
    assert len(document("info", tmp_path / "fast" / "t")) == 4
    refused = adapt("refactor", tmp_path / "run.nc", *tiers, code=1).stderr
    assert "holds a stream already" in refused
    assert "overwrite" in refused
    adapt("refactor", tmp_path / "run.nc", *tiers, "--tolerance", "0.1", "--overwrite")
    answer = document("reconstruct", tmp_path / "fast", "--step", 3, "--to", tmp_path / "x.nc", "--max-error", 0.5)
    assert {each["variable"] for each in answer} == {"t", "u"}
    cut = ("--region", "10:20:2,...", "--variable", "u")
    adapt("reconstruct", tmp_path / "fast", "--to", tmp_path / "part.nc", *cut)
    with h5netcdf.File(tmp_path / "part.nc", "r") as part:
        assert set(part.variables) == {"time", "u"}
        assert part["u"].shape == (4, 5, 60)
        assert numpy.abs(part["u"][...] - field[:, 10:20:2]).max() <= part["u"].attrs["weir_max_error"] <= 0.1
    adapt("reconstruct", tmp_path / "fast", "--step", 3, "--to", tmp_path / "u.npy", "--variable", "u")
    assert numpy.abs(numpy.load(tmp_path / "u.npy") - field[3]).max() <= 0.1
    assert "has one variable" in adapt(
        "reconstruct", tmp_path / "fast", "--step", 3, "--to", tmp_path / "y.npy", code=1
    ).stderr  # fmt: skip
    assert "its variables" in adapt("steps", tmp_path / "fast", code=1).stderr
    assert "no dimension `depth`" in adapt(
        "refactor", tmp_path / "run.nc", "--tier", tmp_path / "z", "--along", "depth", code=1
    ).stderr  # fmt: skip


def test_without_the_package_no_other_format_takes_the_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "h5netcdf", None)
    with pytest.raises(AdaptiveError, match="cannot be written: import of h5netcdf") as refused:
        format_of(tmp_path / "x.nc")
    assert "pip install" in refused.value.hint
