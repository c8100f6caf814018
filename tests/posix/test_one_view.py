"""One view of names and sizes, whoever changed them: each case on a file system of the host, and on the store by each way.

The right answers are those of tmpfs, on which each case runs, too.
"""

import os
import re
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from store import Store
from ways import ALL, MOUNT, MOUNTED, has_fuse, make_way

HOST = "host"
"""A file system of the host, without the store."""
SECOND_MOUNT = "second mount"
"""The kernel's calls by a mount of their own, beside the store's first one."""


@pytest.fixture(scope="module")
def second_mount(shared_store: Store) -> Iterator[Path]:
    """Another mount of the shared store."""
    if not has_fuse():
        pytest.skip("there is no /dev/fuse")
    point = shared_store.root / "second"
    point.mkdir()
    shared_store.weir("mount", point)
    yield point
    shared_store.weir("umount", point, code=None)


@pytest.fixture(params=[HOST, SECOND_MOUNT, *ALL])
def run(request: pytest.FixtureRequest, shared_store: Store) -> Iterator[Callable[..., object]]:
    """Run a case in a fresh directory."""
    name = re.sub(r"[^a-z0-9]+", "-", request.node.name.lower())
    if request.param == HOST:
        with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
            yield lambda case, *arguments: case(Path(folder), *arguments)
        return
    if request.param in (*MOUNTED, SECOND_MOUNT) and not has_fuse():
        pytest.skip("there is no /dev/fuse")
    if request.param == SECOND_MOUNT:
        way = make_way(MOUNT, shared_store, name)
        way.folder = request.getfixturevalue("second_mount") / name
    else:
        way = make_way(request.param, shared_store, name)
    yield way.call


def shortened_holes(folder: Path, size: int, shorter: int) -> None:
    """A descriptor on a file without a byte answered zeros up to the size at its opening, for ever."""
    path = folder / f"holes-{size}"
    path.touch()
    os.truncate(path, size)
    file, other = os.open(path, os.O_RDONLY), os.open(path, os.O_RDONLY)
    for descriptor in (file, other):
        assert len(os.pread(descriptor, 5000, size - 5000)) == 5000
    os.truncate(path, shorter)
    for offset in (0, shorter // 2, shorter, size - 100):
        assert len(os.pread(file, 5000, offset)) == min(5000, max(0, shorter - offset)), offset
    os.truncate(path, 0)
    assert os.pread(other, 5000, 0) == b""
    os.truncate(path, size)
    assert os.pread(file, 5000, size - 5000) == bytes(5000)
    os.close(os.open(path, os.O_WRONLY | os.O_TRUNC))
    assert os.pread(file, 5000, 0) == os.pread(other, 5000, size - 1) == b""


@pytest.mark.parametrize(("size", "shorter"), [(1 << 20, 1000), (40 << 20, 5000), (6000, 1)])
def test_a_file_of_holes_that_was_shortened_ends_there(run: Callable[..., object], size: int, shorter: int) -> None:
    run(shortened_holes, size, shorter)


def listing_while_renaming(folder: Path, count: int) -> None:
    """Each new name came behind all others, so a listing that renamed what it met went on for ever."""
    for number in range(count):
        (folder / f"f{number}").touch()
    met: list[str] = []
    with os.scandir(folder) as entries:
        for entry in entries:
            met.append(entry.name)
            assert len(met) <= count, f"the listing does not end: {met[-1]}"
            os.rename(entry.path, folder / f"new-{len(met)}")
    assert len(set(met)) == len(met)
    assert set(met) == {f"f{number}" for number in range(count)}, "no name that was there from the beginning is missing"
    assert sorted(os.listdir(folder)) == sorted(f"new-{number + 1}" for number in range(count))


def test_a_listing_ends_while_names_change(run: Callable[..., object]) -> None:
    run(listing_while_renaming, 3000)
