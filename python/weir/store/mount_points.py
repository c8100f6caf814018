"""The folders that Weir makes for mounts, into which nobody can write by mistake while the store is not mounted.

A program that does not find its mount would fill the disk below it. So the folder gets mode 0, which stops every user
but root, and where root mounts, the attribute of immutable files, which stops root too (chattr(1)). Both are of the
folder below the mount, and not seen while the store is mounted. Folders that were there before are left as they are.
"""

import contextlib
import fcntl
import os
import struct
from pathlib import Path

from weir.ways import check_closed, write_whole

_GET_FLAGS = 0x80086601
_SET_FLAGS = 0x40086602
"""Requests for the attributes of a file (ioctl_iflags(2)), on processors whose words have 64 bits."""
_IMMUTABLE = 0x10
_OPEN_MODE = 0o700


def prepare(point: Path, marker: Path) -> int | None:
    """Make the folder of a mount, or open the folder that was made for an earlier mount.

    Args:
        marker: File that tells that the folder was made here.

    Returns:
        The open folder, for `protect`; None for a folder that was not made here.

    Raises:
        WayError: Root is to mount where another user could change the way.
        OSError: The folder cannot be made or opened.
    """
    if os.geteuid() == 0:
        # Root's mount covers what another user's link would lead to.
        check_closed(point if point.is_symlink() else point.parent)
    if not point.exists():
        write_whole(marker, f"{point}\n")
        point.parent.mkdir(parents=True, exist_ok=True)
        point.mkdir(_OPEN_MODE)
    elif not marker.exists():
        return None
    elif os.geteuid() != 0:
        # The system's helper mounts where its user may write.
        point.chmod(_OPEN_MODE)
    return os.open(point, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)


def protect(folder: int) -> None:
    """Let nobody write into the folder below a mount. A file system without the attribute has the mode alone.

    Args:
        folder: The open folder; it is closed.
    """
    try:
        if not _flags(folder) & _IMMUTABLE:
            with contextlib.suppress(OSError):
                os.fchmod(folder, 0)
            _set(folder, _flags(folder) | _IMMUTABLE)
    finally:
        os.close(folder)


def release(marker: Path) -> None:
    """Remove the folder that was made for a mount, once nothing is mounted there.

    Args:
        marker: File that tells that the folder was made here; without it, nothing happens.
    """
    try:
        point = Path(marker.read_text().removesuffix("\n"))
    except FileNotFoundError:
        return
    with contextlib.suppress(OSError):
        if os.geteuid() != 0:
            point.chmod(_OPEN_MODE)
        folder = os.open(point, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            _set(folder, _flags(folder) & ~_IMMUTABLE)
        finally:
            os.close(folder)
        point.rmdir()
    marker.unlink(missing_ok=True)


def _flags(folder: int) -> int:
    """The attributes of a folder; none where its file system has no attributes."""
    try:
        answer = fcntl.ioctl(folder, _GET_FLAGS, struct.pack("l", 0))
    except OSError:
        return 0
    return int(struct.unpack("l", answer)[0])


def _set(folder: int, flags: int) -> None:
    """Set the attributes of a folder, as far as the file system and this process's rights allow it."""
    if flags != _flags(folder):
        with contextlib.suppress(OSError):
            fcntl.ioctl(folder, _SET_FLAGS, struct.pack("l", flags))
