"""The calls that Weir refuses, and their errors. The test checks this table, and the reference page shows it.

Run as a program, this module prints the page docs/reference/limits.md.
"""

import fcntl
import mmap
import os
import socket
import stat
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import libc

FICLONE = 0x40049409
FS_IOC_GETFLAGS = 0x80086601
"""Of linux/fs.h."""

WORKS = "works"


@dataclass(frozen=True)
class Refusal:
    """A call that is refused."""

    name: str
    attempt: Callable[[Path], object]
    """Makes the call in a fresh directory."""
    mount: str
    """The error through the mount, with the fast path or without it; or `WORKS`."""
    prefix: str
    """The error on the fast path alone; or `WORKS`."""
    reason: str


def _file(folder: Path, flags: int = os.O_RDWR) -> int:
    (folder / "file").write_bytes(bytes(100_000))
    return os.open(folder / "file", flags)


def _allocate(mode: int) -> Callable[[Path], object]:
    return lambda folder: libc.fallocate(_file(folder), mode, 4096, 8192)


def _attribute(name: str) -> Callable[[Path], object]:
    def attempt(folder: Path) -> None:
        os.close(_file(folder))
        os.setxattr(folder / "file", name, b"\2\0\0\0")

    return attempt


def _control(request: int, buffer: bytes) -> Callable[[Path], object]:
    return lambda folder: fcntl.ioctl(_file(folder), request, buffer)


def _clone(folder: Path) -> None:
    source = _file(folder)
    target = os.open(folder / "clone", os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.ioctl(target, FICLONE, source)


def _whiteout(folder: Path) -> None:
    os.close(_file(folder))
    libc.renameat2(folder / "file", folder / "other", libc.WHITEOUT)


def _shared_mapping(folder: Path) -> None:
    file = _file(folder)
    with mmap.mmap(file, 4096) as mapped:
        mapped[0] = 7
        mapped.flush()
    assert os.pread(file, 1, 0) == b"\7"


def _unnamed(folder: Path) -> None:
    os.write(os.open(folder, os.O_TMPFILE | os.O_RDWR, 0o600), b"x")


def _fifo(folder: Path) -> None:
    os.mkfifo(folder / "pipe")
    assert stat.S_ISFIFO((folder / "pipe").stat().st_mode)
    descriptor = os.open(folder / "pipe", os.O_RDWR | os.O_NONBLOCK)
    os.write(descriptor, b"x")
    assert os.read(descriptor, 1) == b"x"


def _bind(folder: Path) -> None:
    os.chdir(folder)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(folder / "s"))


def _handle(folder: Path) -> None:
    os.close(_file(folder))
    handle = struct.pack("Ii", 128, 0) + bytes(128)
    libc.call("name_to_handle_at", libc.AT_FDCWD, folder / "file", handle, bytes(8), 0)


def _swap(folder: Path) -> None:
    os.close(_file(folder))
    libc.call("swapon", folder / "file", 0)


def _splice(folder: Path) -> None:
    read_end, write_end = os.pipe()
    os.write(write_end, b"words")
    file = _file(folder)
    assert os.splice(read_end, file, 5) == 5
    assert os.pread(file, 5, 0) == b"words"


def _lease(folder: Path) -> None:
    fcntl.fcntl(_file(folder, os.O_RDONLY), fcntl.F_SETLEASE, fcntl.F_RDLCK)


def _watch(folder: Path) -> None:
    descriptor = libc.call("inotify_init1", 0)
    libc.call("inotify_add_watch", descriptor, folder, 0x100)


def _chroot(folder: Path) -> None:
    os.chroot(folder)


def _other_tree(folder: Path) -> None:
    """Two directories made in the root of the store, of different homes."""
    for number in range(64):
        (folder.parent / f"{folder.name}-{number}").mkdir()
    (folder / "file").write_bytes(b"x")
    try:
        for number in range(64):
            os.rename(folder / "file", folder.parent / f"{folder.name}-{number}" / "file")
            os.rename(folder.parent / f"{folder.name}-{number}" / "file", folder / "file")
    finally:
        for number in range(64):
            os.rmdir(folder.parent / f"{folder.name}-{number}")


NOT_THERE = "the kernel knows no such path"

TABLE = (
    Refusal(
        "`fallocate` with `FALLOC_FL_COLLAPSE_RANGE`",
        _allocate(libc.COLLAPSE_RANGE),
        "EOPNOTSUPP",
        "EOPNOTSUPP",
        "stripes do not move",
    ),
    Refusal(
        "`fallocate` with `FALLOC_FL_INSERT_RANGE`",
        _allocate(libc.INSERT_RANGE),
        "EOPNOTSUPP",
        "EOPNOTSUPP",
        "stripes do not move",
    ),
    Refusal(
        "`fallocate` with `FALLOC_FL_UNSHARE_RANGE`",
        _allocate(libc.UNSHARE_RANGE),
        "EOPNOTSUPP",
        "EOPNOTSUPP",
        "nothing is shared",
    ),
    Refusal(
        "`setxattr` of `system.posix_acl_access`",
        _attribute("system.posix_acl_access"),
        "EOPNOTSUPP",
        "EOPNOTSUPP",
        "there are no access control lists",
    ),
    Refusal("`ioctl` `FICLONE`", _clone, "EOPNOTSUPP", "EOPNOTSUPP", "there are no shared extents"),
    Refusal(
        "`ioctl` `FS_IOC_GETFLAGS` (lsattr, chattr)",
        _control(FS_IOC_GETFLAGS, bytes(8)),
        "ENOTTY",
        "ENOTTY",
        "there are no such flags",
    ),
    Refusal("`renameat2` with `RENAME_WHITEOUT`", _whiteout, "EINVAL", "ENOENT", "it is for overlay file systems"),
    Refusal(
        "`rename` between trees of different homes",
        _other_tree,
        "EXDEV",
        "EXDEV",
        "a tree has one home; mv copies instead",
    ),
    Refusal("`swapon`", _swap, "EINVAL", "ENOENT", "memory is not swapped to a store in user space"),
    Refusal(
        "`mmap` with `MAP_SHARED` and `PROT_WRITE`",
        _shared_mapping,
        WORKS,
        "ENODEV",
        "a shared mapping is the kernel's",
    ),
    Refusal("`mkfifo`, `mknod`", _fifo, WORKS, "EOPNOTSUPP", "pipes and devices are the kernel's"),
    Refusal("`bind` of a Unix socket", _bind, WORKS, "ENOENT", NOT_THERE),
    Refusal("`splice`", _splice, WORKS, "EINVAL", "the kernel cannot see the bytes"),
    Refusal(
        "`fcntl` `F_SETLEASE`",
        _lease,
        WORKS,
        "EBADF",
        "with a mount, opens through the kernel of that host alone break a lease",
    ),
    Refusal(
        "`inotify_add_watch`",
        _watch,
        WORKS,
        "EOPNOTSUPP",
        "with a mount, it reports changes through that mount: see below",
    ),
    Refusal("`name_to_handle_at`", _handle, WORKS, "ENOENT", NOT_THERE),
    Refusal("`chroot`", _chroot, WORKS, "ENOENT", NOT_THERE),
    Refusal(
        "`open` with `O_TMPFILE`",
        _unnamed,
        WORKS,
        WORKS,
        "without a mount it cannot be given a name: `linkat` answers ENOENT",
    ),
)

BESIDE = """\
## What differs from a local disk

| what | limit |
|---|---|
| names, paths | 255 bytes, 4,095 bytes; more answers ENAMETOOLONG |
| extended attribute | 65,536 bytes of value; more answers E2BIG or ERANGE |
| shared mapping | other clients see its stores after msync, fsync or munmap; programs of one mount see them at once, except programs that read on the fast path and do not map the file |
| append through the mount at the same moment as another client's | the bytes of each are whole and in their place; the offset of the descriptor afterwards may miss the other's bytes, because the kernel had looked at the size before. Appends that follow each other tell the right offset |
| append through the mount after another client made the file shorter | the offset afterwards counts from the size of before, until anything asks this mount for the size: the protocol of FUSE can tell the kernel that a file grew, and not that it became shorter |
| `copy_file_range` within a file through the mount after another client made it shorter | answers EINVAL for 0 where the two places lie behind the new end and would overlap by the size of before, for the same reason |
| locks on directories with a mount | are the kernel's, which asks no mount about them: programs of one mount see them, and other mounts do not |
| `/proc/locks`, `lslocks` | show no lock of the store's files: the kernel leaves these to the mount, and lists its own alone |
| system call instructions of a program that opened a file by libc, beside a mount (liburing inside the program, `pidfd_getfd` of another process, a close or duplicate by an instruction) | answer EBADF, and ELOOP by `/proc/PID/fd/N` in another process, until another call has had the kernel open the file; `weir run --no-preload` runs such programs |
| `/proc/self/fd/N` of a file that was removed, moved or forbidden between its open and the first call that needs the kernel, beside a mount | shows a name of the form `.weir-description-…` |
| a running program's file, opened for writes by `weir run` beside a mount before it got permission to be executed | is not protected by ETXTBSY, and `exec` of a file that is open for writes is not refused |
| asynchronous reads (`io_submit`) and `copy_file_range` by a raw system call, through a descriptor that the fast path uses | end at the size that the kernel saw last, until anything asks the mount for the size |
| something mounted inside the store or over it | all paths go through the kernel, at the kernel's speed |
| write through the mount | the kernel splits it at 1 MiB, so a larger append there is not atomic |
| modification time of overwrites | a client tells it at its first overwrite, then every 100 ms at most, and when it asks for the time itself, syncs or closes: others may see the time of before for that long, and a time that they set meanwhile may be replaced |
| access time | only explicit calls set it; reading does not change it |
| lost servers | EIO after `WEIR_TIMEOUT_SECONDS` of their silence, counted once for the whole call, and twice at most where connections break in between; a write over several stripes may be short |
| capacity beside lost servers | `statfs` counts the servers that answer within half of `WEIR_TIMEOUT_SECONDS` |
| quotas | a write, append, truncation, reservation, new file or change of owner that would go beyond a limit of the file's user or group answers EDQUOT; the size of a file counts, with its holes |
| connections | one user can have all free ones, of 32,768 or of what the limit of open files leaves |
| names and attributes in a server's memory | one user can have as much as is left free of `namespace_memory` at each server; beyond it new names, attributes and links answer EDQUOT, and ENOSPC where nothing is left for anybody; removals go on |
| open descriptions | 131,072 through one mount or of one process; one user can have as many as are left free of 1,048,576 at each server; otherwise ENFILE |
| locks | on files that nobody locked before, one user can have as much as is left free of 256 MiB at each server: some 70,000 files with one lock each for one user alone; otherwise ENOLCK |
| `ram` targets after a restart of their server | the files are gone; open descriptors answer ESTALE |
| power loss of a server's machine while programs go on | what was not synced may be gone, as on a local disk; but an `fsync` after the server is back answers 0, also where earlier writes of its descriptor are among it. Bytes that were written behind the size that is left may be read in a hole until the file's home cuts them off, some seconds after its start |
| two kills of a server on end, before a program is back whose write to a `dir` target the first one cut off | the write, which was not answered, may lie over a later one of another program to the same bytes that the second kill cut off after others had read it; where other programs wrote over several parts of its bytes in between, it answers EIO |
| full targets | a file goes on elsewhere behind its end. ENOSPC if its layout names its targets or their number, when the store is full, and for a hole below its end whose stripe lies on a full target (a file that was lengthened before it was written): `weir rebalance` moves such an object to a target that has room |
| `fallocate` of most of the room that `df` shows | `df` shows the room of all targets, and a file has room on those of its layout: ENOSPC beyond it |
| room of a file that was just removed | a write or a new file that needs it waits for it up to 30 s; ENOSPC if no server is about to free any |
| `inotify` | reports changes through the mount of the watcher. A process that watches the store, and the children that it forks then, go through the mount for all their calls on the store until they end, so their watches report their own changes. Watches do not report opens and changes by the fast path of other programs: run those with `weir run --no-preload` |
| `fanotify` | reports changes through the mount of the watcher, and no change by the fast path of any process |
| the audit of a server | keeps 4,096 entries and 2 MiB of them in a file of 4 MiB at most, at most 1,024 of them refusals and 1,024 leases; the oldest go first. Values and reasons are cut at 1,024 bytes, commands at 256. Refusals of one caller within a minute are one entry, whose count a restart may forget |
| descriptor from another user | keeps its opener's rights, with a mount at the kernel's speed; without a mount its reads and writes answer EACCES |
| `pathconf` of `_PC_LINK_MAX` | 65,000 without a mount; with a mount the C library does not know the file system and says 127 |
| another user's identity without a mount (`seteuid`, `setuid`, `setfsuid`) | the store has one credential: paths answer EACCES and changes of open files EPERM until the process has its first identity again, even where the other user has the rights; open files stay open |
| a program that another user executes without a mount | needs a credential that this user may read; otherwise EACCES, also on inherited descriptors |
| path of `openat2` with RESOLVE flags without a mount | resolved name by name: a name that changes meanwhile is not found, or its old file is opened |
| directory that was removed while it is open | answers ENOENT or ESTALE |
| locks of a host that is cut off | a host that the server of a lock does not hear for 30 s, or for 10 s after that server starts anew, loses the lock to others. What it sent under the lock changes nothing from then on; reads, writes and `ftruncate` through the description answer EIO until the file is locked or unlocked again through it, or closed |
| `/proc/locks`, `lslocks` | do not list locks on files of a store: its servers hold them |
| device files on a mount | are names alone: a store is mounted `nodev`, so opening one answers EACCES |
| file capabilities (`setcap`) on a mount | have no effect there: a store is mounted `nosuid`. A write leaves the attribute, and `fallocate` on such a file answers EPERM to all but root |
| `fs.protected_symlinks`, `fs.protected_regular`, `fs.protected_fifos` on a mount | do not protect sticky directories: the kernel leaves their sticky bit to the servers. `fs.protected_hardlinks` always holds |
| locks of a killed process, without a mount | end when the server sees the end of the process, perhaps a moment after the parent does |
| locks over an `exec` of a static program, without a mount | stay until the process ends, also where it closes the descriptor. A static program that a locked process spawns (`posix_spawn`) holds none |
| a lock that a process takes on a descriptor after it forked, without a mount | ends with the process, unless the child has used the descriptor since, or locks it itself |

## What runs without a mount

Programs linked to the C library dynamically run on the fast path alone (`weir run --prefix`). These need a mount:

| what | reason |
|---|---|
| static programs, Go programs, `ldd` | make their system calls themselves; the dynamic linker does, too |
| SQLite with a write-ahead log from two processes, numpy.memmap that writes, fsx with mappings | shared mappings that may be written |
| fio with libaio or io_uring | the kernel would have to see the files |
| `freopen` for writing of a stream of a host's file that is not a standard stream | answers EOPNOTSUPP: a stream of the C library does not change its kind; for reading it gets a copy of the bytes |
| streams of a C library whose streams are not those of glibc | `fopen` answers EOPNOTSUPP; shown with glibc 2.36 and 2.41 |
| wide characters on streams (`fgetwc`, `fwprintf`), and modes of `fopen` with `ccs=` | the C library converts past this library, so they fail, reads and `fopen` with EOPNOTSUPP |
| libraries of the store below `glibc-hwcaps`, or found by `$LIB` and `$PLATFORM` | this library follows the other rules of ld.so(8) in the dynamic linker's place, for programs and for `dlopen`; a RUNPATH of the library that calls `dlopen` is not looked at |
| a path with more `..` than there are directories above a working directory that another client moved up | stays in the store's root |
| programs that rely on EDEADLK for process locks | only the mount finds deadlocks; without a mount both processes wait |
| named pipes, sockets and device files | are the kernel's |
"""


def page() -> str:
    """The reference page."""
    rows = "\n".join(f"| {each.name} | {each.mount} | {each.prefix} | {each.reason} |" for each in TABLE)
    return f"""\
# Limits

A call that Weir does not support answers an error number; no call answers success without effect. `python tests/limits.py` prints this
page, and the test suite compares it with the answers of the calls.

## Calls

*With a mount* means through the kernel, with the fast path or without it; *without* means `weir run --prefix`.

| call | with a mount | without | reason |
|---|---|---|---|
{rows}

{BESIDE}"""


if __name__ == "__main__":
    print(page(), end="")
