"""The engine `weir` of xarray and the accessor `Dataset.weir`."""

import pickle
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import weir.adaptive.xarray as weir_xarray
import xarray
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from weir import adaptive
from weir.adaptive.named import DatasetReader
from weir.adaptive.xarray import StreamWriter

SIZES = {"time": 4, "lat": 40, "lon": 60}


def dataset(times: int = 4, *, begin: str = "2001-01-15") -> xarray.Dataset:
    random = np.random.default_rng(7)
    shape = (times, 40, 60)
    smooth = 280 + np.cumsum(random.normal(0, 0.2, shape), axis=-1)
    wet = np.where(random.random(shape) < 0.2, np.nan, smooth).astype("f4")
    return xarray.Dataset(
        {
            "t": (("time", "lat", "lon"), smooth, {"units": "K", "standard_name": "air_temperature"}),
            "q": (("time", "lat", "lon"), wet, {"units": "1"}),
            "land": (("lat", "lon"), random.random((40, 60)) > 0.5),
            "count": (("time", "lat", "lon"), random.integers(0, 99, shape).astype("i4")),
        },
        coords={
            "time": xarray.date_range(begin, periods=times, freq="6h", unit="ns"),
            "lat": ("lat", np.linspace(-80, 80, 40), {"units": "degrees_north"}),
            "lon": ("lon", np.arange(60.0), {"units": "degrees_east"}),
            "area": (("lat", "lon"), random.random((40, 60))),
        },
        attrs={"title": "made", "Conventions": "CF-1.11"},
    )


def tiers(folder: Path) -> list[Path]:
    return [folder / "fast", folder / "shared"]


def opened(folder: Path, **options: Any) -> xarray.Dataset:
    return xarray.open_dataset(folder / "fast", engine="weir", **options)


def test_there_and_back(tmp_path: Path) -> None:
    one = dataset()
    assert one.weir.write(tiers(tmp_path), tolerance={"t": 0.05, "q": 0.01}) == 4
    with opened(tmp_path) as back:
        assert back.attrs == one.attrs
        assert dict(back.sizes) == SIZES
        for name in one.variables:
            if name not in ("t", "q"):
                assert back[name].equals(one[name]), name
        assert back.weir.max_errors == {"t": 0.05, "q": 0.01, "land": 0.0, "count": 0.0}
        assert 0 < float(abs(back.t - one.t).max()) <= 0.05
        assert 0 < float(abs(back.q - one.q).max()) <= 0.01
        assert np.array_equal(np.isnan(back.q), np.isnan(one.q))
        assert {name: value for name, value in back.t.attrs.items() if name != "weir_max_error"} == one.t.attrs
        # What was read is written again without the old errors.
        back.weir.write(tmp_path / "again")
        assert xarray.open_dataset(tmp_path / "again", engine="weir").t.attrs["weir_max_error"] == 0.0


def test_by_default_every_bit_is_kept_and_the_engine_is_found(tmp_path: Path) -> None:
    one = dataset()
    one.weir.write(tiers(tmp_path))
    with xarray.open_dataset(tmp_path / "fast") as back:
        for name in one.variables:
            assert back[name].equals(one[name]), name


@given(key=st.tuples(*(st.one_of(st.integers(0, length - 1), st.slices(length)) for length in SIZES.values())))
@settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_part_is_the_part(written: Path, key: tuple[int | slice, ...]) -> None:
    with opened(written) as back:
        assert np.array_equal(back["count"][key].values, dataset()["count"][key].values)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder: Path = tmp_path_factory.mktemp("written")
    dataset().weir.write(tiers(folder))
    return folder


def test_nothing_is_read_before_it_is_used(written: Path) -> None:
    """A part of the shared tier that is gone is missed by who reads it alone."""
    with opened(written) as back:
        assert back.t.shape == (4, 40, 60)
        assert not back.t.variable._in_memory
        assert back.t.encoding["preferred_chunks"] == {"time": 1}


def test_chunks_are_read_by_dask_and_in_other_processes(written: Path) -> None:
    pytest.importorskip("dask.array")
    with opened(written, chunks={}) as back:
        assert back.t.chunks is not None
        assert back.t.chunks[0] == (1, 1, 1, 1)
        part = {"lat": slice(None, None, -3)}
        assert np.array_equal(back.t.isel(part).compute(), dataset().t.isel(part))
    with opened(written) as back:
        again = pickle.loads(pickle.dumps(back))
        assert again["count"].equals(dataset()["count"])


def test_a_step_that_is_still_being_written_is_not_shown(tmp_path: Path) -> None:
    one = dataset()
    writer = StreamWriter(tiers(tmp_path), along="time")
    writer.write(one.isel(time=slice(0, 2)))
    (record,) = (tmp_path / "fast").glob("dataset.00000001.*.npz")
    with opened(tmp_path) as back:
        assert back.time.equals(one.time[:2])
        assert back.t.equals(one.t[:2])
    record.unlink()
    with opened(tmp_path) as back:
        assert back.sizes["time"] == 1
    one.isel(time=slice(1, 4)).weir.write(tiers(tmp_path), append=True)
    with opened(tmp_path) as back:
        assert back.time.equals(one.time)
        assert back.t.equals(one.t)


def test_a_stream_goes_on_with_the_times_it_was_begun_with(tmp_path: Path) -> None:
    first, later = dataset(2), dataset(3, begin="2011-07-01 03:00")
    later = later.assign(land=first.land, area=first.area)
    first.weir.write(tiers(tmp_path), tolerance=0.01)
    later.weir.write(tiers(tmp_path), append=True)
    with opened(tmp_path) as back:
        assert back.time.values.tolist() == [*first.time.values.tolist(), *later.time.values.tolist()]
        assert float(abs(back.t[2:] - later.t).max()) <= 0.01
    with pytest.raises(adaptive.AdaptiveError, match="land has other values"):
        later.assign(land=~later.land).weir.write(tiers(tmp_path), append=True)
    with pytest.raises(adaptive.AdaptiveError, match=r"was begun with a tolerance of 0\.01"):
        later.weir.write(tiers(tmp_path), tolerance=0.5, append=True)


def test_nothing_is_written_over_without_consent(tmp_path: Path) -> None:
    one = dataset()
    one.weir.write(tiers(tmp_path))
    before = sorted(path.name for path in tmp_path.rglob("*"))
    for begin in (lambda: one.weir.write(tiers(tmp_path)), lambda: adaptive.write(tiers(tmp_path)[:1], [np.zeros(3)])):
        with pytest.raises(adaptive.AdaptiveError, match="holds a stream already"):
            begin()
    assert sorted(path.name for path in tmp_path.rglob("*")) == before
    one.isel(time=slice(0, 1)).weir.write(tiers(tmp_path), overwrite=True)
    assert not set(before) & {path.name for path in tmp_path.rglob("*.npz")}
    with opened(tmp_path) as back:
        assert back.sizes["time"] == 1
        assert back.t.equals(one.t[:1])


def test_an_array_is_not_written_over_a_stream_without_consent(tmp_path: Path) -> None:
    adaptive.write(tmp_path / "fast", [np.zeros((3, 4))] * 3)
    with pytest.raises(adaptive.AdaptiveError, match="holds a stream already"):
        adaptive.write(tmp_path / "fast", [np.ones((3, 4))])
    with pytest.raises(adaptive.AdaptiveError, match="holds a stream already"):
        dataset().weir.write(tmp_path / "fast")
    adaptive.write(tmp_path / "fast", [np.ones((5, 4))], overwrite=True)
    (step,) = adaptive.open(tmp_path / "fast")
    assert step.data.shape == (5, 4)
    assert len(list((tmp_path / "fast").glob("*.weir"))) == 1


def test_each_variable_has_its_own_time_and_error(tmp_path: Path) -> None:
    one = dataset()
    one.weir.write(tiers(tmp_path), tolerance={"t": 0.001, "q": 0.001})
    with opened(tmp_path, tolerance={"t": 0.5}, budget_seconds={"q": 60.0}) as back:
        assert back.t.attrs["weir_max_error"] == 0.5
        assert float(abs(back.t - one.t).max()) <= 0.5
        # A budget may leave the base alone, whose error bounds what comes.
        assert float(abs(back.q - one.q).max()) <= back.q.attrs["weir_max_error"]
        assert back.q.attrs["weir_max_error"] > 0.001
    with opened(tmp_path, base_only=True) as back:
        assert float(abs(back.t - one.t).max()) <= back.t.attrs["weir_max_error"]
    for number, step in enumerate(weir_xarray.steps(tmp_path / "fast", deadline_seconds=60.0)):
        assert step.sizes["time"] == 1
        assert float(abs(step.t - one.t[number]).max()) <= step.t.attrs["weir_max_error"] <= 0.001
        assert step.t.attrs["weir_rmse"] <= step.t.attrs["weir_max_error"]
    with pytest.raises(adaptive.AdaptiveError, match="there is no variable pressure"):
        opened(tmp_path, tolerance={"pressure": 1.0})


def test_a_stream_without_names_opens(tmp_path: Path) -> None:
    values = np.random.default_rng(1).normal(280, 5, (3, 20, 30)).astype("f4")
    values[:, 3] = -999
    adaptive.write(tiers(tmp_path), values, exact=True, fill=-999)
    with opened(tmp_path) as back:
        assert back.data.dims == ("step", "axis_0", "axis_1")
        assert np.isnan(back.data[:, 3]).all()
        assert np.array_equal(back.data[:, 4:].values, values[:, 4:])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"tolerance": {"pressure": 1.0}}, "there is no variable pressure for the tolerance"),
        ({"along": "depth"}, "there is no dimension `depth`"),
        ({"tolerance": -1.0}, "no error that a value may have"),
        ({"append": True, "overwrite": True}, "either continued or removed"),
    ],
)
def test_what_makes_no_sense_is_refused_before_anything_is_written(
    tmp_path: Path, options: dict[str, Any], words: str
) -> None:
    with pytest.raises(adaptive.AdaptiveError, match=words):
        dataset().weir.write(tiers(tmp_path), **options)
    assert not list(tmp_path.rglob("*.json"))


def test_types_that_no_codec_takes(tmp_path: Path) -> None:
    one = dataset()
    one["half"], one["wave"] = one.t.astype("f2"), one.t * (1 + 2j)
    one["dry"] = one.q.isnull()
    one["place"] = ("lat", [f"row {number}" for number in range(40)])
    words = "half: float16 as single floats; wave: complex128 as pairs"
    with pytest.warns(adaptive.AdaptiveWarning, match=words) as told:
        one.weir.write(tiers(tmp_path), tolerance=0.01)
    assert len(told) == 1
    with opened(tmp_path) as back:
        for name in ("dry", "place", "land", "count"):
            assert back[name].equals(one[name]), name
        assert back.half.dtype == np.float16
        for name in ("half", "wave"):
            assert float(abs(back[name].astype("c16") - one[name].astype("c16")).max()) <= 0.01


def test_a_damaged_description_is_told(tmp_path: Path) -> None:
    dataset().weir.write(tiers(tmp_path))
    path = tmp_path / "fast" / "dataset.json"
    whole = path.read_text()
    for damaged in (whole[:200], whole.replace('"dims"', '"dimz"', 1), whole.replace('"time"', '"tim"', 1), "[]"):
        path.write_text(damaged)
        with pytest.raises(adaptive.AdaptiveError, match=r"dataset\.json is damaged|dimension"):
            DatasetReader(tmp_path / "fast")


def test_without_xarray_the_rest_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "xarray", None)
    monkeypatch.delitem(sys.modules, "weir.adaptive.xarray")
    adaptive.write(tmp_path / "fast", [np.zeros((3, 4))])
    with pytest.raises(ImportError, match="xarray is not installed: pip install"):
        import weir.adaptive.xarray  # noqa: F401
