"""Files that `weir run` opens past the kernel beside a mount: which calls have the kernel open them, and what stays the same then."""

import array
import ctypes
import errno
import fcntl
import mmap
import os
import select
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import libc
import pytest
from libc import refused
from store import Store
from ways import MOUNT, PRELOAD, Way, make_way, user_way

PATH_ONLY = 0o10000000
BYTES = b"0123456789"
STATIC = "int puts(const char *); int main(int count, char **words) { return count > 1 ? puts(words[1]) < 0 : 1; }\n"
SYNCHRONIZED = 0x2
"""`RWF_DSYNC` of preadv2(2)."""
IO_URING_SETUP = 425


def is_stand_in(descriptor: int) -> bool:
    """Whether the kernel has not opened the file. `fdinfo` is read without a call on the descriptor itself."""
    flags = Path(f"/proc/self/fdinfo/{descriptor}").read_text().split("flags:")[1].split()[0]
    return int(flags, 8) & PATH_ONLY != 0


def kernels_offset(descriptor: int) -> int:
    return int(Path(f"/proc/self/fdinfo/{descriptor}").read_text().split("pos:")[1].split()[0])


def made(path: Path, flags: int = 0) -> int:
    """A file with ten bytes, whose offset is 4."""
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | flags, 0o640)
    assert os.write(file, BYTES) == len(BYTES)
    assert os.lseek(file, 4, os.SEEK_SET) == 4
    return file


def in_child(act: Callable[[], None]) -> None:
    child = os.fork()
    if child == 0:
        try:
            act()
            os._exit(0)
        except BaseException as error:
            print(repr(error), file=sys.stderr, flush=True)
            os._exit(1)
    assert os.waitpid(child, 0)[1] == 0


def _map(file: int, path: Path) -> None:
    with mmap.mmap(file, len(BYTES)) as mapped:
        assert mapped[:] == BYTES


def _map_privately(file: int, path: Path) -> None:
    with mmap.mmap(file, len(BYTES), mmap.MAP_PRIVATE) as mapped:
        assert mapped[:] == BYTES


def _send_file(file: int, path: Path) -> None:
    reading, writing = os.pipe()
    assert os.sendfile(writing, file, 0, 3) == 3
    assert os.read(reading, 9) == b"012"


def _splice(file: int, path: Path) -> None:
    reading, writing = os.pipe()
    assert os.splice(file, writing, 3, offset_src=1) == 3
    assert os.read(reading, 9) == b"123"


def _pass_on(file: int, path: Path) -> None:
    one, other = socket.socketpair()
    with one, other:
        one.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [file]))])
        _, ancillary, *_ = other.recvmsg(1, 64)
        (received,) = array.array("i", ancillary[0][2])
        assert os.pread(received, 3, 4) == b"456"
        assert os.lseek(received, 0, os.SEEK_CUR) == 4
        os.close(received)


def _fork(file: int, path: Path) -> None:
    def child() -> None:
        assert os.pread(file, 20, 0) == BYTES
        assert os.lseek(file, 0, os.SEEK_CUR) == 4

    in_child(child)


def _inherit(file: int, path: Path) -> None:
    code = (
        "import os, sys; n = int(sys.argv[1]); sys.exit(os.pread(n, 20, 0) != b'0123456789' or os.lseek(n, 0, 1) != 4)"
    )
    subprocess.run([sys.executable, "-c", code, str(file)], pass_fds=[file], check=True)


def _spawn(file: int, path: Path) -> None:
    os.set_inheritable(file, True)
    child = os.posix_spawn("/bin/sh", ["sh", "-c", f"test -e /proc/self/fd/{file}"], os.environ)
    assert os.waitpid(child, 0)[1] == 0


def _command(file: int, path: Path) -> None:
    assert os.system("true") == 0


def _name(file: int, path: Path) -> None:
    other = os.open(f"/proc/self/fd/{file}", os.O_RDONLY)
    assert os.read(other, 20) == BYTES
    os.close(other)


def _own_name(file: int, path: Path) -> None:
    assert Path(f"/proc/{os.getpid()}/fd/{file}").read_bytes() == BYTES


def _read_name(file: int, path: Path) -> None:
    assert os.readlink(f"/proc/self/fd/{file}") == str(path)


def _stream(file: int, path: Path) -> None:
    fdopen = ctypes.CDLL(None).fdopen
    fdopen.restype = ctypes.c_void_p
    assert fdopen(file, b"r+")


def _poll(file: int, path: Path) -> None:
    poll = select.poll()
    poll.register(file, select.POLLIN)
    assert poll.poll(0) == [(file, select.POLLIN)]


def _select(file: int, path: Path) -> None:
    assert select.select([file], [file], [], 0) == ([file], [file], [])


def _lock(file: int, path: Path) -> None:
    fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _flags(file: int, path: Path) -> None:
    fcntl.fcntl(file, fcntl.F_SETFL, os.O_NONBLOCK)
    assert fcntl.fcntl(file, fcntl.F_GETFL) & os.O_NONBLOCK


def _lease(file: int, path: Path) -> None:
    refused(errno.EINVAL, fcntl.fcntl, file, fcntl.F_SETLEASE, 77)


def _allocate(file: int, path: Path) -> None:
    libc.fallocate(file, libc.KEEP_SIZE, 0, 4096)


def _watch(file: int, path: Path) -> None:
    libc.call("inotify_add_watch", libc.call("inotify_init"), path, 2)
    os.lseek(file, 4, os.SEEK_SET)


def _identity(file: int, path: Path) -> None:
    os.setgroups(os.getgroups())


def _view(file: int, path: Path) -> None:
    libc.call("unshare", 0x200)


def _ring(file: int, path: Path) -> None:
    # A ring of no entries is refused. From now on all opens are the kernel's.
    refused((errno.EINVAL, errno.EFAULT, errno.ENOSYS, errno.EPERM), libc.call, "syscall", IO_URING_SETUP, 0, 0)
    later = os.open(path, os.O_RDONLY)
    assert not is_stand_in(later)


def _other_call(file: int, path: Path) -> None:
    libc.call("syncfs", file)


def _room(file: int, path: Path) -> None:
    assert os.fstatvfs(file).f_namemax == 255


def _write_durably(file: int, path: Path) -> None:
    assert os.pwritev(file, [BYTES], 0, SYNCHRONIZED) == len(BYTES)


PROMOTED: dict[str, Callable[[int, Path], None]] = {
    "mmap": _map,
    "mmap, private": _map_privately,
    "sendfile": _send_file,
    "splice": _splice,
    "SCM_RIGHTS": _pass_on,
    "fork": _fork,
    "a program that inherits it": _inherit,
    "posix_spawn": _spawn,
    "system": _command,
    "open of its name in /proc": _name,
    "open of its name below the process's number": _own_name,
    "readlink of its name": _read_name,
    "fdopen": _stream,
    "poll": _poll,
    "select": _select,
    "fsync": lambda file, path: os.fsync(file),
    "flock": lambda file, path: fcntl.flock(file, fcntl.LOCK_EX),
    "fcntl lock": _lock,
    "F_SETFL": _flags,
    "F_SETLEASE": _lease,
    "fallocate": _allocate,
    "statfs": _room,
    "flags of pwritev2": _write_durably,
    "inotify": _watch,
    "setgroups": _identity,
    "unshare": _view,
    "io_uring": _ring,
    "syncfs": _other_call,
}
"""Calls for which the kernel opens the file."""


def _truncate(file: int, path: Path) -> None:
    os.ftruncate(file, 20)
    os.ftruncate(file, len(BYTES))


def _duplicate(file: int, path: Path) -> None:
    other = fcntl.fcntl(file, fcntl.F_DUPFD_CLOEXEC, 30)
    assert other >= 30
    assert not os.get_inheritable(other)
    assert is_stand_in(other)
    os.close(other)


def _change(file: int, path: Path) -> None:
    os.fchmod(file, 0o600)
    os.fchown(file, -1, os.getegid())
    os.utime(file, (7, 8))
    assert os.fstat(file).st_mtime == 8
    assert path.stat().st_mode & 0o777 == 0o600


def _attributes(file: int, path: Path) -> None:
    os.setxattr(file, "user.one", b"two")
    assert os.getxattr(path, "user.one") == b"two"


def _copy(file: int, path: Path) -> None:
    other = os.open(path.with_name("copy"), os.O_RDWR | os.O_CREAT)
    assert os.copy_file_range(file, other, 5, 0) == 5
    assert os.read(other, 9) == b""
    assert os.pread(other, 9, 0) == b"01234"
    assert is_stand_in(other)
    os.close(other)


def _seek(file: int, path: Path) -> None:
    assert os.lseek(file, 0, os.SEEK_END) == len(BYTES)
    assert os.lseek(file, 4, os.SEEK_SET) == 4


SERVED: dict[str, Callable[[int, Path], None]] = {
    "pread": lambda file, path: _equal(os.pread(file, 3, 1), b"123"),
    "pwrite": lambda file, path: _equal(os.pwrite(file, b"1", 1), 1),
    "fstat": lambda file, path: _equal(os.fstat(file).st_size, len(BYTES)),
    "F_GETFL": lambda file, path: _equal(fcntl.fcntl(file, fcntl.F_GETFL) & os.O_ACCMODE, os.O_RDWR),
    "F_GETFD": lambda file, path: _equal(fcntl.fcntl(file, fcntl.F_GETFD), fcntl.FD_CLOEXEC),
    "isatty": lambda file, path: _equal(os.isatty(file), False),
    "posix_fadvise": lambda file, path: os.posix_fadvise(file, 0, 0, os.POSIX_FADV_SEQUENTIAL),
    "ftruncate": _truncate,
    "dup": _duplicate,
    "changes of attributes": _change,
    "extended attributes": _attributes,
    "copy_file_range": _copy,
    "lseek": _seek,
}
"""Calls that the client does on a file that the kernel has not opened."""


def _equal(found: object, expected: object) -> None:
    assert found == expected, (found, expected)


def check_one(file: int, other: int) -> None:
    """Both numbers lead to one description, with its bytes and one offset."""
    assert os.lseek(file, 0, os.SEEK_CUR) == os.lseek(other, 0, os.SEEK_CUR) == 4
    assert os.pread(other, 20, 0) == BYTES
    assert os.read(other, 2) == b"45"
    assert os.read(file, 2) == b"67"
    assert os.write(other, b"xy") == 2
    assert os.pread(file, 20, 0) == b"01234567xy"


def promoted(folder: Path, cause: str) -> None:
    path = folder / "file"
    file = made(path)
    other = os.dup(file)
    closed_later = os.dup2(file, 40)
    assert is_stand_in(file)
    assert is_stand_in(other)
    PROMOTED[cause](file, path)
    for number in (file, other, closed_later):
        assert not is_stand_in(number), number
        assert os.get_inheritable(number) == (number == closed_later or (cause == "posix_spawn" and number == file))
    os.close(closed_later)
    check_one(file, other)
    if cause != "fork":
        os.close(file)
        os.close(other)
        assert path.read_bytes() == b"01234567xy"


@pytest.mark.parametrize("cause", PROMOTED)
def test_the_kernel_opens_what_it_needs(fuse: None, shared_store: Store, cause: str) -> None:
    if cause in {"setgroups", "unshare"} and os.geteuid() != 0:
        pytest.skip("only root can become another user")
    way = make_way(PRELOAD, shared_store, f"promoted-{list(PROMOTED).index(cause)}")
    way.call(promoted, cause)


def served(folder: Path) -> None:
    for number, (name, act) in enumerate(SERVED.items()):
        path = folder / f"file-{number}"
        file = made(path)
        other = os.dup(file)
        act(file, path)
        assert is_stand_in(file), name
        assert is_stand_in(other), name
        check_one(file, other)
        os.close(file)
        assert os.pread(other, 2, 8) == b"xy", name
        os.close(other)
        assert path.read_bytes() == b"01234567xy", name


def test_the_client_does_the_usual_calls(fuse: None, shared_store: Store) -> None:
    make_way(PRELOAD, shared_store, "served-past-the-kernel").call(served, served=["open", "read", "write"])


def opened(folder: Path) -> None:
    """Which opens are the client's."""
    path = folder / "file"
    os.close(made(path))
    for flags in (os.O_RDONLY, os.O_WRONLY, os.O_RDWR | os.O_APPEND, os.O_RDWR | os.O_TRUNC, os.O_RDWR | os.O_NONBLOCK):
        file = os.open(path, flags)
        assert is_stand_in(file), flags
        assert fcntl.fcntl(file, fcntl.F_GETFL) & ~0o100000 == flags & ~os.O_TRUNC
        os.close(file)
    assert path.stat().st_size == 0
    for flags in (
        os.O_RDONLY | os.O_TRUNC,
        os.O_RDWR | os.O_SYNC,
        os.O_RDWR | os.O_DIRECT,
        os.O_PATH,
        os.O_RDONLY | os.O_NOATIME,
    ):
        file = os.open(path, flags)
        assert is_stand_in(file) == (flags == os.O_PATH), flags
        os.close(file)
    for kind in (os.O_RDONLY, os.O_DIRECTORY):
        directory = os.open(folder, kind)
        assert not is_stand_in(directory)
        below = os.open("file", os.O_RDWR, dir_fd=directory)
        assert is_stand_in(below)
        os.close(below)
        os.close(directory)
    os.mkfifo(folder / "pipe")
    pipe = os.open(folder / "pipe", os.O_RDWR)
    assert not is_stand_in(pipe)
    path.chmod(0o755)
    program = os.open(path, os.O_WRONLY)
    assert not is_stand_in(program)
    numbers = [os.open(path, os.O_RDONLY) for _ in range(3)]
    assert numbers == [pipe + 2, pipe + 3, pipe + 4], "the lowest free numbers"


def test_opens_of_each_kind(fuse: None, shared_store: Store) -> None:
    make_way(PRELOAD, shared_store, "opens-of-each-kind").call(opened)


def nameless(folder: Path) -> None:
    """The kernel opens the very description, where its path leads elsewhere or nowhere."""
    path = folder / "file"
    for change in ("unlinked", "replaced", "moved", "closed to its owner"):
        file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        os.write(file, BYTES)
        os.lseek(file, 4, os.SEEK_SET)
        if change == "unlinked":
            path.unlink()
        elif change == "replaced":
            (folder / "other").write_bytes(b"other")
            (folder / "other").rename(path)
        elif change == "moved":
            path.rename(folder / "moved")
        else:
            path.chmod(0)
        assert is_stand_in(file), change
        _fork(file, path)
        assert not is_stand_in(file), change
        assert os.read(file, 2) == b"45", change
        assert os.write(file, b"xy") == 2, change
        assert os.pread(file, 20, 0) == b"012345xy89", change
        assert os.fstat(file).st_nlink == (0 if change in {"unlinked", "replaced"} else 1)
        os.close(file)
        for left in folder.iterdir():
            left.unlink()


@pytest.mark.parametrize("uid", [None, 4242])
def test_files_whose_paths_lead_elsewhere(fuse: None, shared_store: Store, uid: int | None) -> None:
    if uid is not None and os.geteuid() != 0:
        pytest.skip("only root can become another user")
    name = f"nameless-{uid}"
    way = make_way(PRELOAD, shared_store, name) if uid is None else of_user(PRELOAD, shared_store, name, uid)
    way.call(nameless)


def claim_name(folder: Path) -> None:
    """Prints the name by which the mount took a file without a name over, and waits."""
    file = os.open(folder / "secret", os.O_RDWR | os.O_CREAT, 0o600)
    os.write(file, b"of another user")
    (folder / "secret").unlink()
    os.fsync(file)
    print(Path(os.readlink(f"/proc/self/fd/{file}").removesuffix(" (deleted)")).name, flush=True)
    sys.stdin.read()


def claimed_by_others(folder: Path, name: str) -> None:
    point = next(parent for parent in folder.parents if parent.is_mount())
    assert name.startswith(".weir-description-")
    flipped = name[:-1] + ("0" if name[-1] != "0" else "1")
    for tried in (name, flipped):
        for flags in (os.O_RDONLY | os.O_CREAT, os.O_RDWR | os.O_CREAT):
            refused((errno.EACCES, errno.ESTALE), os.open, point / tried, flags, 0o600)
    refused(errno.ENOENT, os.open, point / name, os.O_RDONLY)


def test_nobody_claims_the_file_of_another_user(fuse: None, root_only: None, shared_store: Store) -> None:
    """The name of the door is no secret to the user, so it must be worth nothing to others, and changed by its user."""
    owner = of_user(PRELOAD, shared_store, "claimed", 4242)
    with owner.start(*owner.python(claim_name)) as holder:
        assert holder.stdin
        assert holder.stdout
        name = holder.stdout.readline().strip()
        # The library makes a file of this name like any other: the name means something to a mount alone.
        of_user(MOUNT, shared_store, "thief", 4343).call(claimed_by_others, name)
        holder.communicate("")
        assert holder.returncode == 0


def of_user(name: str, store: Store, folder: str, uid: int) -> Way:
    """A way of another user, with a fresh directory of that user."""
    (store.mount / folder).mkdir()
    os.chown(store.mount / folder, uid, uid)
    return user_way(name, store, folder, uid)


@pytest.fixture(scope="module")
def static(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("static")
    (folder / "say.c").write_text(STATIC)
    subprocess.run(["gcc", "-static", "-o", folder / "say", folder / "say.c"], check=True)
    folder.chmod(0o755)
    return folder / "say"


def test_programs_without_the_library_share_offsets(way: Way, static: Path) -> None:
    """In `(one; two) > file` the second program must go on behind the first."""
    if way.name not in {PRELOAD, MOUNT}:
        pytest.skip("static programs need a mount")
    script = """
        ("$1" one; echo two; "$1" three; /bin/echo four) > file
        exec 5>> file; "$1" five >&5; echo six >&5; "$1" seven >&5; exec 5>&-
        exec 6< file; read -r first <&6; "$1" "$first" > again; head -n 1 <&6 >> again; cat <&6 > rest; exec 6<&-
        cat file again
    """
    assert way.shell(script, static).split() == [*["one", "two", "three", "four", "five", "six", "seven"], "one", "two"]


def closed_by_locks(folder: Path) -> None:
    """The close of any descriptor of a file releases the process's locks on it, also that of a stand-in."""
    path = folder / "file"
    file = made(path)
    fcntl.lockf(file, fcntl.LOCK_EX)
    in_child(
        lambda: refused(
            (errno.EAGAIN, errno.EACCES), fcntl.lockf, os.open(path, os.O_RDWR), fcntl.LOCK_EX | fcntl.LOCK_NB
        )
    )
    os.close(os.open(path, os.O_RDONLY))
    in_child(lambda: fcntl.lockf(os.open(path, os.O_RDWR), fcntl.LOCK_EX | fcntl.LOCK_NB))


def test_a_close_releases_process_locks(way: Way) -> None:
    way.call(closed_by_locks)


def at_the_limit(folder: Path) -> None:
    """The last number of the process is a file's; the kernel opens the file all the same."""
    import resource

    file = made(folder / "file")
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (file + 1, hard))
    refused(errno.EMFILE, os.open, folder / "file", os.O_RDONLY)
    os.fsync(file)
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == (file + 1, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    assert not is_stand_in(file)
    assert os.read(file, 2) == b"45"


def test_the_last_number(fuse: None, shared_store: Store) -> None:
    make_way(PRELOAD, shared_store, "last-number").call(at_the_limit)


def program_numbers() -> set[str]:
    """The open descriptors but those of the library, which have high numbers."""
    return {number for number in os.listdir("/proc/self/fd") if int(number) < 1000}


def with_threads(folder: Path) -> None:
    """Threads open, write, duplicate and close files while others make children: every byte arrives, no number is lost."""
    import threading

    before = program_numbers()
    failures: list[BaseException] = []

    def writes(name: str) -> None:
        try:
            for turn in range(60):
                file = os.open(folder / f"{name}-{turn}", os.O_RDWR | os.O_CREAT)
                other = os.dup(file)
                assert os.write(file, BYTES) == len(BYTES)
                os.close(file)
                assert os.write(other, BYTES) == len(BYTES)
                assert os.pread(other, 30, 0) == BYTES + BYTES
                os.close(other)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=writes, args=(f"thread-{number}",)) for number in range(4)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        subprocess.run(["/bin/true"], check=True)
    for thread in threads:
        thread.join()
    assert not failures, failures
    assert program_numbers() == before
    assert all(path.read_bytes() == BYTES + BYTES for path in folder.iterdir())
    assert len(list(folder.iterdir())) == 240


def test_threads_and_children(fuse: None, shared_store: Store) -> None:
    make_way(PRELOAD, shared_store, "threads-and-children").call(with_threads)
