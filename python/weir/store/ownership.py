"""Checks that no other user could change the contents of a path.

A store believes the files in its home: a user who could put a key there could be any user of the store. So a home, and
every folder and link on the way to it, must be this user's or root's and closed to the writing of others.
"""

import errno
import grp
import os
import pwd
import stat
from collections import deque
from pathlib import Path

from weir.store.errors import StoreError

_LINKS_MAX = 40
"""Most symbolic links followed on the way to a path (as in the kernel)."""


def check_way(path: Path) -> None:
    """Refuse a path that another user could make lead elsewhere. Missing folders are made by this user later, below a
    checked one.

    Args:
        path: An absolute path.

    Raises:
        StoreError: A folder or link on the way is another user's, or can be changed by others.
    """
    ahead = deque(path.parts[1:])
    here = os.open("/", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    shown, links = Path("/"), 0
    try:
        _check_folder(os.fstat(here), shown)
        while ahead:
            name = ahead.popleft()
            try:
                below = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=here)
            except FileNotFoundError:
                return
            try:
                status = os.fstat(below)
                if stat.S_ISLNK(status.st_mode):
                    links += 1
                    _check_link(status, shown / name, links)
                    target = Path(os.readlink("", dir_fd=below))
                    ahead.extendleft(reversed(target.parts[1:] if target.is_absolute() else target.parts))
                    if target.is_absolute():
                        os.close(here)
                        here, shown = os.open("/", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC), Path("/")
                    continue
                shown = shown / name
                _check_folder(status, shown)
                here, below = below, here
            finally:
                os.close(below)
    finally:
        os.close(here)


def check_own(path: Path, *, secret: bool = False) -> None:
    """Refuse a file or folder of the home that another user may have made or changed; a missing one passes.

    Args:
        path: Path of the file or folder; a link must be this user's, and lead to one that passes.
        secret: Whether others may not read the file either.

    Raises:
        StoreError: The file or folder is another user's, or open to others.
    """
    try:
        # A key is a file of the home itself, and no link.
        found = [path.lstat()] if secret else [path.lstat(), path.stat()]
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR):
            return
        raise StoreError(f"cannot look at {path}: {error.strerror}") from error
    for status in found:
        if status.st_uid != os.geteuid():
            raise StoreError(
                f"{path} is {_owner(status.st_uid)}'s: its maker could use the store as any user",
                hint="choose a home of your own with --home or WEIR_HOME",
            )
    status = found[-1]
    if secret and not stat.S_ISREG(status.st_mode):
        raise StoreError(f"{path} is no plain file", hint="remove it, or choose another home with --home or WEIR_HOME")
    open_to = 0o077 if secret else 0o022
    if stat.S_IMODE(status.st_mode) & open_to and not (not secret and _is_private_group(status)):
        access = "read or changed" if secret else "changed"
        raise StoreError(
            f"{path} can be {access} by other users (mode {stat.S_IMODE(status.st_mode):04o})",
            hint=f"`chmod go-{'rwx' if secret else 'w'} {path}`, if nobody has done so",
        )
    if not secret and stat.S_ISLNK(found[0].st_mode):
        check_way(Path(os.path.realpath(path)))


def _check_folder(status: os.stat_result, shown: Path) -> None:
    if status.st_uid not in (0, os.geteuid()):
        raise StoreError(
            f"{shown} is {_owner(status.st_uid)}'s, who could put another folder in the place of one below it",
            hint="choose a home below folders of your own or of root, with --home or WEIR_HOME",
        )
    # In a sticky folder, such as /tmp, others cannot replace this user's files, and files of others are refused.
    is_open = stat.S_IMODE(status.st_mode) & 0o022 and not status.st_mode & stat.S_ISVTX
    if is_open and stat.S_ISDIR(status.st_mode) and not _is_private_group(status):
        raise StoreError(
            f"{shown} can be changed by other users (mode {stat.S_IMODE(status.st_mode):04o}), who could put another "
            "folder in the place of one below it",
            hint=f"`chmod go-w {shown}`, or choose another home with --home or WEIR_HOME",
        )


def _check_link(status: os.stat_result, shown: Path, links: int) -> None:
    if status.st_uid not in (0, os.geteuid()):
        raise StoreError(
            f"{shown} is a link of {_owner(status.st_uid)}, who could make it lead anywhere",
            hint="name the folder itself with --home or WEIR_HOME",
        )
    if links > _LINKS_MAX:
        raise StoreError(f"{shown} leads over too many symbolic links", hint="name the folder itself")


def _is_private_group(status: os.stat_result) -> bool:
    """Whether only the group may write, and it has no member but this user (as where every user has a group)."""
    if stat.S_IMODE(status.st_mode) & 0o002:
        return False
    try:
        account, group = pwd.getpwuid(os.geteuid()), grp.getgrgid(status.st_gid)
    except KeyError:
        return False
    return status.st_gid == account.pw_gid and set(group.gr_mem) <= {account.pw_name}


def _owner(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"uid {uid}"
