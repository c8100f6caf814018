"""Ways to files and folders that no other user of the machine can lead elsewhere.

A path is walked folder by folder from an open one, and no symbolic link is followed below the root of a copy. On the
way to the root, links of this user and of the system are followed.
"""

import errno
import os
import stat
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

_LINKS_MAX = 40
"""Most symbolic links followed on the way to a root (as in the kernel)."""
_READ = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_PASS = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
"""A folder on the way need not be readable: that of a store's mount point is not, for other users than its owner."""


def open_folder(path: Path) -> int:
    """Open a folder that the user named.

    Args:
        path: An absolute path.

    Returns:
        A descriptor of the folder.

    Raises:
        OSError: There is no such folder, or another user's link lies on the way.
    """
    start, ahead = _start(path)
    here = os.open(start, _PASS)
    links = 0
    try:
        while ahead:
            name = ahead.popleft()
            target = _link(here, name)
            if target is not None:
                links += 1
                if links > _LINKS_MAX:
                    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
                is_absolute = target.startswith(b"/")
                ahead.extendleft(reversed([part for part in target.split(b"/") if part not in (b"", b".")]))
                below = os.open("/", _PASS) if is_absolute else os.dup(here)
            else:
                below = os.open(name, _PASS | os.O_NOFOLLOW, dir_fd=here)
            os.close(here)
            here = below
        below = os.open(".", _READ, dir_fd=here)
        os.close(here)
        return below
    except OSError as error:
        os.close(here)
        raise OSError(error.errno, error.strerror, str(path)) from error


def _start(path: Path) -> tuple[str, deque[bytes]]:
    """The folder that a walk begins at, and the names behind it."""
    prefix = os.environ.get("WEIR_PREFIX")
    # The preload library serves the prefix by its path; the folders above are the host's.
    start = prefix if prefix and path.is_relative_to(prefix) else "/"
    return start, deque(os.fsencode(part) for part in path.relative_to(start).parts)


def _link(folder: int, name: bytes) -> bytes | None:
    """The target of a link that may be followed; None where the name is no link."""
    status = os.stat(name, dir_fd=folder, follow_symlinks=False)
    if not stat.S_ISLNK(status.st_mode):
        return None
    if status.st_uid not in (0, os.geteuid()):
        raise PermissionError(errno.EPERM, f"{os.fsdecode(name)} is another user's link, which could lead anywhere")
    return os.readlink(name, dir_fd=folder)


def open_below(folder: int, parts: Sequence[bytes]) -> int:
    """Open a folder below an open one, without following a link.

    Args:
        folder: Descriptor of the open folder.
        parts: Names on the way; none is the open folder itself.

    Returns:
        A descriptor of the folder.

    Raises:
        OSError: A name is missing, or is no folder.
    """
    here = os.dup(folder)
    for name in parts:
        try:
            below = os.open(name, _READ | os.O_NOFOLLOW, dir_fd=here)
        finally:
            os.close(here)
        here = below
    return here


@contextmanager
def below(folder: int, parts: Sequence[bytes]) -> Iterator[int]:
    """Open a folder as `open_below` does, for the length of a block.

    Args:
        folder: Descriptor of the open folder.
        parts: Names on the way.

    Yields:
        A descriptor of the folder.
    """
    opened = open_below(folder, parts)
    try:
        yield opened
    finally:
        os.close(opened)


def make_folder(parent: int, name: bytes, mode: int) -> bool:
    """Make a folder, or take the one that is there.

    Args:
        parent: Descriptor of the folder above.
        mode: Mode of the source; the folder is open to its owner until the copy is done.

    Returns:
        Whether the folder is new.

    Raises:
        OSError: The folder cannot be made, or something else has its name.
    """
    try:
        os.mkdir(name, stat.S_IMODE(mode) & 0o700 | 0o700, dir_fd=parent)
    except FileExistsError:
        status = os.stat(name, dir_fd=parent, follow_symlinks=False)
        if not stat.S_ISDIR(status.st_mode):
            raise
        return False
    return True


def names_in(folder: int) -> Iterator[tuple[bytes, os.stat_result]]:
    """List a folder.

    Args:
        folder: Descriptor of the folder.

    Yields:
        Each name and its status; links are not followed. Names that go in the meantime are left out.
    """
    with os.scandir(folder) as entries:
        for entry in entries:
            name = os.fsencode(entry.name)
            try:
                yield name, os.stat(name, dir_fd=folder, follow_symlinks=False)
            except FileNotFoundError:
                continue


def shown(parts: Sequence[bytes]) -> str:
    """Write a path for people.

    Args:
        parts: Names on the way.

    Returns:
        The path; bytes that are no UTF-8 are escaped.
    """
    return b"/".join(parts).decode("utf-8", "backslashreplace") or "."
