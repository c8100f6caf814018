"""Arrays of scientific programs: HDF5 files, numpy files and mapped memory."""

from pathlib import Path

import pytest
from ways import PREFIX, Way


def write_checkpoint(folder: Path) -> None:
    import h5py
    import numpy

    random = numpy.random.default_rng(7)
    with h5py.File(folder / "checkpoint.h5", "w") as file:
        file["plain"] = random.random((500, 300))
        file.create_dataset("chunked", data=numpy.arange(1 << 19).reshape(512, -1), chunks=(64, 64), compression="gzip")
        growing = file.create_dataset("growing", (0, 100), maxshape=(None, 100), dtype="f4")
        for step in range(20):
            growing.resize(100 * (step + 1), axis=0)
            growing[-100:] = step
        file.attrs["step"] = 20
        file.flush()
    with h5py.File(folder / "checkpoint.h5", "a") as file:
        file["plain"][10:20] = 0
        del file["growing"]


def read_checkpoint(folder: Path) -> None:
    import h5py
    import numpy

    expected = numpy.random.default_rng(7).random((500, 300))
    expected[10:20] = 0
    with h5py.File(folder / "checkpoint.h5", "r") as file:
        assert numpy.array_equal(file["plain"][:], expected)
        assert numpy.array_equal(file["chunked"][:], numpy.arange(1 << 19).reshape(512, -1))
        assert "growing" not in file
        assert file.attrs["step"] == 20


def test_h5py_reads_back_what_it_wrote(way: Way) -> None:
    way.call(write_checkpoint, served=["open", "write"])
    way.call(read_checkpoint, served=["open", "read"])


def lock_out(folder: Path) -> None:
    """HDF5 holds a flock on an open file, which keeps others from writing it."""
    import subprocess
    import sys

    import h5py

    second = f"import h5py; h5py.File({str(folder / 'file.h5')!r}, 'a')"
    with h5py.File(folder / "file.h5", "w"):
        other = subprocess.run([sys.executable, "-c", second], capture_output=True, text=True, check=False)
        assert "unable to lock file" in other.stderr, other.stderr
    subprocess.run([sys.executable, "-c", second], check=True)


def test_hdf5_locks_its_files(way: Way) -> None:
    way.call(lock_out, served=["open", "lock"])


def use_numpy_files(folder: Path) -> None:
    import numpy

    values = numpy.arange(200_000, dtype="f8").reshape(-1, 20)
    numpy.save(folder / "a.npy", values)
    numpy.savez_compressed(folder / "b.npz", x=values, y=values[::2])
    values.tofile(folder / "raw")
    assert numpy.array_equal(numpy.load(folder / "a.npy"), values)
    with numpy.load(folder / "b.npz") as both:
        assert numpy.array_equal(both["y"], values[::2])
    assert numpy.array_equal(numpy.fromfile(folder / "raw").reshape(values.shape), values)
    assert numpy.array_equal(numpy.memmap(folder / "raw", dtype="f8", mode="c").reshape(values.shape), values)
    numpy.savetxt(folder / "text", values[:50])
    assert numpy.array_equal(numpy.loadtxt(folder / "text"), values[:50])


def test_numpy_files(way: Way) -> None:
    way.call(use_numpy_files, served=["open"])


def map_arrays(folder: Path) -> None:
    import numpy

    mapped = numpy.memmap(folder / "mapped", dtype="i4", mode="w+", shape=(1000, 1000))
    mapped[:] = numpy.arange(1_000_000).reshape(1000, 1000)
    mapped[500] = -1
    mapped.flush()
    assert numpy.fromfile(folder / "mapped", dtype="i4")[500_000] == -1
    with (folder / "mapped").open("r+b") as file:
        file.seek(4 * 7)
        file.write(b"\1\0\0\0")
    again = numpy.memmap(folder / "mapped", dtype="i4", mode="r+", shape=(1000, 1000))
    assert again[0, 7] == 1
    assert again[999, 999] == 999_999
    again[0, 8] = 2
    del again, mapped
    assert numpy.fromfile(folder / "mapped", dtype="i4")[8] == 2
    opened = numpy.lib.format.open_memmap(folder / "b.npy", mode="w+", dtype="f8", shape=(300, 40))
    opened[:] = 4.5
    del opened
    assert (numpy.load(folder / "b.npy", mmap_mode="r") == 4.5).all()


def test_numpy_maps_files(way: Way) -> None:
    if way.name == PREFIX:
        pytest.skip("shared mappings that may be written need a mount")
    way.call(map_arrays)
