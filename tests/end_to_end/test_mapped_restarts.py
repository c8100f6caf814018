"""Stores through shared mappings of a file whose servers are killed: they reach the file, or the mapping fails for good."""

import errno
import mmap
import os
import signal
import sys
from pathlib import Path

import pytest
from libc import refused
from store import Store, kill
from waits import PATIENCE_SECONDS
from ways import MOUNT, MOUNTED, PREFIX, Way, has_fuse, make_way

SIZE = 1 << 20


@pytest.fixture(autouse=True)
def fuse() -> None:
    """Skip where stores cannot be mounted."""
    if not has_fuse():
        pytest.skip("there is no /dev/fuse")


def wait_for_restart() -> None:
    print("stored", flush=True)
    sys.stdin.readline()


def store_over_a_restart(folder: Path, syncs: bool) -> None:
    file = os.open(folder / "file", os.O_RDWR | os.O_CREAT, 0o644)
    os.pwrite(file, b"." * SIZE, 0)
    os.fsync(file)
    mapped = mmap.mmap(file, SIZE)
    mapped[:5] = b"hello"
    mapped[SIZE - 3 :] = b"end"
    wait_for_restart()
    mapped[10:15] = b"again"
    if syncs:
        mapped.flush()
    assert mapped[:15] == os.pread(file, 15, 0) == b"hello.....again"
    assert os.pread(file, 3, SIZE - 3) == b"end"


def fail_after_a_loss(folder: Path) -> None:
    """Each sync is refused, not the first one alone, and the mapping never shows the bytes from before its stores."""
    file = os.open(folder / "file", os.O_RDWR | os.O_CREAT, 0o644)
    os.pwrite(file, b"." * SIZE, 0)
    mapped = mmap.mmap(file, SIZE)
    mapped[:5] = b"hello"
    wait_for_restart()
    for _ in range(3):
        refused((errno.EIO, errno.ESTALE), mapped.flush)
    print("refused", flush=True)
    # The kernel soon drops the pages that it could not write, and this process ends.
    while True:
        assert mapped[:5] == b"hello"


def restart(store: Store) -> None:
    for pid in store.server_pids().values():
        kill(pid)
    store.up()


@pytest.mark.parametrize("syncs", [True, False])
@pytest.mark.parametrize("name", MOUNTED)
def test_stores_through_a_mapping_outlive_the_servers(store: Store, name: str, syncs: bool) -> None:
    """A lost server had the mount drop all pages, the dirty ones, too; the mapping and the file then showed older bytes."""
    store.up(servers=2, targets=1, backend="dir", capacity="256MiB")
    way = make_way(name, store, "mapped")
    with way.start(*way.python(store_over_a_restart, syncs)) as child:
        assert child.stdout
        assert child.stdout.readline() == "stored\n", child.communicate()
        restart(store)
        _, err = child.communicate("go on\n", timeout=PATIENCE_SECONDS)
    assert child.returncode == 0, err
    other = Way(PREFIX, store, way.sibling(PREFIX))
    assert other.run("head", "-c", "15", other.folder / "file").stdout == "hello.....again"


def test_a_mapping_whose_stores_are_lost_fails_for_good(store: Store) -> None:
    """Servers in memory keep nothing, so the stores have no file any more."""
    store.up(servers=1, targets=1, capacity="256MiB")
    way = make_way(MOUNT, store, "mapped")
    with way.start(*way.python(fail_after_a_loss)) as child:
        assert child.stdout
        assert child.stdout.readline() == "stored\n", child.communicate()
        restart(store)
        out, err = child.communicate("go on\n", timeout=PATIENCE_SECONDS)
    assert out == "refused\n", err
    assert child.returncode in (-signal.SIGBUS, 128 + signal.SIGBUS), (child.returncode, err)
