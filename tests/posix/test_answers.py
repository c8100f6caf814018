"""Answers of calls on the store that programs rely on and seldom look at: bad addresses, unknown flags, limits, ways."""

import contextlib
import ctypes
import errno
import fcntl
import mmap
import os
import resource
import select
import signal
import struct
import termios
from collections.abc import Callable
from pathlib import Path

import libc
import pytest
from libc import refused
from ways import PREFIX, Way

PAGE = mmap.PAGESIZE
BAD = 1
"""An address at which nothing ever is."""
BEHIND = 4 << 20
"""Bytes that cannot be touched: more than the longest transfer here, so that none ends in another mapping."""


def forbidden() -> int:
    """The address behind a page that can be touched; from there on no byte can, for `BEHIND` bytes."""
    library = ctypes.CDLL(None, use_errno=True)
    library.mmap.restype = ctypes.c_void_p
    library.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    start = library.mmap(
        None, PAGE + BEHIND, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, 0
    )
    assert libc.call("mprotect", start + PAGE, BEHIND, 0) == 0
    return int(start) + PAGE


def vector(*parts: tuple[int, int]) -> bytes:
    return b"".join(struct.pack("PN", address, length) for address, length in parts)


def bad_addresses(folder: Path) -> None:
    """A pointer of the program's that leads nowhere is EFAULT; it was EIO or the end of the program."""
    file = os.open(folder / "file", os.O_RDWR | os.O_CREAT, 0o600)
    assert os.write(file, bytes(range(256)) * 64) == 16_384
    page = forbidden()
    for address in (BAD, page):
        for length in (8, 100_000, 3 << 20):
            for name in ("read", "write"):
                os.lseek(file, 0, os.SEEK_SET)
                refused(errno.EFAULT, libc.call, name, file, address, length)
                assert os.lseek(file, 0, os.SEEK_CUR) == 0, "the offset stays"
                refused(errno.EFAULT, libc.call, f"p{name}", file, address, length, 0)
        for name in ("readv", "writev"):
            os.lseek(file, 0, os.SEEK_SET)
            refused(errno.EFAULT, libc.call, name, file, vector((address, 8), (page - PAGE, 8)), 2)
            refused(errno.EFAULT, libc.call, name, file, address, 2)
            refused(errno.EFAULT, libc.call, f"p{name}", file, vector((address, 8)), 1, 0)
        refused(errno.EFAULT, libc.call, "fstat", file, address)
        refused(errno.EFAULT, libc.call, "stat", folder / "file", address)
        refused(errno.EFAULT, libc.call, "stat", address, page - PAGE)
        refused(errno.EFAULT, libc.call, "open", address, os.O_RDONLY)
        for name in ("link", "rename"):
            refused(errno.EFAULT, libc.call, name, folder / "file", address)
            refused(errno.EFAULT, libc.call, name, address, folder / "file")
        refused(errno.ENOENT, libc.call, "link", folder / "missing", address)
        refused(errno.EFAULT, libc.call, "setxattr", folder / "file", b"user.a", address, 8, 0)
        os.setxattr(file, "user.a", b"12345678")
        refused(errno.EFAULT, libc.call, "getxattr", folder / "file", b"user.a", address, 8)
        refused(errno.EFAULT, libc.call, "futimens", file, address)
        refused(errno.EFAULT, libc.call, "fcntl", file, fcntl.F_GETLK, address)
    assert os.pread(file, 300, 0) == bytes(range(256)) + bytes(range(44)), "nothing was written"
    # The part that can be touched is moved, as the kernel does.
    os.lseek(file, 0, os.SEEK_SET)
    ctypes.memset(page - PAGE, ord("x"), PAGE)
    assert 0 < libc.call("write", file, page - 100, 200) <= 100
    os.lseek(file, 256, os.SEEK_SET)
    assert 0 < libc.call("read", file, page - 50, 8000) <= 50
    assert ctypes.string_at(page - 50, 3) == bytes(range(3))
    other = os.open(folder / "file", os.O_RDONLY)
    assert os.pread(other, 3, 0) == b"xxx", "and the file is well"


def test_bad_addresses(way: Way) -> None:
    way.call(bad_addresses)


def unknown_flags(folder: Path) -> None:
    path = folder / "file"
    path.write_bytes(b"x")
    answer = ctypes.create_string_buffer(512)
    refused(errno.EINVAL, libc.call, "fstatat", libc.AT_FDCWD, path, answer, 0x4000000)
    refused(errno.EINVAL, libc.call, "statx", libc.AT_FDCWD, path, 0x4000000, 0x7FF, answer)
    refused(errno.EINVAL, libc.call, "statx", libc.AT_FDCWD, path, 0, 0x80000000, answer)
    refused(errno.EINVAL, libc.call, "fchownat", libc.AT_FDCWD, path, -1, -1, 0x4000000)
    refused(errno.EINVAL, libc.call, "unlinkat", libc.AT_FDCWD, path, 0x4000000)
    refused(errno.EINVAL, libc.call, "linkat", libc.AT_FDCWD, path, libc.AT_FDCWD, folder / "new", 0x4000000)
    refused(errno.EINVAL, libc.call, "utimensat", libc.AT_FDCWD, path, None, 0x4000000)
    refused(errno.EINVAL, libc.renameat2, path, folder / "new", 0x100)
    assert path.read_bytes() == b"x"


def test_unknown_flags(way: Way) -> None:
    way.call(unknown_flags)


def partial_unlock(folder: Path) -> None:
    """After a part of a lock is released, the rest is told with the process that holds it."""
    file = os.open(folder / "file", os.O_RDWR | os.O_CREAT, 0o600)

    def ask(kind: int, command: int, start: int, length: int) -> tuple[int, ...]:
        answer = fcntl.fcntl(file, command, struct.pack("hhqqi4x", kind, os.SEEK_SET, start, length, 0))
        return struct.unpack("hhqqi4x", answer)

    ask(fcntl.F_WRLCK, fcntl.F_SETLK, 0, 100)
    ask(fcntl.F_UNLCK, fcntl.F_SETLK, 10, 10)
    holder = os.getpid()
    if (child := os.fork()) == 0:
        told = ask(fcntl.F_WRLCK, fcntl.F_GETLK, 40, 5)
        os._exit(0 if told == (fcntl.F_WRLCK, os.SEEK_SET, 20, 80, holder) else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_partial_unlock(way: Way) -> None:
    way.call(partial_unlock)


def working_directories(folder: Path) -> None:
    """The working directory is where the way led, not what it was called."""
    (folder / "deep" / "inner").mkdir(parents=True)
    (folder / "link").symlink_to("deep/inner")
    (folder / "other").symlink_to(folder / "deep")
    for way, place in [
        ("link", "deep/inner"),
        ("link/..", "deep"),
        ("other", "deep"),
        ("other/inner/..", "deep"),
        ("deep/./inner/", "deep/inner"),
    ]:
        os.chdir(folder)
        os.chdir(way)
        assert Path.cwd() == folder / place, way
        os.chdir(folder / way)
        assert Path.cwd() == folder / place, way
        descriptor = os.open(folder / way, os.O_RDONLY)
        os.chdir(folder)
        os.fchdir(descriptor)
        assert Path.cwd() == folder / place, way
        os.close(descriptor)
    os.chdir(folder / "link")
    os.chdir("..")
    assert Path.cwd() == folder / "deep"
    Path("made").write_bytes(b"x")
    assert (folder / "deep" / "made").exists()


def test_working_directories(way: Way) -> None:
    way.call(working_directories)


def readiness(folder: Path, is_prefix: bool) -> None:
    """A file is always ready; a number that is not open is told as such."""
    file = os.open(folder / "file", os.O_RDWR | os.O_CREAT, 0o600)
    read_end, write_end = os.pipe()
    waiting = select.poll()
    waiting.register(file, select.POLLIN | select.POLLOUT)
    waiting.register(read_end, select.POLLIN)
    assert waiting.poll(60_000) == [(file, select.POLLIN | select.POLLOUT)]
    os.write(write_end, b"x")
    assert dict(waiting.poll(60_000)) == {file: select.POLLIN | select.POLLOUT, read_end: select.POLLIN}
    waiting.register(999, select.POLLIN)
    assert dict(waiting.poll(60_000))[999] == select.POLLNVAL
    assert select.select([file, read_end], [file], [file], 60) == ([file, read_end], [file], [])
    closed = os.dup(file)
    os.close(closed)
    refused(errno.EBADF, select.select, [closed], [], [], 60)
    if is_prefix:
        with select.epoll() as epoll:
            refused(errno.EPERM, epoll.register, file)


def test_readiness(way: Way) -> None:
    way.call(readiness, way.name == PREFIX)


def control(folder: Path) -> None:
    path = folder / "file"
    path.write_bytes(b"0123456789")
    file = os.open(path, os.O_RDWR)
    refused(errno.ENOTTY, fcntl.ioctl, file, termios.TIOCGWINSZ, bytes(8))
    assert not os.isatty(file)
    assert ctypes.get_errno() in (0, errno.ENOTTY)
    with pytest.raises(termios.error, match="Inappropriate"):
        termios.tcgetattr(file)
    os.lseek(file, 4, os.SEEK_SET)
    assert struct.unpack("i", fcntl.ioctl(file, termios.FIONREAD, bytes(4)))[0] == 6
    fcntl.ioctl(file, termios.FIOCLEX)
    assert fcntl.fcntl(file, fcntl.F_GETFD) == fcntl.FD_CLOEXEC
    fcntl.ioctl(file, termios.FIONCLEX)
    assert fcntl.fcntl(file, fcntl.F_GETFD) == 0
    for subject in (path, file, folder):
        assert os.pathconf(subject, "PC_NAME_MAX") == 255
        assert os.pathconf(subject, "PC_PATH_MAX") == 4096
        assert os.pathconf(subject, "PC_NO_TRUNC") == 1
    refused(errno.ENOENT, os.pathconf, folder / "missing", "PC_NAME_MAX")
    refused(errno.EINVAL, os.pathconf, folder, 999)


def test_control(way: Way) -> None:
    way.call(control)


def size_limits(folder: Path) -> None:
    """`ulimit -f`: the signal, EFBIG, and what fits is written."""
    came: list[int] = []
    signal.signal(signal.SIGXFSZ, lambda number, frame: came.append(number))
    file = os.open(folder / "file", os.O_RDWR | os.O_CREAT, 0o600)
    assert os.write(file, b"before") == 6
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, resource.RLIM_INFINITY))
    assert os.pwrite(file, bytes(300), 50) == 50
    assert not came
    calls: list[tuple[Callable[..., object], tuple[object, ...]]] = [
        (os.pwrite, (file, b"x", 100)),
        (os.ftruncate, (file, 101)),
        (os.truncate, (folder / "file", 101)),
        (os.posix_fallocate, (file, 0, 101)),
    ]
    for function, arguments in calls:
        came.clear()
        refused(errno.EFBIG, function, *arguments)
        assert came == [signal.SIGXFSZ], function
    appending = os.open(folder / "file", os.O_WRONLY | os.O_APPEND)
    refused(errno.EFBIG, os.write, appending, b"x")
    assert os.stat(folder / "file").st_size == 100
    os.ftruncate(file, 90)
    assert os.write(appending, bytes(30)) == 10
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    assert os.pwrite(file, b"x", 100) == 1


def test_size_limits(way: Way) -> None:
    way.call(size_limits)


def links(folder: Path) -> None:
    path = folder / "file"
    path.write_bytes(b"x")
    (folder / "folder").mkdir()
    host = Path("/tmp")
    refused(errno.EXDEV, os.link, path, host / f"weir-link-{os.getpid()}")
    refused(errno.ENOENT, os.link, host / "no-such-file", folder / "new")
    refused(errno.ENOENT, os.link, folder / "missing", host / "new")
    refused(errno.EEXIST, os.link, "/etc/passwd", path)
    refused(errno.ENOENT, os.link, "/etc/passwd", folder / "missing" / "new")
    refused(errno.EXDEV, os.link, "/etc/passwd", folder / "new")
    refused(errno.EEXIST, os.link, path, folder / "folder")
    refused(errno.ENOENT, os.link, folder / "missing", folder / "new")
    refused(errno.ENOTDIR, os.link, path, path / "below")
    refused(errno.EPERM, os.link, folder / "folder", folder / "new")
    os.link(path, folder / "new")
    assert path.stat().st_nlink == 2


def test_links(way: Way) -> None:
    way.call(links)


SYS_OPENAT2 = 437
NO_XDEV, NO_SYMLINKS, BENEATH, IN_ROOT = 1, 4, 8, 16


def ways_that_are_bound(folder: Path) -> None:
    """The RESOLVE flags of openat2."""
    (folder / "in" / "deep").mkdir(parents=True)
    (folder / "in" / "file").write_bytes(b"inside")
    (folder / "out").write_bytes(b"outside")
    (folder / "in" / "link").symlink_to("file")
    (folder / "in" / "up").symlink_to("../out")
    (folder / "in" / "absolute").symlink_to("/file")
    directory = os.open(folder / "in", os.O_RDONLY | os.O_DIRECTORY)

    def open_at(path: str, resolve: int, flags: int = os.O_RDONLY, size: int = 24) -> bytes:
        how = struct.pack("QQQ", flags, 0, resolve)
        file = None
        while file is None:
            # A rename or a mount anywhere on the machine has the kernel give a bound `..` up.
            with contextlib.suppress(BlockingIOError):
                file = libc.call("syscall", SYS_OPENAT2, directory, path.encode(), how, size)
        content = os.read(file, 100)
        os.close(file)
        return content

    assert open_at("file", 0) == open_at("link", BENEATH) == open_at("deep/../file", BENEATH) == b"inside"
    assert open_at("file", NO_SYMLINKS) == open_at("/file", IN_ROOT) == open_at("absolute", IN_ROOT) == b"inside"
    assert open_at("../../file", IN_ROOT) == b"inside"
    assert open_at("up", 0) == open_at("../out", 0) == b"outside"
    for path in ("../out", "up", "absolute", str(folder / "out"), "deep/../../out"):
        refused(errno.EXDEV, open_at, path, BENEATH)
    refused(errno.ELOOP, open_at, "link", NO_SYMLINKS)
    refused(errno.ENOENT, open_at, "up", IN_ROOT)
    refused(errno.ENOENT, open_at, "missing", BENEATH)
    for resolve in (0, BENEATH, IN_ROOT, NO_SYMLINKS):
        refused(errno.ENOENT, open_at, "", resolve)
    refused(errno.EINVAL, open_at, "file", 0x4000)
    refused(errno.EINVAL, open_at, "file", BENEATH | IN_ROOT)
    refused(errno.EINVAL, open_at, "file", 0, size=8)


def test_ways_that_are_bound(way: Way) -> None:
    way.call(ways_that_are_bound)


def real_paths(folder: Path) -> None:
    """Whatever `.`, `..` or a slash follows is a directory."""
    (folder / "in").mkdir()
    (folder / "file").write_bytes(b"x")
    (folder / "link").symlink_to("in/")
    (folder / "to-file").symlink_to("file/")
    realpath = ctypes.CDLL(None, use_errno=True).realpath
    realpath.restype = ctypes.c_void_p

    def real(path: str) -> str:
        resolved = ctypes.create_string_buffer(4096)
        if not realpath(os.fsencode(folder) + b"/" + path.encode(), resolved):
            raise OSError(ctypes.get_errno(), "realpath")
        return os.fsdecode(resolved.value)

    top = real("")

    for path, right in {"in/": "/in", "in/.": "/in", "in/..": "", "link": "/in", "link/../file": "/file"}.items():
        assert real(path) == top + right, path
    for path in ("file/", "file/.", "file/..", "./file/../in", "to-file", "link/../file/"):
        refused(errno.ENOTDIR, real, path)
    refused(errno.ENOENT, real, "missing/..")


def test_real_paths(way: Way) -> None:
    way.call(real_paths)


def full_streams(path: Path) -> None:
    """What a stream could not write on a full device or store is told at the latest by fclose."""
    library = ctypes.CDLL(None, use_errno=True)
    library.fopen.restype = ctypes.c_void_p
    stream = ctypes.c_void_p(library.fopen(os.fsencode(path), b"w"))
    assert stream.value
    assert library.fputs(b"words", stream) >= 0
    ctypes.set_errno(0)
    assert library.fclose(stream) == -1
    assert ctypes.get_errno() == errno.ENOSPC


def full_device(folder: Path) -> None:
    full_streams(Path("/dev/full"))


def test_fclose_on_a_full_device(way: Way) -> None:
    way.call(full_device)


OTHER = 54_321
"""A user who has nothing."""


def identities(folder: Path, is_prefix: bool) -> None:
    """While the process is another user it has that user's rights; what is open stays open."""
    folder.chmod(0o700)
    path = folder / "file"
    path.write_bytes(b"0123456789")
    file = os.open(path, os.O_RDWR)
    inherited = os.open(path, os.O_RDWR)
    changes: list[tuple[Callable[[], object], Callable[[], object]]] = [
        (lambda: os.seteuid(OTHER), lambda: os.seteuid(0)),
        (lambda: libc.call("setfsuid", OTHER), lambda: libc.call("setfsuid", 0)),
    ]
    asking: list[tuple[Callable[..., object], tuple[object, ...]]] = [
        (os.open, (path, os.O_RDONLY)),
        (os.stat, (path,)),
        (os.listdir, (folder,)),
        (os.mkdir, (folder / "new",)),
        (os.unlink, (path,)),
        (os.rename, (path, folder / "new")),
        (os.truncate, (path, 3)),
        (os.chmod, (path, 0o777)),
        (os.getxattr, (path, "user.a")),
        (os.chdir, (folder,)),
    ]
    for change, back in changes:
        change()
        for function, arguments in asking:
            refused(errno.EACCES, function, *arguments)
        assert not os.access(path, os.R_OK, effective_ids=True) or not is_prefix
        refused(errno.EPERM, os.fchmod, file, 0o777)
        assert os.pread(file, 10, 0) == b"0123456789"
        assert os.pwrite(file, b"0", 0) == 1
        assert os.fstat(file).st_size == 10
        back()
        assert path.read_bytes() == b"0123456789"
        assert os.listdir(folder) == ["file"]
    if (child := os.fork()) == 0:
        os.setuid(OTHER)
        refused(errno.EACCES, os.open, path, os.O_RDONLY)
        assert os.pread(inherited, 10, 0) == b"0123456789"
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    # A program of the other user: the credential is not its own.
    if (child := os.fork()) == 0:
        os.setgroups([])
        os.setgid(OTHER)
        os.setuid(OTHER)
        os.execv("/bin/sh", ["sh", "-c", 'cat "$0" 2>&1 | grep -q "Permission denied"', str(path)])
    assert os.waitpid(child, 0)[1] == 0


@pytest.mark.usefixtures("root_only")
def test_identities(way: Way) -> None:
    way.call(identities, way.name == PREFIX)
