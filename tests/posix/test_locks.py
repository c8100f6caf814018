"""Locks exclude each other across processes, ways into the store and mounts of it."""

import errno
import fcntl
import os
import signal
import sys
import time
from pathlib import Path

import pytest
from file_locks import KINDS, lock
from libc import refused
from store import Store
from waits import PATIENCE_SECONDS
from ways import ALL, MOUNT, MOUNTED, PREFIX, PRELOAD, Way, has_fuse, make_way


def hold(folder: Path, kind: str, exclusive: bool) -> None:
    """Hold a lock until a line comes."""
    file = os.open(folder / "file", os.O_RDWR | os.O_CREAT, 0o600)
    # Without a mount the locks of a process that has ended go when its server sees that, which may be a moment later.
    lock(file, kind, exclusive, wait=True)
    print("held", flush=True)
    sys.stdin.readline()
    os.close(file)
    print("released", flush=True)
    sys.stdin.readline()


def meet(folder: Path, kind: str, exclusive: bool) -> None:
    """See the lock of `hold`, from another process."""
    file = os.open(folder / "file", os.O_RDWR)
    refused(errno.EAGAIN, lock, file, kind, exclusive=True)
    if exclusive:
        refused(errno.EAGAIN, lock, file, kind, exclusive=False)
    else:
        lock(file, kind, exclusive=False)
    other = "flock" if kind != "flock" else "process"
    lock(file, other, exclusive=True)
    if kind != "flock":
        description = "description" if kind == "process" else "process"
        refused(errno.EAGAIN, lock, file, description, exclusive=True)


def take(folder: Path, kind: str) -> None:
    """Wait for the lock and tell when it is there."""
    file = os.open(folder / "file", os.O_RDWR)
    print("asking", flush=True)
    lock(file, kind, exclusive=True, wait=True)
    print("taken", flush=True)


def pair(shared_store: Store, one: str, other: str) -> tuple[Way, Way]:
    if not has_fuse() and {one, other} != {PREFIX}:
        pytest.skip("there is no /dev/fuse")
    first = make_way(one, shared_store, f"locks-{one}-{other}-{time.monotonic_ns()}")
    return first, Way(other, shared_store, first.sibling(other))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("one", "other"), [(MOUNT, MOUNT), (PRELOAD, MOUNT), (PREFIX, PRELOAD), (MOUNT, PREFIX)])
def test_locks_exclude_across_ways(shared_store: Store, one: str, other: str, kind: str) -> None:
    first, second = pair(shared_store, one, other)
    for exclusive in (True, False):
        exclusion(first, second, kind, exclusive)


@pytest.mark.parametrize("kind", KINDS)
def test_locks_exclude_across_mounts(shared_store: Store, second_mount: Path, kind: str) -> None:
    first = make_way(MOUNT, shared_store, f"locks-mounts-{kind}")
    second = Way(MOUNT, shared_store, second_mount / first.folder.name)
    exclusion(first, second, kind, exclusive=True)
    exclusion(second, first, kind, exclusive=True)


def exclusion(first: Way, second: Way, kind: str, exclusive: bool) -> None:
    with first.start(*first.python(hold, kind, exclusive)) as holder:
        assert holder.stdin
        assert holder.stdout
        assert holder.stdout.readline() == "held\n", holder.communicate(timeout=PATIENCE_SECONDS)
        second.call(meet, kind, exclusive)
        with second.start(*second.python(take, kind)) as waiter:
            assert waiter.stdout
            assert waiter.stdout.readline() == "asking\n"
            holder.stdin.write("\n")
            holder.stdin.flush()
            assert waiter.stdout.readline() == "taken\n"
            assert waiter.wait(timeout=PATIENCE_SECONDS) == 0
        assert holder.communicate("\n", timeout=PATIENCE_SECONDS)[0] == "released\n"


@pytest.mark.parametrize("way", ALL, indirect=True)
@pytest.mark.parametrize("kind", KINDS)
def test_locks_of_a_killed_process_go(way: Way, kind: str) -> None:
    """The waiter gets the lock when its holder is killed: nothing else tells it."""
    holder = way.start(*way.python(hold, kind, True), start_new_session=True)
    assert holder.stdout
    assert holder.stdout.readline() == "held\n"
    with way.start(*way.python(take, kind)) as waiter:
        assert waiter.stdout
        assert waiter.stdout.readline() == "asking\n"
        os.killpg(holder.pid, signal.SIGKILL)
        holder.communicate(timeout=PATIENCE_SECONDS)
        assert waiter.stdout.readline() == "taken\n"
        assert waiter.wait(timeout=PATIENCE_SECONDS) == 0


def deadlock(folder: Path) -> None:
    """Two processes that wait for each other's lock: one of them is told."""
    file = os.open(folder / "file", os.O_RDWR | os.O_CREAT, 0o600)
    ours, theirs = os.pipe(), os.pipe()
    child = os.fork()
    mine, other = (0, 1) if child else (1, 0)
    lock(file, "process", exclusive=True, start=mine, length=1)
    os.write((ours if child else theirs)[1], b"x")
    os.read((theirs if child else ours)[0], 1)
    try:
        lock(file, "process", exclusive=True, wait=True, start=other, length=1)
        result = 0
    except OSError as error:
        assert error.errno == errno.EDEADLK, error
        result = 1
    if child == 0:
        os._exit(result)
    os.close(file)
    told = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert (result, told) in ((0, 1), (1, 0)), (result, told)


@pytest.mark.parametrize("way", MOUNTED, indirect=True)
def test_a_deadlock_is_told(way: Way) -> None:
    way.call(deadlock, served=["open", "lock"])


def description_outlives_its_process(folder: Path) -> None:
    """A daemon locks a file and forks; the child that has the description keeps the lock when the parent ends."""
    ready, going = os.pipe(), os.pipe()
    if (parent := os.fork()) == 0:
        file = os.open(folder / "file", os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.flock(file, fcntl.LOCK_EX)
        if os.fork() == 0:
            os.write(ready[1], b"x")
            os.close(going[1])
            os.read(going[0], 1)
            os._exit(0)
        os.read(ready[0], 1)
        os._exit(0)
    os.waitpid(parent, 0)
    other = os.open(folder / "file", os.O_RDWR)
    refused(errno.EAGAIN, fcntl.flock, other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.close(going[0])
    os.close(going[1])
    fcntl.flock(other, fcntl.LOCK_EX)


@pytest.mark.parametrize("way", ALL, indirect=True)
def test_a_lock_goes_with_its_last_descriptor(way: Way) -> None:
    way.call(description_outlives_its_process)


def directories(folder: Path) -> None:
    (folder / "d").mkdir()
    one, other = (os.open(folder / "d", os.O_RDONLY | os.O_DIRECTORY) for _ in range(2))
    fcntl.flock(one, fcntl.LOCK_EX)
    refused(errno.EAGAIN, fcntl.flock, other, fcntl.LOCK_SH | fcntl.LOCK_NB)
    fcntl.flock(one, fcntl.LOCK_SH)
    fcntl.flock(other, fcntl.LOCK_SH | fcntl.LOCK_NB)
    lock(one, "process", exclusive=False)
    refused(errno.EBADF, lock, one, "process", exclusive=True)
    os.close(one)
    fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)


@pytest.mark.parametrize("way", ALL, indirect=True)
def test_directories_are_locked_as_files_are(way: Way) -> None:
    way.call(directories)


def unlisted(folder: Path) -> None:
    for kind in KINDS:
        file = os.open(folder / f"unlisted-{kind}", os.O_RDWR | os.O_CREAT, 0o600)
        lock(file, kind, exclusive=True)
        assert f":{os.fstat(file).st_ino} " not in Path("/proc/locks").read_text(), (
            "limits.md says that it is not listed"
        )
        os.close(file)


@pytest.mark.parametrize("way", MOUNTED, indirect=True)
def test_the_list_of_locks_is_the_kernels_own(way: Way) -> None:
    way.call(unlisted)


def test_locks_on_directories_are_seen_by_programs_of_their_mount(shared_store: Store, second_mount: Path) -> None:
    """What limits.md says: the kernel does not ask a mount about locks on directories."""
    first = make_way(MOUNT, shared_store, "locks-directories")
    holder, other = (os.open(first.folder, os.O_RDONLY | os.O_DIRECTORY) for _ in range(2))
    beyond = os.open(second_mount / first.folder.name, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(holder, fcntl.LOCK_EX)
        with pytest.raises(BlockingIOError):
            fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
        fcntl.flock(beyond, fcntl.LOCK_EX | fcntl.LOCK_NB)
    finally:
        for descriptor in (holder, other, beyond):
            os.close(descriptor)
