"""Mount points inside the store: each call on a path reaches what the kernel reaches, and not what is hidden beneath.

The table has every name of libc that the preload library defines for paths. A file system is mounted on a directory of
the store, or another directory or file bound there, also after the program began, and gone again.
"""

import ctypes
import errno
import json
import os
import re
import stat
import struct
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from libc import AT_FDCWD, call, refused
from ways import PRELOAD, Way, has_fuse

SYMBOLS = Path(__file__).parents[2] / "crates/preload/src/symbols/paths.rs"
HIDDEN, SHOWN = 1001, 2002
"""Owners of what lies beneath a mount point, and of what is mounted there."""
F_OK, RDONLY = 0, 0
SYMLINK_NOFOLLOW = 0x100
IN_ATTRIB = 4


def words(path: str) -> bytes:
    return os.fsencode(path)


def room(size: int = 4096) -> Any:
    return ctypes.create_string_buffer(size)


def uid_of(status: Any) -> int:
    """`st_uid` of a `struct stat`, which stands at the same place on x86-64 and, after the mode, on AArch64."""
    offset = 28 if os.uname().machine == "x86_64" else 24
    return int(struct.unpack_from("I", status, offset)[0])


def pointer(name: str, *arguments: Any) -> int:
    """Call a function of libc that answers a pointer.

    Raises:
        OSError: It answered null.
    """
    function = getattr(ctypes.CDLL(None, use_errno=True), name)
    function.restype = ctypes.c_void_p
    answer = function(*arguments)
    if not answer:
        raise OSError(ctypes.get_errno(), name)
    return int(answer)


def looked(name: str, *before: Any, after: tuple[Any, ...] = ()) -> Callable[[str], None]:
    """A call that fills in a `struct stat`, which has to be that of what is mounted."""

    def run(folder: str) -> None:
        status = room()
        call(name, *before, words(f"{folder}/file"), status, *after)
        assert uid_of(status) == SHOWN, name

    return run


def statx(folder: str) -> None:
    answer = room()
    call("statx", AT_FDCWD, words(f"{folder}/file"), 0, 0x7FF, answer)
    assert struct.unpack_from("I", answer, 20)[0] == SHOWN


def made(name: str, *before: Any, after: tuple[Any, ...] = ()) -> Callable[[str], None]:
    """A call that makes a name."""

    def run(folder: str) -> None:
        call(name, *before, words(f"{folder}/new-{name}"), *after)
        assert f"new-{name}" in os.listdir(folder), name

    return run


def changed(name: str, *before: Any, after: tuple[Any, ...] = ()) -> Callable[[str], None]:
    """A call that changes the file: the test looks at the end that what is hidden stayed as it was."""
    return lambda folder: (call(name, *before, words(f"{folder}/file"), *after), None)[1]


def removed(name: str, *before: Any, kind: str = "file", after: tuple[Any, ...] = ()) -> Callable[[str], None]:
    """A call that removes a name that is there only in what is mounted."""

    def run(folder: str) -> None:
        victim = Path(folder, f"gone-{name}")
        subprocess.run(["mkdir" if kind == "directory" else "touch", victim], check=True, env=PLAIN)
        call(name, *before, words(str(victim)), *after)
        assert victim.name not in os.listdir(folder), name

    return run


def moved(name: str, after: tuple[Any, ...] = (), at: bool = False) -> Callable[[str], None]:
    """A call with two paths, which stay in what is mounted."""

    def run(folder: str) -> None:
        source, target = Path(folder, f"from-{name}"), Path(folder, f"to-{name}")
        subprocess.run(["touch", source], check=True, env=PLAIN)
        directory = (AT_FDCWD,) if at else ()
        call(name, *directory, words(str(source)), *directory, words(str(target)), *after)
        assert target.name in os.listdir(folder), name

    return run


def read_link(name: str, *before: Any, after: tuple[Any, ...]) -> Callable[[str], None]:
    def run(folder: str) -> None:
        target = room()
        call(name, *before, words(f"{folder}/link"), target, *after)
        assert target.value == b"shown", name

    return run


def resolved(name: str, after: tuple[Any, ...] = ()) -> Callable[[str], None]:
    return lambda folder: (pointer(name, words(f"{folder}/only-shown"), *after), None)[1]


def found(name: str, *before: Any, after: tuple[Any, ...]) -> Callable[[str], None]:
    """A call that only succeeds for a name that is there only in what is mounted."""
    return lambda folder: (call(name, *before, words(f"{folder}/only-shown"), *after), None)[1]


def listed(folder: str) -> None:
    stream = pointer("opendir", words(folder))
    call("closedir", ctypes.c_void_p(stream))


def scanned(name: str) -> Callable[[str], None]:
    def run(folder: str) -> None:
        names = ctypes.c_void_p()
        assert call(name, words(folder), ctypes.byref(names), None, None) == len(os.listdir(folder)) + 2

    return run


def globbed(name: str) -> Callable[[str], None]:
    def run(folder: str) -> None:
        assert call(name, words(f"{folder}/only-s*"), 0, None, room()) == 0, name

    return run


def walked(name: str, after: tuple[Any, ...]) -> Callable[[str], None]:
    def run(folder: str) -> None:
        seen: list[bytes] = []
        visit = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p)

        def note(path: bytes, *_: object) -> int:
            seen.append(path)
            return 0

        call(name, words(folder), visit(note), 8, *after)
        assert words(f"{folder}/only-shown") in seen, name

    return run


def attribute(name: str, *rest: Any, path: str = "file") -> Callable[[str], None]:
    return lambda folder: (call(name, words(f"{folder}/{path}"), *rest), None)[1]


def watched(folder: str) -> None:
    instance = call("inotify_init1", os.O_NONBLOCK)
    call("inotify_add_watch", instance, words(f"{folder}/file"), IN_ATTRIB)
    os.chmod(f"{folder}/file", 0o600)
    assert os.read(instance, 4096), "the file that is watched is not the one that was changed"
    os.close(instance)


def entered(folder: str) -> None:
    here = os.open(".", os.O_RDONLY)
    call("chdir", words(folder))
    assert os.stat("file").st_uid == SHOWN
    text = room()
    for name, arguments in [
        ("getcwd", (text, 4096)),
        ("__getcwd_chk", (text, 4096, 4096)),
        ("get_current_dir_name", ()),
        ("getwd", (text,)),
        ("__getwd_chk", (text, 4096)),
    ]:
        assert os.path.samefile(os.fsdecode(ctypes.string_at(pointer(name, *arguments))), ".")
    os.fchdir(here)
    os.close(here)


def rooted(folder: str) -> None:
    """In a child, which is never the same again."""
    child = os.fork()
    if child == 0:
        try:
            call("chroot", words(folder))
            os._exit(0 if os.stat("/file").st_uid == SHOWN else 1)
        finally:
            os._exit(2)
    assert os.waitpid(child, 0)[1] == 0


PLAIN = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
TIMES = struct.pack("qqqq", 5, 0, 7, 0)
VALUE = b"shown"

CALLS: dict[str, Callable[[str], None]] = {
    **{name: looked(name) for name in ("stat", "stat64", "lstat", "lstat64")},
    **{name: looked(name, AT_FDCWD, after=(0,)) for name in ("fstatat", "fstatat64")},
    **{name: looked(name, 1) for name in ("__xstat", "__xstat64", "__lxstat", "__lxstat64")},
    **{name: looked(name, 1, AT_FDCWD, after=(0,)) for name in ("__fxstatat", "__fxstatat64")},
    "statx": statx,
    **{name: found(name, after=(F_OK,)) for name in ("access", "euidaccess", "eaccess")},
    "faccessat": found("faccessat", AT_FDCWD, after=(F_OK, 0)),
    "pathconf": found("pathconf", after=(os.pathconf_names["PC_NAME_MAX"],)),
    **{name: attribute(name, room()) for name in ("statfs", "statfs64", "__statfs", "statvfs", "statvfs64")},
    "mkdir": made("mkdir", after=(0o700,)),
    "mkdirat": made("mkdirat", AT_FDCWD, after=(0o700,)),
    "mknod": made("mknod", after=(stat.S_IFIFO | 0o600, 0)),
    "mknodat": made("mknodat", AT_FDCWD, after=(stat.S_IFIFO | 0o600, 0)),
    "__xmknod": made("__xmknod", 0, after=(stat.S_IFIFO | 0o600, bytes(8))),
    "__xmknodat": made("__xmknodat", 0, AT_FDCWD, after=(stat.S_IFIFO | 0o600, bytes(8))),
    "mkfifo": made("mkfifo", after=(0o600,)),
    "mkfifoat": made("mkfifoat", AT_FDCWD, after=(0o600,)),
    "unlink": removed("unlink"),
    "rmdir": removed("rmdir", kind="directory"),
    "unlinkat": removed("unlinkat", AT_FDCWD, after=(0,)),
    "remove": removed("remove"),
    "rename": moved("rename"),
    "renameat": moved("renameat", at=True),
    "renameat2": moved("renameat2", (0,), at=True),
    "link": moved("link"),
    "linkat": moved("linkat", (0,), at=True),
    "symlink": made("symlink", b"anywhere"),
    "symlinkat": made("symlinkat", b"anywhere", AT_FDCWD),
    "readlink": read_link("readlink", after=(4096,)),
    "__readlink_chk": read_link("__readlink_chk", after=(4096, 4096)),
    "readlinkat": read_link("readlinkat", AT_FDCWD, after=(4096,)),
    "__readlinkat_chk": read_link("__readlinkat_chk", AT_FDCWD, after=(4096, 4096)),
    "umask": lambda folder: (call("umask", call("umask", 0o22)), None)[1],
    "chmod": changed("chmod", after=(0o640,)),
    "lchmod": lambda folder: refused_link("lchmod", folder),
    "fchmodat": changed("fchmodat", AT_FDCWD, after=(0o640, 0)),
    "chown": changed("chown", after=(SHOWN, 7)),
    "lchown": changed("lchown", after=(SHOWN, 8)),
    "fchownat": changed("fchownat", AT_FDCWD, after=(SHOWN, 9, 0)),
    "utimensat": changed("utimensat", AT_FDCWD, after=(TIMES, 0)),
    "utimes": changed("utimes", after=(TIMES,)),
    "lutimes": changed("lutimes", after=(TIMES,)),
    "futimesat": changed("futimesat", AT_FDCWD, after=(TIMES,)),
    "utime": changed("utime", after=(TIMES[:16],)),
    "truncate": changed("truncate", after=(3,)),
    "truncate64": changed("truncate64", after=(4,)),
    "setxattr": attribute("setxattr", b"trusted.one", VALUE, len(VALUE), 0),
    "lsetxattr": attribute("lsetxattr", b"trusted.two", VALUE, len(VALUE), 0),
    "getxattr": attribute("getxattr", b"trusted.one", room(), 4096),
    "lgetxattr": attribute("lgetxattr", b"trusted.two", room(), 4096),
    "listxattr": lambda folder: attribute_names("listxattr", folder),
    "llistxattr": lambda folder: attribute_names("llistxattr", folder),
    "removexattr": attribute("removexattr", b"trusted.one"),
    "lremovexattr": attribute("lremovexattr", b"trusted.two"),
    **dict.fromkeys(("chdir", "getcwd", "get_current_dir_name", "__getcwd_chk", "getwd", "__getwd_chk"), entered),
    "chroot": rooted,
    "realpath": resolved("realpath", (None,)),
    "__realpath_chk": resolved("__realpath_chk", (room(), 4096)),
    "canonicalize_file_name": resolved("canonicalize_file_name"),
    "opendir": listed,
    **{name: scanned(name) for name in ("scandir", "scandir64")},
    **{name: globbed(name) for name in ("glob", "glob64")},
    **{name: walked(name, ()) for name in ("ftw", "ftw64")},
    **{name: walked(name, (0,)) for name in ("nftw", "nftw64")},
    "inotify_add_watch": watched,
}
"""By name: a call on what is mounted in a folder, and a check that it was that."""


def attribute_names(name: str, folder: str) -> None:
    names = room()
    call(name, words(f"{folder}/file"), names, 4096)
    assert b"trusted.one" in names.raw, name


def refused_link(name: str, folder: str) -> None:
    """Permissions of a link cannot be changed, those of a file by this name of the call can."""
    call(name, words(f"{folder}/file"), 0o640)


def fill(folder: Path, owner: int, word: str) -> None:
    """What a folder holds; both have the same names, but one."""
    (folder / "file").write_text(f"{word}\n" * 3)
    os.chown(folder / "file", owner, owner)
    (folder / "link").symlink_to(word)
    (folder / f"only-{word}").touch()


def picture(folder: Path) -> list[Any]:
    """All that calls could change."""
    names = sorted(os.listdir(folder))
    status = os.lstat(folder / "file")
    attributes = os.listxattr(folder / "file")
    return [names, status.st_mode, status.st_uid, status.st_gid, status.st_size, status.st_mtime, attributes]


def mount(*arguments: str | Path) -> None:
    subprocess.run(["mount", *map(str, arguments)], check=True, env=PLAIN)


def unmount(path: Path) -> None:
    subprocess.run(["umount", path], check=True, env=PLAIN)


def cover(folder: Path, kind: str, elsewhere: Path) -> None:
    """Put a file system, or another folder, over a folder."""
    if kind == "tmpfs":
        mount("-t", "tmpfs", "none", folder)
        fill(folder, SHOWN, "shown")
        return
    elsewhere.mkdir(exist_ok=True)
    fill(elsewhere, SHOWN, "shown")
    mount("--bind", elsewhere, folder)


def each_call(root: Path, kind: str, relative: bool) -> None:
    """Runs in a mount namespace of its own, with the library."""
    folder = root / "folder"
    folder.mkdir()
    fill(folder, HIDDEN, "hidden")
    # The library has looked at the store before anything is mounted there.
    assert os.stat(folder / "file").st_uid == HIDDEN
    before = picture(folder)
    hidden = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    cover(folder, kind, root / "elsewhere")
    os.chdir(root)
    name = "folder" if relative else str(folder)
    for symbol, run in CALLS.items():
        try:
            run(name)
        except (OSError, AssertionError) as error:
            raise AssertionError(f"{symbol}: {error!r}") from error
    with open(f"{name}/file", "w") as file:
        file.write("x")
    os.chmod("file", 0o611, dir_fd=hidden)
    assert stat.S_IMODE(os.stat("file", dir_fd=hidden).st_mode) == 0o611, "a descriptor still leads beneath"
    os.chmod("file", stat.S_IMODE(before[1]), dir_fd=hidden)
    unmount(folder)
    assert picture(folder) == before, "what was hidden changed"
    assert os.stat(f"{name}/file").st_uid == HIDDEN


def bound_file(root: Path) -> None:
    """A file bound over a file, as containers do with `/etc/hosts`."""
    for name, text in [("hidden", "hidden"), ("shown", "shown!")]:
        (root / name).write_text(text)
    assert os.stat(root / "hidden").st_size == 6
    (root / "shown").write_text("shown, longer")
    mount("--bind", root / "shown", root / "hidden")
    assert os.stat(root / "hidden").st_size == 13
    os.truncate(root / "hidden", 5)
    refused(errno.EBUSY, os.unlink, root / "hidden")
    refused(errno.EBUSY, os.rename, root / "shown", root / "hidden")
    unmount(root / "hidden")
    assert (root / "hidden").read_text() == "hidden"
    assert (root / "shown").read_text() == "shown"


def covered_store(root: Path, mount_point: str) -> None:
    """A file system over the store itself hides all of it; what is open stays."""
    (root / "file").write_text("store")
    kept = os.open(root / "file", os.O_RDWR)
    assert os.stat(root / "file").st_size == 5
    mount("-t", "tmpfs", "none", mount_point)
    assert not os.path.exists(root / "file")
    root.mkdir()
    (root / "file").write_text("tmpfs!")
    os.chmod(root / "file", 0o604)
    assert os.stat(root / "file").st_size == 6
    assert os.pwrite(kept, b"S", 0) == 1
    assert os.pread(kept, 9, 0) == b"Store"
    unmount(Path(mount_point))
    assert (root / "file").read_text() == "Store"
    assert stat.S_IMODE(os.stat(root / "file").st_mode) != 0o604


def bound_elsewhere(root: Path, outside: str) -> None:
    """A directory of the store bound elsewhere, with a file system mounted inside, seen from a working directory there."""
    (root / "sub").mkdir()
    (root / "sub/file").write_text("store")
    assert os.stat(root / "sub/file").st_size == 5
    mount("--bind", root, outside)
    os.chdir(outside)
    assert os.stat("sub/file").st_size == 5
    mount("-t", "tmpfs", "none", Path(outside, "sub"))
    assert not os.path.exists("sub/file")
    Path("sub/file").write_text("tmpfs!")
    os.unlink("sub/file")
    assert (root / "sub/file").read_text() == "store"
    unmount(Path("sub"))
    assert os.stat("sub/file").st_size == 5


@pytest.fixture
def own_namespace(way: Way, root_only: None) -> Iterator[Callable[..., None]]:
    """Call a function of this file where what it mounts is seen by nobody else."""
    if way.name != PRELOAD or not has_fuse():
        pytest.skip("the kernel alone resolves paths, or there is none that could")

    def run(function: Callable[..., None], *arguments: Any) -> None:
        # `unshare` makes the namespace and executes Python, in which the library starts anew.
        way.run("unshare", "--mount", *way.python(function, *arguments), served=["stat"])

    yield run


def test_the_table_has_every_call_on_paths() -> None:
    rows = re.findall(r"^    \[([\w ]+)\] \(", SYMBOLS.read_text(), re.MULTILINE)
    assert set(" ".join(rows).split()) == set(CALLS)


@pytest.mark.parametrize("kind", ["tmpfs", "bind"])
@pytest.mark.parametrize("relative", [False, True], ids=["absolute", "relative"])
def test_calls_reach_what_is_mounted_inside_the_store(
    own_namespace: Callable[..., None], kind: str, relative: bool
) -> None:
    """`stat`, `chmod`, `unlink` reached the file that was hidden beneath a tmpfs."""
    own_namespace(each_call, kind, relative)


def test_a_file_bound_over_a_file_is_reached(own_namespace: Callable[..., None]) -> None:
    own_namespace(bound_file)


def test_a_file_system_over_the_store_hides_it(own_namespace: Callable[..., None], way: Way) -> None:
    own_namespace(covered_store, str(way.store.mount))


def test_a_bind_of_the_store_is_the_kernels_where_something_is_mounted_inside(
    own_namespace: Callable[..., None], way: Way, tmp_path: Path
) -> None:
    own_namespace(bound_elsewhere, str(tmp_path))


def beneath_a_mount(root: Path) -> None:
    """Runs from its start where a file system hides a folder of the store."""
    assert os.stat(root / "folder/file").st_uid == SHOWN
    os.chmod(root / "folder/file", 0o604)
    os.unlink(root / "folder/only-shown")
    print(json.dumps(sorted(os.listdir(root / "folder"))))


def test_a_program_that_starts_beneath_a_mount_sees_it(way: Way, root_only: None) -> None:
    if way.name != PRELOAD or not has_fuse():
        pytest.skip("the kernel alone resolves paths, or there is none that could")
    folder = way.folder / "folder"
    folder.mkdir()
    fill(folder, HIDDEN, "hidden")
    script = 'mount -t tmpfs none "$1" && touch "$1/file" "$1/only-shown" && chown 2002 "$1/file" && shift && exec "$@"'
    answer = way.run("unshare", "--mount", "sh", "-c", script, "sh", folder, *way.python(beneath_a_mount))
    assert json.loads(answer.stdout) == ["file"]
    assert sorted(os.listdir(folder)) == ["file", "link", "only-hidden"]
    assert os.stat(folder / "file").st_uid == HIDDEN
