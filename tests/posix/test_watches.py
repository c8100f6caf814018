"""Watches of inotify: a process that watches the store is told of all that it does there, by each way into it."""

import errno
import os
import struct
from collections.abc import Callable
from pathlib import Path

import libc
from libc import refused
from ways import PREFIX, Way

ACCESS, MODIFY, ATTRIB, CLOSE_WRITE, MOVED_FROM, MOVED_TO = 0x1, 0x2, 0x4, 0x8, 0x40, 0x80
CREATE, DELETE = 0x100, 0x200
IS_DIRECTORY = 0x40000000
"""Of linux/inotify.h."""
WATCHED = ACCESS | MODIFY | ATTRIB | CLOSE_WRITE | MOVED_FROM | MOVED_TO | CREATE | DELETE
HEAD = struct.Struct("iIII")


def events(instance: int) -> set[tuple[int, str]]:
    """What came since the last look: events are there when the call that raises them returns."""
    found = set()
    try:
        while True:
            told = os.read(instance, 65_536)
            while told:
                _, mask, _, length = HEAD.unpack_from(told)
                name = told[HEAD.size : HEAD.size + length].rstrip(b"\0").decode()
                found.add((mask & ~IS_DIRECTORY, name))
                told = told[HEAD.size + length :]
    except BlockingIOError:
        return found


def own_changes(folder: Path) -> None:
    """What the fast path changed raised no event, so a program that watched its own folder waited for ever."""
    file = os.open(folder / "before", os.O_RDWR | os.O_CREAT, 0o600)
    assert os.write(file, b"one ") == 4
    instance = libc.call("inotify_init1", os.O_NONBLOCK | os.O_CLOEXEC)
    assert libc.call("inotify_add_watch", instance, folder, WATCHED) == 1

    def told(*wanted: tuple[int, str]) -> None:
        found = events(instance)
        assert set(wanted) <= found, f"{wanted} of {found}"

    assert os.write(file, b"two") == 3
    told((MODIFY, "before"))
    assert os.pread(file, 100, 0) == b"one two"
    assert os.lseek(file, 0, os.SEEK_CUR) == 7, "the offset goes on where it was"
    told((ACCESS, "before"))
    assert os.pwrite(file, b"x", 0) == 1
    told((MODIFY, "before"))
    os.ftruncate(file, 2)
    told((MODIFY, "before"))
    os.close(file)
    told((CLOSE_WRITE, "before"))
    os.close(os.open(folder / "new", os.O_WRONLY | os.O_CREAT, 0o600))
    told((CREATE, "new"), (CLOSE_WRITE, "new"))
    os.truncate(folder / "before", 1)
    told((MODIFY, "before"))
    changes: list[Callable[[], None]] = [
        lambda: os.chmod(folder / "new", 0o640),
        lambda: os.utime(folder / "new", (1, 1)),
        lambda: os.setxattr(folder / "new", "user.x", b"1"),
    ]
    for change in changes:
        change()
        told((ATTRIB, "new"))
    os.rename(folder / "new", folder / "moved")
    told((MOVED_FROM, "new"), (MOVED_TO, "moved"))
    os.link(folder / "moved", folder / "linked")
    os.symlink("moved", folder / "pointing")
    os.mkdir(folder / "directory")
    told((CREATE, "linked"), (CREATE, "pointing"), (CREATE, "directory"))
    for name in ("moved", "linked", "pointing"):
        os.unlink(folder / name)
        told((DELETE, name))
    os.rmdir(folder / "directory")
    told((DELETE, "directory"))
    child = os.fork()
    if child == 0:
        os.close(os.open(folder / "child", os.O_WRONLY | os.O_CREAT, 0o600))
        os.unlink(folder / "child")
        os._exit(0)
    assert os.waitpid(child, 0) == (child, 0)
    told((CREATE, "child"), (DELETE, "child"))


def refused_watch(folder: Path) -> None:
    """Without a mount no kernel knows the folder: the watch is refused, and was ENOENT for a folder that is there."""
    instance = libc.call("inotify_init1", os.O_NONBLOCK | os.O_CLOEXEC)
    refused(errno.EOPNOTSUPP, libc.call, "inotify_add_watch", instance, folder, WATCHED)
    refused(errno.ENOENT, libc.call, "inotify_add_watch", instance, folder / "missing", WATCHED)
    assert libc.call("inotify_add_watch", instance, Path("/tmp"), WATCHED) == 1


def test_a_process_is_told_of_what_it_changes(way: Way) -> None:
    way.call(refused_watch if way.name == PREFIX else own_changes)


def watch_of_the_host(folder: Path, elsewhere: str) -> None:
    instance = libc.call("inotify_init1", os.O_NONBLOCK | os.O_CLOEXEC)
    assert libc.call("inotify_add_watch", instance, Path(elsewhere), WATCHED) == 1
    file = os.open(folder / "file", os.O_RDWR | os.O_CREAT, 0o600)
    assert os.write(file, b"words") == 5
    assert os.pread(file, 5, 0) == b"words"


def test_a_watch_outside_the_store_leaves_the_fast_path(way: Way, tmp_path: Path) -> None:
    way.call(watch_of_the_host, str(tmp_path), served=["open", "read", "write"])
