"""Files that follow CF through every door: names, packing, units and missing cells hold, and values within errors."""

import shutil
from pathlib import Path

import pytest

pytest.importorskip("iris_sample_data")

from cf_doors import DOORS, by_command, command, ncdump
from cf_samples import MAKERS, PUBLISHED, Sample, made, published, tolerances
from weir.adaptive import AdaptiveWarning

LARGE = ("A1B_north_america", "E1_north_america", "ostia_monthly", "space_weather")
"""Files of many steps, or many values."""
QUICK = [("command", "packed"), ("xarray", "ensemble"), ("hdf5", "packed"), ("zarr codec", "fills")]
"""The hardest cases of each door, which run in `make check`."""
CASES = [
    pytest.param(door, name, marks=() if (door, name) in QUICK else pytest.mark.slow, id=f"{door}-{name}")
    for door in DOORS
    for name in (*PUBLISHED, *MAKERS)
    if door == "command" or name not in LARGE
]


@pytest.fixture(scope="module")
def samples(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Sample]:
    return {each.name: each for each in (*published(), *made(tmp_path_factory.mktemp("made")))}


def test_the_set_is_as_large_as_promised(samples: dict[str, Sample]) -> None:
    assert len(samples) >= 12
    assert all(each.path.stat().st_size for each in samples.values())


@pytest.mark.parametrize(("door", "name"), CASES)
@pytest.mark.filterwarnings("ignore::weir.adaptive.AdaptiveWarning")
def test_a_file_comes_through_a_door(door: str, name: str, samples: dict[str, Sample], tmp_path: Path) -> None:
    path = samples[name].path
    assert DOORS[door](path, tmp_path, tolerances(path)) == []


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name == "packed" else pytest.mark.slow)
        for name in (*PUBLISHED, *MAKERS)
        if name not in LARGE
    ],
)
@pytest.mark.filterwarnings("ignore::weir.adaptive.AdaptiveWarning")
def test_without_a_tolerance_ncdump_prints_the_same(name: str, samples: dict[str, Sample], tmp_path: Path) -> None:
    path = samples[name].path
    assert by_command(path, tmp_path, {}) == []
    if shutil.which("ncdump") is None:
        pytest.skip("ncdump is not installed")
    assert ncdump(tmp_path / "back.nc") == ncdump(path)


def test_files_of_one_series_are_steps_of_one_stream(samples: dict[str, Sample], tmp_path: Path) -> None:
    """Two files along time are one stream; a file with another grid is refused, and named."""
    import netCDF4

    path = samples["time_last"].path
    command("refactor", path, "--tier", tmp_path / "fast")
    with netCDF4.Dataset(path) as file, netCDF4.Dataset(tmp_path / "later.nc", "w") as later:
        for name, dimension in file.dimensions.items():
            later.createDimension(name, None if dimension.isunlimited() else len(dimension))
        for name, variable in file.variables.items():
            copied = later.createVariable(name, variable.dtype, variable.dimensions)
            copied.setncatts({key: variable.getncattr(key) for key in variable.ncattrs()})
            copied[...] = variable[...] + (150 if name.startswith("time") else 0)
    command("refactor", tmp_path / "later.nc", "--tier", tmp_path / "fast", "--append")
    command("reconstruct", tmp_path / "fast", "--to", tmp_path / "both.nc")
    with netCDF4.Dataset(tmp_path / "both.nc") as both, netCDF4.Dataset(path) as file:
        assert both["t"].shape == (*file["t"].shape[:2], 10)
        assert both["time"][5:].tolist() == (file["time"][:] + 150).tolist()
        assert (both["t"][..., 5:] == file["t"][...]).all()
    from weir.adaptive import AdaptiveError

    with pytest.raises(AdaptiveError, match=r"which the stream has|has the dimensions"):
        command("refactor", samples["packed"].path, "--tier", tmp_path / "fast", "--append")


def test_five_axes_are_told_once(samples: dict[str, Sample], tmp_path: Path) -> None:
    path = samples["five_axes"].path
    with pytest.warns(AdaptiveWarning, match="6 axes, of which the first 3 are one") as caught:
        assert DOORS["xarray"](path, tmp_path, tolerances(path)) == []
    assert sum("axes" in str(each.message) for each in caught) == 1
