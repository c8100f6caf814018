"""What POSIX and Linux promise of a file's bytes, by each way into the store."""

import ctypes
import errno
import fcntl
import os
import shutil
import stat
import struct
import subprocess
from pathlib import Path

import libc
import pytest
from libc import refused
from store import Store
from ways import ALL, MOUNT, MOUNTED, Way, make_way

MIB = 1 << 20


def open_flags(folder: Path) -> None:
    file = os.open(folder / "file", os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o640)
    refused(errno.EEXIST, os.open, folder / "file", os.O_RDWR | os.O_CREAT | os.O_EXCL)
    assert os.pwrite(file, b"0123456789", 0) == 10
    appending = os.open(folder / "file", os.O_WRONLY | os.O_APPEND)
    assert os.write(appending, b"abc") == 3
    assert os.lseek(appending, 0, os.SEEK_CUR) == 13
    refused(errno.EBADF, os.read, appending, 1)
    reading = os.open(folder / "file", os.O_RDONLY)
    refused(errno.EBADF, os.write, reading, b"x")
    assert os.pread(reading, 100, 0) == b"0123456789abc"
    assert os.preadv(reading, [bytearray(3), bytearray(4)], 9) == 4
    os.close(os.open(folder / "file", os.O_WRONLY | os.O_TRUNC))
    assert os.fstat(file).st_size == 0
    assert os.read(reading, 10) == b""
    refused(errno.ENOENT, os.open, folder / "missing", os.O_RDONLY)
    refused(errno.EISDIR, os.open, folder, os.O_WRONLY)
    refused(errno.ENOTDIR, os.open, folder / "file", os.O_RDONLY | os.O_DIRECTORY)
    refused(errno.ENOTDIR, os.open, folder / "file" / "below", os.O_RDONLY)
    (folder / "link").symlink_to("file")
    refused(errno.ELOOP, os.open, folder / "link", os.O_RDONLY | os.O_NOFOLLOW)
    (folder / "round").symlink_to("round")
    refused(errno.ELOOP, os.open, folder / "round", os.O_RDONLY)
    refused(errno.EINVAL, os.lseek, file, -1, os.SEEK_SET)
    refused(errno.EINVAL, os.ftruncate, reading, 5)
    path_only = os.open(folder / "file", os.O_PATH)
    refused(errno.EBADF, os.read, path_only, 1)
    assert stat.S_ISREG(os.fstat(path_only).st_mode)


def test_open_flags(way: Way) -> None:
    way.call(open_flags, served=["open", "read", "write"])


def truncated_program(folder: Path) -> None:
    """An open with O_TRUNC emptied a program that ran, which died of it, and answered ETXTBSY or even success."""
    shutil.copy("/bin/sleep", folder / "program")
    program = (folder / "program").read_bytes()
    child = subprocess.Popen([folder / "program", "600"])
    try:
        for flags in (os.O_WRONLY, os.O_RDWR, os.O_WRONLY | os.O_TRUNC, os.O_RDONLY | os.O_TRUNC):
            refused(errno.ETXTBSY, os.open, folder / "program", flags)
        refused(errno.ETXTBSY, os.truncate, folder / "program", 0)
        assert (folder / "program").read_bytes() == program
        assert child.poll() is None
    finally:
        child.kill()
        child.wait()
    file = os.open(folder / "program", os.O_RDWR | os.O_TRUNC)
    assert os.fstat(file).st_size == 0
    assert os.write(file, b"words") == 5
    assert os.pread(file, 10, 0) == b"words"


@pytest.mark.parametrize("way", MOUNTED, indirect=True)
def test_a_program_that_runs_keeps_its_bytes(way: Way) -> None:
    # The kernel does the last write where the mount still holds the program's pages.
    way.call(truncated_program, served=["open", "read"])


def sparse_files(folder: Path) -> None:
    file = os.open(folder / "sparse", os.O_RDWR | os.O_CREAT, 0o600)
    assert os.pwrite(file, b"x" * MIB, 10 * MIB) == MIB
    os.ftruncate(file, 20 * MIB)
    assert os.lseek(file, 0, os.SEEK_DATA) == 10 * MIB
    assert os.lseek(file, 10 * MIB, os.SEEK_HOLE) == 11 * MIB
    assert os.lseek(file, 0, os.SEEK_HOLE) == 0
    refused(errno.ENXIO, os.lseek, file, 12 * MIB, os.SEEK_DATA)
    refused(errno.ENXIO, os.lseek, file, 20 * MIB, os.SEEK_HOLE)
    assert os.pread(file, 10, 5 * MIB) == bytes(10)
    assert os.fstat(file).st_blocks * 512 < 2 * MIB
    libc.fallocate(file, libc.PUNCH_HOLE | libc.KEEP_SIZE, 10 * MIB + 100, 1000)
    assert os.pread(file, 1200, 10 * MIB) == b"x" * 100 + bytes(1000) + b"x" * 100
    libc.fallocate(file, libc.PUNCH_HOLE | libc.KEEP_SIZE, 10 * MIB, MIB)
    refused(errno.ENXIO, os.lseek, file, 0, os.SEEK_DATA)
    assert os.fstat(file).st_size == 20 * MIB
    libc.fallocate(file, libc.KEEP_SIZE, 20 * MIB, MIB)
    assert os.fstat(file).st_size == 20 * MIB
    os.posix_fallocate(file, 20 * MIB, MIB)
    assert os.fstat(file).st_size == 21 * MIB
    assert os.pread(file, 100, 21 * MIB - 50) == bytes(50)


def test_sparse_files(way: Way) -> None:
    way.call(sparse_files, served=["open", "write"])


def shortened_bytes_stay_gone(folder: Path) -> None:
    """What was cut off must not come back when the file grows again, over several stripes."""
    file = os.open(folder / "file", os.O_RDWR | os.O_CREAT, 0o600)
    for size in (5 * MIB, MIB + 1, MIB, 4095, 1):
        os.pwrite(file, b"y" * (6 * MIB), 0)
        os.ftruncate(file, size)
        os.ftruncate(file, 6 * MIB)
        content = os.pread(file, 6 * MIB, 0)
        assert content == b"y" * size + bytes(6 * MIB - size), size


def test_shortened_bytes_stay_gone(way: Way) -> None:
    way.call(shortened_bytes_stay_gone, served=["read", "write"])


def copied_ranges(folder: Path) -> None:
    source = os.open(folder / "source", os.O_RDWR | os.O_CREAT, 0o600)
    target = os.open(folder / "target", os.O_RDWR | os.O_CREAT, 0o600)
    content = os.urandom(3 * MIB)
    assert os.pwrite(source, content, 0) == len(content)
    copied = 0
    while copied < 2 * MIB + 7:
        step = os.copy_file_range(source, target, 2 * MIB + 7 - copied, 11 + copied, 100 + copied)
        assert step > 0
        copied += step
    assert os.pread(target, 4 * MIB, 0) == bytes(100) + content[11 : 11 + 2 * MIB + 7]
    assert os.copy_file_range(source, target, 10, len(content), 0) == 0
    refused(errno.EINVAL, os.copy_file_range, source, source, 100, 0, 50)
    os.lseek(source, 0, os.SEEK_SET)
    sent = os.sendfile(target, source, 0, 1000)
    assert 0 < sent <= 1000


def test_copied_ranges(way: Way) -> None:
    way.call(copied_ranges, served=["write", "copy"])


def unlinked_while_open(folder: Path) -> None:
    file = os.open(folder / "file", os.O_RDWR | os.O_CREAT, 0o600)
    os.write(file, b"first")
    os.unlink(folder / "file")
    refused(errno.ENOENT, os.stat, folder / "file")
    os.pwrite(file, b"second", 5)
    assert os.pread(file, 100, 0) == b"firstsecond"
    assert os.fstat(file).st_nlink == 0
    os.ftruncate(file, 3)
    assert os.fstat(file).st_size == 3
    os.close(file)
    held = os.open(folder / "old", os.O_RDWR | os.O_CREAT, 0o600)
    os.write(held, b"old")
    (folder / "new").write_bytes(b"new")
    os.rename(folder / "new", folder / "old")
    assert os.pread(held, 10, 0) == b"old"
    assert (folder / "old").read_bytes() == b"new"
    assert os.listdir(folder) == ["old"]


def test_unlinked_while_open(way: Way) -> None:
    way.call(unlinked_while_open, served=["unlink", "rename", "write"])


def unnamed_files(folder: Path) -> None:
    file = os.open(folder, os.O_TMPFILE | os.O_RDWR, 0o600)
    assert os.write(file, b"words") == 5
    assert os.listdir(folder) == []
    assert os.fstat(file).st_nlink == 0
    libc.linkat(file, folder / "named")
    assert (folder / "named").read_bytes() == b"words"
    lonely = os.open(folder, os.O_TMPFILE | os.O_RDWR | os.O_EXCL, 0o600)
    assert os.write(lonely, b"x") == 1
    refused(errno.ENOENT, libc.linkat, lonely, folder / "other")


@pytest.mark.parametrize("way", MOUNTED, indirect=True)
def test_unnamed_files(way: Way) -> None:
    way.call(unnamed_files, served=["open", "read"])


def shared_offsets(folder: Path) -> None:
    """A description is shared by dup and fork, and its offset with it."""
    file = os.open(folder / "file", os.O_RDWR | os.O_CREAT, 0o600)
    again = os.dup(file)
    assert os.write(file, b"one ") == 4
    assert os.write(again, b"two ") == 4
    if (child := os.fork()) == 0:
        os.write(file, b"child ")
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    os.write(again, b"parent")
    assert os.pread(file, 100, 0) == b"one two child parent"
    assert os.lseek(file, 0, os.SEEK_CUR) == 20
    assert os.lseek(again, 4, os.SEEK_SET) == 4
    assert os.read(file, 3) == b"two"


def test_shared_offsets(way: Way) -> None:
    way.call(shared_offsets, served=["open"])


def many_appenders(folder: Path) -> None:
    """Appends of several processes are whole and none is lost, also across stripes."""
    writers, lines = 4, 60
    children = []
    for number in range(writers):
        if (child := os.fork()) == 0:
            file = os.open(folder / "log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            for line in range(lines):
                text = f"{number} {line} ".encode()
                record = text + bytes([97 + number]) * (20_000 - len(text) - 1) + b"\n"
                assert os.write(file, record) == 20_000
            os._exit(0)
        children.append(child)
    assert all(os.waitpid(child, 0)[1] == 0 for child in children)
    content = (folder / "log").read_bytes()
    assert len(content) == writers * lines * 20_000
    records = [content[start : start + 20_000] for start in range(0, len(content), 20_000)]
    seen = []
    for record in records:
        writer, place, body = record.split(b" ", 2)
        assert set(body) == {97 + int(writer), 10}
        seen.append((int(writer), int(place)))
    assert sorted(seen) == [(number, line) for number in range(writers) for line in range(lines)]
    for number in range(writers):
        assert [place for who, place in seen if who == number] == list(range(lines)), "in the writer's order"


def test_many_appenders(way: Way) -> None:
    way.call(many_appenders, served=["open", "append"])


def times_and_modes(folder: Path) -> None:
    path = folder / "file"
    path.write_bytes(b"x")
    os.utime(path, ns=(1_000_000_001, 2_000_000_000_000_000_002))
    status = path.stat()
    assert (status.st_atime_ns, status.st_mtime_ns) == (1_000_000_001, 2_000_000_000_000_000_002)
    os.chmod(path, 0o4751)
    assert stat.S_IMODE(path.stat().st_mode) == 0o4751
    before = path.stat()
    with path.open("r+b") as file:
        file.write(b"y")
    after = path.stat()
    assert after.st_mtime_ns != before.st_mtime_ns, "a write changes it"
    assert after.st_ctime_ns >= before.st_ctime_ns
    assert path.stat().st_ino == after.st_ino
    assert folder.stat().st_dev == after.st_dev
    os.truncate(path, 100)
    assert path.stat().st_size == 100
    assert os.access(path, os.R_OK | os.W_OK)
    refused(errno.EINVAL, os.truncate, path, -1)
    figures = os.statvfs(folder)
    assert figures.f_namemax == 255
    assert 0 < figures.f_bavail <= figures.f_blocks


def test_times_and_modes(way: Way) -> None:
    way.call(times_and_modes, served=["stat", "change"])


def special_files(folder: Path) -> None:
    import socket

    os.mkfifo(folder / "pipe")
    if (child := os.fork()) == 0:
        (folder / "pipe").write_bytes(b"through")
        os._exit(0)
    assert (folder / "pipe").read_bytes() == b"through"
    assert os.waitpid(child, 0)[1] == 0
    if os.geteuid() == 0:
        os.mknod(folder / "null", stat.S_IFCHR | 0o600, os.makedev(1, 3))
        assert (folder / "null").stat().st_rdev == os.makedev(1, 3)
    os.chdir(folder)
    with socket.socket(socket.AF_UNIX) as listener, socket.socket(socket.AF_UNIX) as client:
        listener.bind("socket")
        listener.listen()
        client.connect("socket")
        client.send(b"x")
        assert listener.accept()[0].recv(1) == b"x"


@pytest.mark.parametrize("way", MOUNTED, indirect=True)
def test_special_files(way: Way) -> None:
    way.call(special_files)


def running_program(folder: Path) -> None:
    program = folder / "program"
    shutil.copy("/bin/cat", program)
    whole = program.stat().st_size
    with subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        child_input, child_output = child.stdin, child.stdout
        assert child_input
        assert child_output
        child_input.write(b"x")
        child_input.flush()
        # It runs once it answers.
        assert child_output.read(1) == b"x"
        refused(errno.ETXTBSY, os.truncate, program, 123)
        refused(errno.ETXTBSY, os.open, program, os.O_WRONLY)
        child_input.close()
    assert program.stat().st_size == whole
    os.truncate(program, 123)
    assert program.stat().st_size == 123


@pytest.mark.parametrize("way", MOUNTED, indirect=True)
def test_a_running_program_cannot_be_cut(way: Way) -> None:
    """The fast path cut the file by its name, under the program that the kernel was executing from it."""
    way.call(running_program)


def extended_attributes(folder: Path) -> None:
    path = folder / "file"
    path.write_bytes(b"")
    os.setxattr(path, "user.one", b"1")
    os.setxattr(path, "user.large", b"v" * 60_000)
    os.setxattr(path, "user.one", b"2", os.XATTR_REPLACE)
    refused(errno.EEXIST, os.setxattr, path, "user.one", b"3", os.XATTR_CREATE)
    refused(errno.ENODATA, os.setxattr, path, "user.none", b"3", os.XATTR_REPLACE)
    assert {"user.one", "user.large"} <= set(os.listxattr(path))
    assert os.getxattr(path, "user.one") == b"2"
    assert os.getxattr(path, "user.large") == b"v" * 60_000
    os.removexattr(path, "user.one")
    refused(errno.ENODATA, os.getxattr, path, "user.one")
    refused(errno.ENODATA, os.removexattr, path, "user.one")
    file = os.open(path, os.O_RDONLY)
    os.setxattr(file, "user.by-descriptor", b"yes")
    assert os.getxattr(file, "user.by-descriptor") == b"yes"
    os.setxattr(folder, "user.directory", b"too")
    assert os.getxattr(folder, "user.directory") == b"too"
    assert os.getxattr(path, "weir.layout").startswith(b"-o ")


def test_extended_attributes(way: Way) -> None:
    way.call(extended_attributes, served=["open", "xattr"])


@pytest.mark.usefixtures("root_only")
def test_a_handle_opens_its_file_by_a_mount_that_never_saw_it(shared_store: Store, second_mount: Path) -> None:
    """open_by_handle_at(2), by which servers of NFS and programs for backups come back to a file."""
    folder = make_way(MOUNT, shared_store, "handles").folder
    (folder / "file").write_text("words")
    (folder / "below").mkdir()
    (folder / "below" / "name").touch()

    def handle_of(path: Path) -> ctypes.Array[ctypes.c_char]:
        handle = ctypes.create_string_buffer(struct.pack("Ii", 128, 0) + bytes(128))
        libc.call("name_to_handle_at", libc.AT_FDCWD, path, handle, bytes(8), 0)
        return handle

    file, below = handle_of(folder / "file"), handle_of(folder / "below")
    other = os.open(second_mount, os.O_RDONLY)
    opened = libc.call("open_by_handle_at", other, file, os.O_RDWR)
    assert os.read(opened, 10) == b"words"
    listed = libc.call("open_by_handle_at", other, below, os.O_RDONLY | os.O_DIRECTORY)
    assert os.listdir(listed) == ["name"]
    assert Path(os.readlink(f"/proc/self/fd/{listed}")) == second_mount / "handles/below"
    for descriptor in (opened, listed):
        os.close(descriptor)
    (folder / "file").unlink()
    refused(errno.ESTALE, libc.call, "open_by_handle_at", other, file, os.O_RDONLY)
    os.close(other)


def shared_flags(folder: Path) -> None:
    """A child sets and takes away `O_APPEND` on the description that it shares; the parent's calls go by it."""
    file = os.open(folder / "shared-flags", os.O_RDWR | os.O_CREAT, 0o600)
    assert os.pwrite(file, b"0123456789", 0) == 10
    for flags, expected in ((os.O_APPEND, 13), (0, 13), (os.O_APPEND, 16)):
        if (child := os.fork()) == 0:
            fcntl.fcntl(file, fcntl.F_SETFL, flags)
            os._exit(0)
        os.waitpid(child, 0)
        # On Linux a description that appends does so by pwrite(2), too.
        assert os.pwrite(file, b"abc", 2) == 3
        assert os.fstat(file).st_size == expected


@pytest.mark.parametrize("way", ALL, indirect=True)
def test_flags_of_a_shared_description_are_those_of_all(way: Way) -> None:
    way.call(shared_flags, served=["append", "write"])
