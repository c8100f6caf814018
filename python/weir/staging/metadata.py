"""Owner, mode and times of copied files, and the mark by which a copied file is known.

A copy by root gives away only what root owns, by descriptors. In a folder of the destination that a user owns, this
user can put another user's file in the place of any name.
"""

import errno
import os
import stat
from pathlib import Path

_DOUBT_NS = 120 * 1_000_000_000
"""A source that changed less than this before the copy began may have changed after it was read, by another clock."""


def apply_to_file(file: int, status: os.stat_result) -> None:
    """Give an open file or folder the owner, mode and times of its source.

    Args:
        file: Descriptor of the file.

    Raises:
        OSError: The file system refuses.
    """
    keeps_owner = _keep_owner(file, status)
    os.fchmod(file, _mode(status, keeps_owner=keeps_owner))
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))


def apply_to_root(folder: int, status: os.stat_result, *, is_new: bool) -> None:
    """Finish the folder that is the destination itself.

    The source may be the root of a store, which is open to all users for writing. A folder that was there before keeps
    its owner and mode, and a new one is never wider than this process's umask allows.

    Args:
        folder: Descriptor of the folder.
        status: Status of the source.
        is_new: Whether the copy made the folder.

    Raises:
        OSError: The file system refuses.
    """
    if is_new:
        keeps_owner = _keep_owner(folder, status)
        # Whatever other threads make in between has no rights for others.
        mask = os.umask(0o077)
        os.umask(mask)
        os.fchmod(folder, _mode(status, keeps_owner=keeps_owner) & ~(mask | stat.S_ISVTX))
    os.utime(folder, ns=(status.st_atime_ns, status.st_mtime_ns))


def apply_to_link(folder: int, name: bytes, status: os.stat_result) -> None:
    """Give a link or pipe that this copy made the owner and times of its source, and a pipe the mode.

    Args:
        folder: Descriptor of the folder.
        name: Name of the link or pipe.

    Raises:
        OSError: The file system refuses, or something else has the name.
    """
    found = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    # The kernel goes through this name to the link or pipe itself, whatever has its name by now.
    itself = f"/proc/self/fd/{found}"
    try:
        present = os.fstat(found)
        is_own = may_be_given_away(status, present) and present.st_nlink == 1
        if stat.S_IFMT(present.st_mode) != stat.S_IFMT(status.st_mode) or not is_own:
            raise OSError(errno.EAGAIN, "something else has its name")
        if os.geteuid() == 0:
            os.chown(itself, status.st_uid, status.st_gid)
        if stat.S_ISFIFO(status.st_mode):
            present = os.fstat(found)
            keeps_owner = (present.st_uid, present.st_gid) == (status.st_uid, status.st_gid)
            Path(itself).chmod(_mode(status, keeps_owner=keeps_owner) & 0o777)
        os.utime(itself, ns=(status.st_atime_ns, status.st_mtime_ns))
    finally:
        os.close(found)


def may_be_given_away(source: os.stat_result, present: os.stat_result) -> bool:
    """Decide whether a file or folder of the destination may get the owner of its source.

    Args:
        source: Status of the source.
        present: Status of the file or folder at the destination.

    Returns:
        Whether it may: it is this process's own, or has this owner already.
    """
    return present.st_uid in (os.geteuid(), source.st_uid)


def is_done(source: os.stat_result, present: os.stat_result, begun_ns: int) -> bool:
    """Decide whether a file was copied by this copy before.

    No file gets its name before it was verified, so a file that came there since the copy began, with size and
    modification time of its source, is that source. The file's time of change is the destination's own, which no user
    can set.

    Args:
        source: Status of the source.
        present: Status of the file at the destination.
        begun_ns: Moment at which the copy began, by the destination's clock.

    Returns:
        Whether the file is done. A source that may have changed since is no proof.
    """
    return (
        source.st_size == present.st_size
        and source.st_mtime_ns == present.st_mtime_ns
        and present.st_ctime_ns >= begun_ns
        and source.st_ctime_ns < begun_ns - _DOUBT_NS
    )


def may_be_kept(source: os.stat_result, present: os.stat_result) -> bool:
    """Decide whether a file of the destination may get the mode and times of its source.

    Args:
        source: Status of the source.
        present: Status of the file at the destination.

    Returns:
        Whether it may. A file with further names may lie outside of the destination, too, and is replaced, unless it
        needs no change. So is the file of a third user.
    """
    return (present.st_nlink == 1 and may_be_given_away(source, present)) or (
        (source.st_mode, source.st_mtime_ns) == (present.st_mode, present.st_mtime_ns)
        and (os.geteuid() != 0 or (source.st_uid, source.st_gid) == (present.st_uid, present.st_gid))
    )


def _keep_owner(file: int, status: os.stat_result) -> bool:
    present = os.fstat(file)
    if (present.st_uid, present.st_gid) == (status.st_uid, status.st_gid):
        return True
    if os.geteuid() != 0:
        return False
    os.fchown(file, status.st_uid, status.st_gid)
    return True


def _mode(status: os.stat_result, *, keeps_owner: bool) -> int:
    """The mode of the source, without the rights that another owner gave away.

    Another user's program must not run with the rights of the copy's owner, and the users that may write to another
    user's file need not be allowed to write to the copy.
    """
    mode = stat.S_IMODE(status.st_mode)
    return mode if keeps_owner else mode & ~(stat.S_ISUID | stat.S_ISGID | stat.S_ISVTX | stat.S_IWGRP | stat.S_IWOTH)
