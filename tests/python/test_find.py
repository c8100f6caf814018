"""`weir df` and `weir find` on a real store, seen through the preload library."""

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from store import Store, fresh, program

MADE = """
import os, sys
root = sys.argv[1]
os.makedirs(f"{root}/folder/deep")
for name, layout, size in (("one", "-c 1 -o 0.1", 10), ("two", "-c 2 -o 1.0,1.1", 5000), ("all", "-c 4", 100)):
    path = f"{root}/folder/{name}.dat"
    os.close(os.open(path, os.O_CREAT | os.O_WRONLY))
    os.setxattr(path, "weir.layout", layout.encode())
    with open(path, "wb") as file:
        file.write(b"x" * size)
os.symlink("one.dat", f"{root}/folder/link")
os.utime(f"{root}/folder/two.dat", (1, 1))
"""


@pytest.fixture(scope="module")
def store() -> Iterator[Store]:
    with fresh() as store:
        store.up(servers=2, targets=2, mount=False)
        store.weir("run", "--prefix", "/weir", "--", "python3", "-c", MADE, "/weir")
        yield store


def found(store: Store, *tests: str, path: str = "/weir/folder", code: int = 0) -> list[str]:
    command = ["run", "--prefix", "/weir", "--", *program(), "find", path, *tests]
    return [Path(line).name for line in store.weir(*command, code=code).stdout.splitlines()]


def test_files_are_found_by_their_targets(store: Store) -> None:
    assert found(store, "--target", "0.1") == ["all.dat", "one.dat"]
    assert found(store, "--target", "1.0") == ["all.dat", "two.dat"]
    assert found(store, "--target", "0.1", "--stripes", "1") == ["one.dat"]
    assert found(store, "--stripes", "+1") == ["all.dat", "two.dat"]


def test_a_target_that_the_store_has_not_is_refused_with_those_that_it_has(store: Store) -> None:
    command = ["run", "--prefix", "/weir", "--", *program(), "find", "/weir/folder", "--target"]
    refused = store.weir(*command, "0.1", "--target", "0.9", code=1)
    assert "error: the store has no target 0.9" in refused.stderr
    assert "hint: its targets are 0.0, 0.1, 1.0, 1.1" in refused.stderr
    assert refused.stdout == ""


def test_files_are_found_by_what_any_file_system_knows(store: Store) -> None:
    assert found(store, "--size", "+1k", "--type", "f") == ["two.dat"]
    assert found(store, "--size", "10", "--type", "f") == ["one.dat"]
    assert found(store, "--days", "+100", "--type", "f") == ["two.dat"]
    assert found(store, "--name", "t*.dat") == ["two.dat"]
    assert found(store, "--type", "l") == ["link"]
    assert found(store, "--type", "d") == ["folder", "deep"]
    assert found(store, "--user", str(os.getuid()), "--type", "f") == ["all.dat", "one.dat", "two.dat"]
    assert found(store, "--user", "4242") == []


def test_bad_tests_are_refused_before_a_file_is_looked_at(store: Store) -> None:
    for bad in (["--size", "+x"], ["--stripes", "many"], ["--user", "nobody-of-this-name"], ["--type", "x"]):
        store.weir("find", "/", *bad, code=2)
    assert found(store, path="/weir/absent", code=1) == []
    (store.root / "elsewhere").touch()
    assert "not on a Weir store" in store.weir("find", store.root / "elsewhere", "--target", "0.0", code=1).stderr


def test_the_room_of_each_target_and_of_all(store: Store) -> None:
    document = store.json("df")
    assert [target["target"] for target in document["targets"]] == ["0.0", "0.1", "1.0", "1.1"]
    for target in document["targets"]:
        assert target["used_bytes"] + target["free_bytes"] == target["size_bytes"]
    assert document["size_bytes"] == document["used_bytes"] + document["free_bytes"]
    assert document["size_bytes"] == sum(target["size_bytes"] for target in document["targets"]), (
        "of memory each counts"
    )
    assert document["used_bytes"] > 0
    lines = store.weir("df").stdout.splitlines()
    assert lines[5].startswith("all")
    assert lines[-1].startswith("inodes")


def test_a_disk_counts_once_however_many_targets_lie_on_it(make_store: Callable[[], Store]) -> None:
    """Three targets in folders of one disk, on two servers, were shown as three times its room."""
    store = make_store()
    targets = "[[server.target]]\nbackend = 'dir'\n"
    (store.root / "c.toml").write_text(f"[[server]]\n{2 * targets}[[server]]\n{targets}")
    store.up(store.root / "c.toml", mount=False)
    disk = os.statvfs(store.home)
    document = store.json("df")
    assert len(document["targets"]) == 3
    assert len({target["disk"] for target in document["targets"]}) == 1
    seen = store.weir(
        "run", "--prefix", "/weir", "--", sys.executable, "-c",
        "import os; s = os.statvfs('/weir'); print(s.f_blocks * s.f_frsize, s.f_bavail * s.f_frsize)",
    ).stdout.split()  # fmt: skip
    whole = disk.f_blocks * disk.f_frsize
    for size, free in ((document["size_bytes"], document["free_bytes"]), map(int, seen)):
        assert free <= size <= whole, "other programs take and give back some of the disk meanwhile"
    for target in document["targets"]:
        assert target["used_bytes"] + target["free_bytes"] == target["size_bytes"]
