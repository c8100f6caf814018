"""Names, paths and directories, by each way into the store."""

import errno
import os
import subprocess
from pathlib import Path

import libc
import pytest
from libc import refused
from store import Store
from ways import ALL, MOUNT, PREFIX, Way, has_fuse, make_way

ENTRIES = 70_000


def renames(folder: Path) -> None:
    for name in ("a", "b"):
        (folder / name).write_text(name)
    libc.renameat2(folder / "a", folder / "b", libc.EXCHANGE)
    assert (folder / "a").read_text() == "b"
    refused(errno.EEXIST, libc.renameat2, folder / "a", folder / "b", libc.NOREPLACE)
    libc.renameat2(folder / "a", folder / "c", libc.NOREPLACE)
    refused(errno.ENOENT, libc.renameat2, folder / "a", folder / "b", libc.EXCHANGE)
    assert sorted(os.listdir(folder)) == ["b", "c"]
    (folder / "d" / "e").mkdir(parents=True)
    libc.renameat2(folder / "d", folder / "c", libc.EXCHANGE)
    assert (folder / "c" / "e").is_dir()
    assert (folder / "d").read_text() == "b"
    refused(errno.EINVAL, os.rename, folder / "c", folder / "c" / "e" / "f")
    (folder / "full" / "x").mkdir(parents=True)
    refused(errno.ENOTEMPTY, os.rename, folder / "c", folder / "full")
    refused(errno.ENOTDIR, os.rename, folder / "c", folder / "b")
    refused(errno.EISDIR, os.rename, folder / "b", folder / "c")
    refused(errno.EXDEV, os.rename, folder / "b", "/tmp/elsewhere")
    refused(errno.EXDEV, os.link, folder / "b", "/tmp/elsewhere")
    os.rename(folder / "full" / "x", folder / "y")
    os.link(folder / "b", folder / "hard")
    os.rename(folder / "b", folder / "hard")
    assert {"b", "hard"} <= set(os.listdir(folder)), "both are the same file: nothing is done"
    refused(errno.EPERM, os.link, folder / "c", folder / "directory")


def test_renames(way: Way) -> None:
    way.call(renames, served=["rename", "link", "make"])


def moved_under_a_program(folder: Path) -> None:
    (folder / "a" / "b").mkdir(parents=True)
    (folder / "c" / "d").mkdir(parents=True)
    os.chdir(folder / "a" / "b")
    subprocess.run(["mv", folder / "a", folder / "moved"], check=True)
    assert os.getcwd() == os.path.realpath(".") == str(folder / "moved" / "b")
    os.chdir(folder / "moved")
    subprocess.run(["mv", folder / "moved", folder / "c" / "d"], check=True)
    # From the place at which the directory was entered, this would leave the store.
    assert "c" in os.listdir("../../..")
    assert os.getcwd() == str(folder / "c" / "d" / "moved")


def test_a_working_directory_is_where_others_moved_it(way: Way) -> None:
    way.call(moved_under_a_program)


def removed_under_a_program(folder: Path) -> None:
    (folder / "a").mkdir()
    os.chdir(folder / "a")
    subprocess.run(["rmdir", folder / "a"], check=True)
    refused(errno.ENOENT, os.getcwd)


@pytest.mark.parametrize("way", [MOUNT, PREFIX], indirect=True)
def test_a_working_directory_that_was_removed_has_no_path(way: Way) -> None:
    way.call(removed_under_a_program)


def long_names(folder: Path) -> None:
    longest = "n" * 255
    (folder / longest).write_text("x")
    assert os.listdir(folder) == [longest]
    refused(errno.ENAMETOOLONG, (folder / f"{longest}n").write_text, "x")
    refused(errno.ENAMETOOLONG, os.mkdir, folder / f"{longest}n")
    os.rename(folder / longest, folder / ("m" * 255))
    odd = [b"\xff\xfe", b"new\nline", "schön".encode(), b" ", b"-rf", b"*", b"...", b"a" * 254 + b"\xe9"]
    for name in odd:
        (folder / os.fsdecode(name)).write_bytes(name)
    assert {name for name in os.listdir(os.fsencode(folder)) if name[:1] != b"m"} == set(odd)
    assert all((folder / os.fsdecode(name)).read_bytes() == name for name in odd)
    target = "t" * 4095
    os.symlink(target, folder / "link")
    assert os.readlink(folder / "link") == target
    refused(errno.ENAMETOOLONG, os.symlink, f"{target}t", folder / "longer")
    refused(errno.ENOENT, os.symlink, "", folder / "empty")


def test_long_names(way: Way) -> None:
    way.call(long_names, served=["open", "rename", "link"])


def deep_paths(folder: Path) -> None:
    """Directories deeper than any path can say, and paths of the greatest length (PATH_MAX counts the zero byte)."""
    name = "d" * 200
    here = str(folder)
    while len(here) < 3850:
        here += f"/{name[: 3850 - len(here)]}"
        os.mkdir(here)
    longest = f"{here}/{'f' * (4095 - len(here) - 1)}"
    assert len(longest) == 4095
    Path(longest).write_text("deep")
    assert Path(longest).read_text() == "deep"
    refused(errno.ENAMETOOLONG, os.stat, f"{longest}f")
    os.chdir(here)
    for _ in range(8):
        os.mkdir(name)
        os.chdir(name)
    Path("file").write_text("deeper")
    assert os.listdir(".") == ["file"]
    for _ in range(8):
        os.chdir("..")
    assert os.path.samefile(".", here)
    assert os.getcwd() == here
    descriptor = os.open(name, os.O_RDONLY | os.O_DIRECTORY)
    assert os.listdir(descriptor) == [name]


def test_deep_paths(way: Way) -> None:
    way.call(deep_paths, served=["make", "open"])


def directories(folder: Path) -> None:
    (folder / "a").mkdir()
    assert folder.stat().st_nlink == 3
    refused(errno.EEXIST, os.mkdir, folder / "a")
    (folder / "a" / "file").write_text("x")
    refused(errno.ENOTEMPTY, os.rmdir, folder / "a")
    refused(errno.ENOTDIR, os.rmdir, folder / "a" / "file")
    refused(errno.EISDIR, os.unlink, folder / "a")
    os.chdir(folder / "a")
    os.unlink("file")
    os.rmdir(folder / "a")
    refused((errno.ENOENT, errno.ESTALE), open, "new", "w")
    os.chdir(folder)
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    os.mkdir("below", dir_fd=descriptor)
    made = os.open("below/file", os.O_CREAT | os.O_WRONLY, dir_fd=descriptor)
    os.write(made, b"x")
    os.rename("below/file", "moved", src_dir_fd=descriptor, dst_dir_fd=descriptor)
    assert os.stat("moved", dir_fd=descriptor).st_size == 1
    os.symlink("moved", "link", dir_fd=descriptor)
    assert os.readlink("link", dir_fd=descriptor) == "moved"
    os.unlink("moved", dir_fd=descriptor)
    refused(errno.ENOENT, os.stat, "link", dir_fd=descriptor)
    os.fsync(descriptor)
    with os.scandir(folder) as entries:
        assert {entry.name: (entry.is_dir(), entry.is_symlink()) for entry in entries} == {
            "below": (True, False),
            "link": (False, True),
        }


def test_directories(way: Way) -> None:
    way.call(directories, served=["make", "open", "unlink", "rename"])


@pytest.fixture(scope="module")
def crowded(shared_store: Store) -> str:
    """The name of a directory of many entries, in the root of the shared store."""
    way = make_way("mount" if has_fuse() else "prefix", shared_store, "crowded")
    way.call(crowd)
    return way.folder.name


def crowd(folder: Path) -> None:
    """Half of them each by two processes."""
    os.chdir(folder)
    child = os.fork()
    for number in range(0 if child else 1, ENTRIES, 2):
        os.mknod(f"{number:06}-{'x' * (number % 40)}")
    if child == 0:
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0


def list_crowded(folder: Path, crowded: str) -> None:
    """Each entry once, in one go and in many; those that stay are seen while others go and come."""
    where = folder.parent / crowded
    names = os.listdir(where)
    assert len(names) == ENTRIES
    assert {int(name[:6]) for name in names} == set(range(ENTRIES))
    seen: list[str] = []
    with os.scandir(where) as entries:
        for count, entry in enumerate(entries):
            seen.append(entry.name)
            if count % 1000 == 0:
                (where / f"new-{count}").write_bytes(b"")
                os.unlink(where / f"new-{count}")
    old = [name for name in seen if not name.startswith("new-")]
    assert len(old) == len(set(old)) == ENTRIES
    listed = subprocess.run(["ls", "-f", where], capture_output=True, text=True, check=True).stdout.split("\n")
    assert len(listed) == ENTRIES + 3, "with the two dots and the end of the last line"


@pytest.mark.parametrize("way", ALL, indirect=True)
def test_a_crowded_directory(way: Way, crowded: str) -> None:
    way.call(list_crowded, crowded, served=["open", "list"])
