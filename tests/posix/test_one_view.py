"""One view of names and sizes, whoever changed them: each case on a file system of the host, and on the store by each way.

The right answers are those of tmpfs, on which each case runs, too.
"""

import errno
import os
import re
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import libc
import pytest
from libc import refused
from store import Store
from waits import PATIENCE_SECONDS
from ways import ALL, MOUNT, MOUNTED, PREFIX, Way, has_fuse, make_way

HOST = "host"
"""A file system of the host, without the store."""
SECOND_MOUNT = "second mount"
"""The kernel's calls by a mount of their own, beside the store's first one."""


@pytest.fixture
def way_by(request: pytest.FixtureRequest, shared_store: Store) -> Callable[..., Way]:
    """Make a way into the directory of the test, which the first one makes."""
    name = re.sub(r"[^a-z0-9]+", "-", request.node.name.lower())
    made: list[Way] = []

    def make(which: str) -> Way:
        if which in (*MOUNTED, SECOND_MOUNT) and not has_fuse():
            pytest.skip("there is no /dev/fuse")
        kind = MOUNT if which == SECOND_MOUNT else which
        way = Way(kind, shared_store, made[0].sibling(kind)) if made else make_way(kind, shared_store, name)
        if which == SECOND_MOUNT:
            way.folder = request.getfixturevalue("second_mount") / name
        made.append(way)
        return way

    return make


@pytest.fixture(params=[HOST, SECOND_MOUNT, *ALL])
def run(request: pytest.FixtureRequest) -> Iterator[Callable[..., object]]:
    """Run a case in a fresh directory."""
    if request.param == HOST:
        with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
            yield lambda case, *arguments: case(Path(folder), *arguments)
    else:
        yield request.getfixturevalue("way_by")(request.param).call


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


def allocated_blocks(folder: Path) -> None:
    """A file of which all room was allocated showed no block."""
    page = 4096
    for number, (mode, size, offset, length) in enumerate(
        [
            (0, 0, 0, 1 << 20),
            (0, 10, 3 * page, 7 * page),
            (libc.KEEP_SIZE, 9 * page, page + 1, page),
            (0, page, 100, 10),
        ]
    ):
        with open(folder / f"allocated-{number}", "wb") as file:
            file.truncate(size)
            libc.fallocate(file.fileno(), mode, offset, length)
            pages = -(-(offset + length) // page) - offset // page
            found = os.fstat(file.fileno())
            assert found.st_blocks * 512 >= pages * page, (number, found)
            assert found.st_size == (max(size, offset + length) if mode == 0 else size)


def test_allocated_room_shows_as_blocks(run: Callable[..., object]) -> None:
    run(allocated_blocks)


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
    run(listing_while_renaming, 1500)


def beside_a_move(folder: Path, mover: str, knows_its_name: bool) -> None:
    """In a directory that is moved, everything beside it is what lies beside its new place."""
    for name in ("old/d", "new"):
        (folder / name).mkdir(parents=True)
    for parent in ("old", "new"):
        for name in ("x", "y", f"only-{parent}"):
            (folder / parent / name).write_text(f"{parent} {name}")
    (folder / "old/d/link").symlink_to("../x")
    directory = os.open(folder / "old/d", os.O_RDONLY | os.O_DIRECTORY)
    os.chdir(folder / "old/d")
    assert Path("../x").read_text() == "old x"
    if mover == "itself":
        os.rename(folder / "old/d", folder / "new/d")
    elif mover == "child":
        subprocess.run(["mv", folder / "old/d", folder / "new/d"], check=True)
    else:
        print("ready", flush=True)
        sys.stdin.readline()
    if knows_its_name:
        assert Path(os.getcwd()) == folder / "new/d"
    assert sorted(os.listdir("..")) == ["d", "only-new", "x", "y"]
    assert Path("link").read_text() == Path("../d/.././x").read_text() == "new x"
    with open(os.open("../only-new", os.O_RDONLY, dir_fd=directory)) as beside:
        assert beside.read() == "new only-new"
    refused(errno.ENOENT, os.stat, "../only-old", dir_fd=directory)
    refused(errno.ENOENT, os.stat, "../only-old")
    assert os.access("../only-new", os.F_OK, dir_fd=directory)
    os.unlink("../y", dir_fd=directory)
    os.rename("../x", "z", src_dir_fd=directory, dst_dir_fd=directory)
    os.mkdir("../made", dir_fd=directory)
    os.close(os.open("../created", os.O_WRONLY | os.O_CREAT, 0o644, dir_fd=directory))
    os.symlink("d/z", "../short")
    os.link("../only-new", "linked")
    os.chmod("../created", 0o600)
    assert Path("../short").read_text() == Path("z").read_text() == "new x"
    assert sorted(os.listdir(folder / "old")) == ["only-old", "x", "y"]
    assert sorted(os.listdir(folder / "new")) == ["created", "d", "made", "only-new", "short"]
    # The directory can be moved on, and back over an empty one.
    (folder / "old/d").mkdir()
    os.rename("../../new/d", "../../old/d")
    assert sorted(os.listdir("..")) == ["d", "only-old", "x", "y"]


@pytest.mark.parametrize("mover", ["itself", "child"])
def test_beside_a_directory_that_moved_lies_its_new_parent(
    run: Callable[..., object], request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, mover: str
) -> None:
    """`cd tmp/run; mv` of that directory; `rm ../index` removed the index of its old parent."""
    # One way runs in this process, whose own directory comes back at the end.
    monkeypatch.chdir(".")
    run(beside_a_move, mover, PREFIX not in request.node.name)


@pytest.mark.parametrize("mover", [SECOND_MOUNT, *ALL])
@pytest.mark.parametrize("name", [SECOND_MOUNT, *ALL])
def test_a_process_sees_that_another_client_moved_its_directory(
    way_by: Callable[[str], Way], name: str, mover: str
) -> None:
    """Servers tell mounts of the move before its reply; `..` led into the old parent, and a rename answered ESTALE for ever."""
    way, other = way_by(name), way_by(mover)
    with way.start(*way.python(beside_a_move, "another", name != PREFIX)) as child:
        assert child.stdout
        assert child.stdout.readline() == "ready\n", child.communicate()
        other.run("mv", other.folder / "old/d", other.folder / "new/d")
        _, err = child.communicate("go on\n", timeout=PATIENCE_SECONDS)
    assert child.returncode == 0, err


def changed_names(folder: Path, waits: bool) -> None:
    """Renames and exchanges of names whose kinds changed since this process looked."""
    for name in ("a", "b", "c", "f"):
        (folder / name).write_text(name)
    for name in ("dd", "e"):
        (folder / name).mkdir()
    seen = sorted(entry.name for entry in os.scandir(folder) if entry.stat().st_ino)
    assert seen == ["a", "b", "c", "dd", "e", "f"]
    change = "rm b c f; mkdir b c f; rmdir e; echo new > e"
    if waits:
        print(change, flush=True)
        sys.stdin.readline()
    else:
        subprocess.run(["sh", "-ec", change], cwd=folder, check=True)
    refused(errno.EISDIR, os.rename, folder / "a", folder / "b")
    libc.renameat2(folder / "a", folder / "b", libc.EXCHANGE)
    os.rename(folder / "dd", folder / "c")
    os.rename(folder / "f", folder / "g")
    refused(errno.ENOTDIR, os.rename, folder / "g", folder / "e")
    os.rename(folder / "e", folder / "h")
    kinds = {entry.name: entry.is_dir() for entry in os.scandir(folder)}
    assert kinds == {"a": True, "b": False, "c": True, "g": True, "h": False}


def test_names_whose_kind_changed_are_renamed(run: Callable[..., object]) -> None:
    run(changed_names, False)


@pytest.mark.parametrize("changer", [SECOND_MOUNT, *ALL])
@pytest.mark.parametrize("name", [SECOND_MOUNT, *ALL])
def test_names_whose_kind_another_client_changed_are_renamed(
    way_by: Callable[[str], Way], name: str, changer: str
) -> None:
    way, other = way_by(name), way_by(changer)
    with way.start(*way.python(changed_names, True)) as child:
        assert child.stdout
        other.shell(child.stdout.readline())
        _, err = child.communicate("go on\n", timeout=PATIENCE_SECONDS)
    assert child.returncode == 0, err


def replace_for_ever(folder: Path) -> None:
    """Replace a file and a link under their names, until the end of the input."""
    print("replacing", flush=True)
    threading.Thread(target=lambda: (sys.stdin.read(), os._exit(0)), daemon=True).start()
    while True:
        (folder / "file-new").touch()
        os.rename(folder / "file-new", folder / "file")
        os.symlink("file", folder / "link-new")
        os.rename(folder / "link-new", folder / "link")


def use_replaced_names(folder: Path, rounds: int) -> None:
    calls: list[Callable[[], object]] = [
        lambda: os.close(os.open(folder / "file", os.O_RDONLY)),
        lambda: os.close(os.open(folder / "link", os.O_RDWR)),
        lambda: os.stat(folder / "file"),
        lambda: os.stat(folder / "link"),
        lambda: os.lstat(folder / "link"),
        lambda: os.readlink(folder / "link"),
        lambda: os.chmod(folder / "file", 0o600),
        lambda: os.listxattr(folder / "file"),
        lambda: os.truncate(folder / "file", 0),
    ]
    for _ in range(rounds):
        for call in calls:
            call()
    assert os.access(folder / "file", os.R_OK)


@pytest.mark.parametrize("name", [SECOND_MOUNT, *ALL])
def test_names_that_are_replaced_over_and_over_are_there(way_by: Callable[[str], Way], name: str) -> None:
    """The kernel asked for an inode that was gone by then, and began again only once: 16 of 6,498 calls answered ESTALE."""
    way, other = way_by(name), way_by(PREFIX)
    other.shell("touch file; ln -s file link")
    with other.start(*other.python(replace_for_ever)) as replacer:
        assert replacer.stdout
        assert replacer.stdout.readline() == "replacing\n"
        way.call(use_replaced_names, 200)
        assert replacer.poll() is None, replacer.communicate()
        replacer.communicate("")
