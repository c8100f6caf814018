"""The size of a file that others made longer between a kernel's look-up and its open.

`open(2)` looks a name up, by which the kernel learns the size, and opens the file, from which on the home tells the mount of other
sizes. A descriptor of O_PATH is a look-up without an open, and an open by its link in /proc/self/fd is one without a look-up. So the
change between the two is made in this order each time.
"""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import weir.store
from store import Store
from ways import MOUNT, make_way

BEFORE, ADDED = b"a" * 10, b"b" * 1000


def appended_to(opened: int) -> int:
    """The end at which the kernel placed an append."""
    os.write(opened, b"c")
    return os.lseek(opened, 0, os.SEEK_CUR) - 1


def copied_from(opened: int) -> int:
    """The length that copy_file_range found."""
    target = os.open(".", os.O_TMPFILE | os.O_RDWR, 0o600)
    try:
        return os.copy_file_range(opened, target, 1 << 30, 0, 0)
    finally:
        os.close(target)


@pytest.mark.parametrize("measure", [appended_to, copied_from])
def test_an_open_learns_what_others_wrote_since_the_look_up(
    fuse: None,
    shared_store: Store,
    second_mount: Path,
    monkeypatch: pytest.MonkeyPatch,
    measure: Callable[[int], int],
) -> None:
    """The kernel knew the size of the look-up until a stat or the next change."""
    way = make_way(MOUNT, shared_store, f"opened-{measure.__name__}")
    monkeypatch.chdir(way.folder)
    Path("file").write_bytes(BEFORE)
    looked_up = os.open("file", os.O_PATH)
    with (second_mount / way.folder.name / "file").open("ab") as other:
        other.write(ADDED)
    flags = os.O_RDWR | (os.O_APPEND if measure is appended_to else 0)
    opened = os.open(f"/proc/self/fd/{looked_up}", flags)
    try:
        assert measure(opened) == len(BEFORE + ADDED)
    finally:
        os.close(opened)
        os.close(looked_up)


def test_a_mount_that_has_just_come_up_hears_of_growth_from_every_home(fuse: None, shared_store: Store) -> None:
    folders = [f"fresh-{number}" for number in range(8)]
    point = shared_store.root / "fresh"
    point.mkdir()
    for folder in folders:
        (shared_store.mount / folder).mkdir()
    shared_store.weir("mount", point)
    try:
        with weir.store.connect(shared_store.home) as client:
            for folder in folders:
                appended = os.open(point / folder / "file", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
                client.write_bytes(f"/{folder}/file", b"x" * 1000)
                assert os.write(appended, b"y") == 1
                assert os.lseek(appended, 0, os.SEEK_CUR) == 1001
                os.close(appended)
    finally:
        shared_store.weir("umount", point)
        for folder in folders:
            shutil.rmtree(shared_store.mount / folder)
