"""Libraries of others read and write a store by `weir://`, and find what they wrote."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import numpy
import pytest
from store import Store
from weir.store.client_fsspec import WeirFileSystem

pandas = pytest.importorskip("pandas")


@pytest.fixture
def options(shared_store: Store) -> dict[str, Any]:
    return {"store": str(shared_store.home)}


@pytest.fixture
def system(options: dict[str, Any]) -> WeirFileSystem:
    found: WeirFileSystem = fsspec.filesystem("weir", **options)
    return found


@pytest.fixture
def folder(system: WeirFileSystem, request: pytest.FixtureRequest) -> Iterator[str]:
    name = "/" + re.sub(r"\W+", "-", request.node.name)
    system.mkdir(name)
    yield name
    system.rm(name, recursive=True)


@pytest.fixture
def table() -> Any:
    numbers = numpy.arange(10_000)
    return pandas.DataFrame(
        {"number": numbers, "root": numpy.sqrt(numbers), "word": [f"w{one % 7}" for one in numbers]}
    )


def test_pandas(options: dict[str, Any], folder: str, table: Any) -> None:
    for name in ("table.csv", "table.csv.gz", "table.json"):
        url = f"weir:/{folder}/{name}"
        if name.endswith(".json"):
            table.to_json(url, orient="records", lines=True, storage_options=options)
            read = pandas.read_json(url, orient="records", lines=True, storage_options=options, precise_float=True)
        else:
            table.to_csv(url, index=False, storage_options=options)
            read = pandas.read_csv(url, storage_options=options)
        pandas.testing.assert_frame_equal(read, table, check_dtype=False)
    pytest.importorskip("pyarrow")
    url = f"weir:/{folder}/table.parquet"
    table.to_parquet(url, storage_options=options)
    pandas.testing.assert_frame_equal(
        pandas.read_parquet(url, storage_options=options, columns=["root"]), table[["root"]]
    )


def test_pyarrow(system: WeirFileSystem, folder: str, table: Any) -> None:
    arrow = pytest.importorskip("pyarrow")
    dataset = pytest.importorskip("pyarrow.dataset")
    from pyarrow.fs import FSSpecHandler, PyFileSystem

    place = PyFileSystem(FSSpecHandler(system))
    rows = arrow.Table.from_pandas(table)
    dataset.write_dataset(rows, f"{folder}/set", format="parquet", partitioning=["word"], filesystem=place)
    assert len(system.ls(f"{folder}/set")) == 7
    found = dataset.dataset(f"{folder}/set", format="parquet", partitioning=["word"], filesystem=place)
    picked = found.to_table(filter=dataset.field("word") == "w3", columns=["number"])
    assert sorted(picked["number"].to_pylist()) == list(range(3, 10_000, 7))
    with place.open_output_stream(f"{folder}/stream") as stream:
        stream.write(b"words")
    with place.open_input_file(f"{folder}/stream") as file:
        assert file.read_at(3, 1) == b"ord"


def test_zarr(options: dict[str, Any], folder: str) -> None:
    zarr = pytest.importorskip("zarr")
    field = numpy.random.default_rng(1).normal(size=(64, 64, 8))
    url = f"weir:/{folder}/field.zarr"
    made = zarr.create_array(url, shape=field.shape, chunks=(16, 16, 8), dtype=field.dtype, storage_options=options)
    made[:] = field
    read = zarr.open_array(url, mode="r", storage_options=options)
    numpy.testing.assert_array_equal(read[10:40, ::3, 2], field[10:40, ::3, 2])


def test_xarray(options: dict[str, Any], system: WeirFileSystem, folder: str) -> None:
    xarray = pytest.importorskip("xarray")
    values = numpy.random.default_rng(2).normal(size=(4, 30, 20)).astype("float32")
    data = xarray.Dataset({"t": (("time", "y", "x"), values, {"units": "K"})}, {"time": [0, 6, 12, 18]})
    pytest.importorskip("zarr")
    data.to_zarr(f"weir:/{folder}/data.zarr", storage_options=options, consolidated=False)
    xarray.testing.assert_identical(
        xarray.open_zarr(f"weir:/{folder}/data.zarr", storage_options=options, consolidated=False).load(), data
    )
    pytest.importorskip("h5netcdf")
    with system.open(f"{folder}/data.nc", "wb") as file:
        file.write(bytes(data.to_netcdf(engine="h5netcdf")))
    with system.open(f"{folder}/data.nc") as file, xarray.open_dataset(file, engine="h5netcdf") as read:
        xarray.testing.assert_identical(read.load(), data)


def test_kerchunk(options: dict[str, Any], system: WeirFileSystem, folder: str) -> None:
    hdf = pytest.importorskip("kerchunk.hdf")
    xarray = pytest.importorskip("xarray")
    pytest.importorskip("h5netcdf")
    field = numpy.random.default_rng(4).normal(size=(40, 60))
    data = xarray.Dataset({"t": (("y", "x"), field, {"units": "K"})}, {"x": numpy.arange(60.0)})
    with system.open(f"{folder}/data.nc", "wb") as file:
        file.write(bytes(data.to_netcdf(engine="h5netcdf", encoding={"t": {"chunksizes": (10, 60), "zlib": True}})))
    with system.open(f"{folder}/data.nc") as file:
        references = hdf.SingleHdf5ToZarr(file, f"weir:/{folder}/data.nc", inline_threshold=0).translate()
    storage = {"fo": references, "remote_protocol": "weir", "remote_options": options}
    settings = {"consolidated": False, "storage_options": storage}
    with xarray.open_dataset("reference://", engine="zarr", backend_kwargs=settings) as read:
        xarray.testing.assert_identical(read.load(), data)


# Dask's own call.
@pytest.mark.filterwarnings("ignore:The inplace keyword")
def test_dask(options: dict[str, Any], folder: str, table: Any) -> None:
    bag = pytest.importorskip("dask.bag")
    lines = [f"{number} words" for number in range(1000)]
    bag.from_sequence(lines, npartitions=5).to_textfiles(f"weir:/{folder}/part-*.txt", storage_options=options)
    read = bag.read_text(f"weir:/{folder}/part-*.txt", storage_options=options).map(str.strip)
    assert sorted(read.compute(scheduler="threads")) == sorted(lines)
    assert sorted(read.compute(scheduler="processes", num_workers=2)) == sorted(lines)
    frame = pytest.importorskip("dask.dataframe")
    pytest.importorskip("pyarrow")
    frame.from_pandas(table, npartitions=4).to_parquet(f"weir:/{folder}/frame", storage_options=options)
    total = frame.read_parquet(f"weir:/{folder}/frame", storage_options=options)["number"].sum()
    assert total.compute(scheduler="threads") == table["number"].sum()


def test_h5py(system: WeirFileSystem, folder: str, tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    field = numpy.random.default_rng(3).normal(size=(200, 100))
    with system.open(f"{folder}/field.h5", "w+b") as file, h5py.File(file, "w") as made:
        made.create_dataset("field", data=field, chunks=(20, 100), compression="gzip")
        made["field"].attrs["units"] = "m"
    with system.open(f"{folder}/field.h5", "r+b") as file, h5py.File(file, "r+") as changed:
        changed["more"] = field[:5]
    with system.open(f"{folder}/field.h5") as file, h5py.File(file, "r") as read:
        numpy.testing.assert_array_equal(read["field"][30:50], field[30:50])
        assert (read["field"].attrs["units"], read["more"].shape) == ("m", (5, 100))
    # The library opens what the file system copied out, too.
    system.get(f"{folder}/field.h5", str(tmp_path / "field.h5"))
    with h5py.File(tmp_path / "field.h5", "r") as read:
        numpy.testing.assert_array_equal(read["more"][:], field[:5])


def test_duckdb(system: WeirFileSystem, folder: str, table: Any) -> None:
    duckdb = pytest.importorskip("duckdb")
    with duckdb.connect() as connection:
        connection.register_filesystem(system)
        connection.register("rows", table)
        connection.execute(f"COPY (SELECT * FROM rows) TO 'weir:/{folder}/table.parquet' (FORMAT parquet)")
        question = f"SELECT word, sum(number) FROM 'weir:/{folder}/*.parquet' GROUP BY word ORDER BY word"
        found = dict(connection.execute(question).fetchall())
    assert found == table.groupby("word")["number"].sum().to_dict()
