"""The way to a file: the folders and links that lead to it, and the users who could change one.

A path names one file only while nobody else can put another folder or link on the way. So a way is gone by open
folders, one after the other, and each folder and link is looked at once it is open. There are two rules:

- A *closed* way leads to files that give power: keys, credentials, backups, the state of a daemon. Each folder
  belongs to root, to this user or to the user whom the file is for, and nobody else can change it. What was checked
  stays so.
- Any other way leads to a file that this user names. The folders may be anybody's, but no link of another user leads
  root, and none that lies where anyone makes files leads anyone. A new file is made beside its name and renamed, so a
  link that comes to the name meanwhile is replaced and never written through.
"""

import contextlib
import errno
import grp
import os
import pwd
import stat
from collections import deque
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import BinaryIO

from weir.errors import WeirError

_LINKS_MAX = 40
"""Most symbolic links followed on the way to a path (as in the kernel)."""
_PASS = os.O_PATH | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_OWN_MODE, _ANY_MODE = 0o600, 0o666
_KERNEL = Path("/proc")
_HINT = "name a place below folders of your own or of root"


class WayError(WeirError):
    """A way that another user could change, or a file that another user could have written."""


def check_closed(path: Path, *, users: Collection[int] = (), hint: str = _HINT) -> None:
    """Refuse a path that another user could make lead elsewhere. What is missing is made by this user later, below a
    checked folder.

    Args:
        users: Further users whose folders and links may lead there.
        hint: A remedy for the user.

    Raises:
        WayError: A folder or link on the way is another user's, or can be changed by others.
        OSError: A folder on the way cannot be opened.
    """
    descriptor, _, _ = _reached(path, closed=True, users=users, hint=hint)
    os.close(descriptor)


@contextlib.contextmanager
def open_believed(path: Path, *, secret: bool = False, hint: str = _HINT) -> Iterator[BinaryIO]:
    """Open a file that gives power to whoever wrote it, on a closed way.

    Args:
        secret: Whether others may not read the file either.
        hint: A remedy for the user.

    Yields:
        The file, for reading.

    Raises:
        WayError: Another user could have written the file, or put it there; or the path is no plain file.
        OSError: The file cannot be opened.
    """
    descriptor, shown, missing = _reached(path, closed=True, hint=hint)
    try:
        if missing:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise WayError(f"{path} is no plain file", hint=hint)
        if secret and stat.S_IMODE(status.st_mode) & 0o077:
            raise WayError(
                f"{shown} can be read or changed by other users (mode {stat.S_IMODE(status.st_mode):04o})",
                hint=f"`chmod go-rwx {shown}`, if nobody has done so",
            )
        # Nobody else can put another file at the path meanwhile; the kernel's own link leads to this very file.
        file = os.fdopen(os.open(f"/proc/self/fd/{descriptor}", os.O_RDONLY | os.O_CLOEXEC), "rb")
    finally:
        os.close(descriptor)
    with file:
        yield file


@contextlib.contextmanager
def replacing(
    path: Path,
    *,
    mode: int | None = _OWN_MODE,
    owner: tuple[int, int] | None = None,
    closed: bool = False,
) -> Iterator[BinaryIO]:
    """Make a file that takes the place of another at once, when the block ends; where the block fails, nothing changes.
    Mode and owner are set before anything is written, so that nobody else ever reads the content.

    Args:
        path: Path of the file; its folder must exist.
        mode: Mode of the file; None is the usual one, within the umask.
        owner: Uid and gid of the file, whose folders may lead there, too; None is this process's own.
        closed: Whether the way has to be a closed one.

    Yields:
        The new file, for writing.

    Raises:
        WayError: Another user could make the path lead elsewhere.
        OSError: The file cannot be written; the error names `path`.
    """
    users = () if owner is None else owner[:1]
    try:
        found, place = _place(path, closed=closed, users=users)
        if found is not None:
            # Nothing takes the place of a device, a pipe or an open file, such as /dev/stdout.
            with os.fdopen(found, "wb") as file:
                yield file
            return
        folder, _, missing = _reached(place.parent, closed=closed, users=users)
        try:
            if missing:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
            with _fresh(folder, place.name, mode, owner) as file:
                yield file
        finally:
            os.close(folder)
    except OSError as error:
        if error.errno is None:
            raise
        raise OSError(error.errno, error.strerror, str(path)) from error


def write_whole(
    path: Path,
    content: str | bytes,
    *,
    mode: int | None = _OWN_MODE,
    owner: tuple[int, int] | None = None,
    closed: bool = False,
) -> None:
    """Replace a file at once, as `replacing` does.

    Args:
        path: Path of the file; its folder must exist.
        content: Content of the file; a text is written as UTF-8, with the bytes that were no UTF-8 as they were.
        mode: Mode of the file; None is the usual one, within the umask.
        owner: Uid and gid of the file, whose folders may lead there, too; None is this process's own.
        closed: Whether the way has to be a closed one.

    Raises:
        WayError: Another user could make the path lead elsewhere.
        OSError: The file cannot be written; the error names `path`.
    """
    with replacing(path, mode=mode, owner=owner, closed=closed) as file:
        file.write(content.encode(errors="surrogateescape") if isinstance(content, str) else content)


def make_folders(path: Path, mode: int = 0o777) -> None:
    """Make a folder, and those that lead to it, where they are missing.

    Args:
        mode: Mode of what is made, within the umask.

    Raises:
        WayError: A link of another user is on the way.
        OSError: A folder cannot be made.
    """
    here, _, missing = _reached(path, closed=False)
    try:
        for name in missing:
            with contextlib.suppress(FileExistsError):
                os.mkdir(name, mode, dir_fd=here)
            below = os.open(name, _PASS | os.O_NOFOLLOW | os.O_DIRECTORY, dir_fd=here)
            os.close(here)
            here = below
        if not stat.S_ISDIR(os.fstat(here).st_mode):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error
    finally:
        os.close(here)


def make_work_folder(path: Path, mode: int = 0o777) -> None:
    """Make a folder in which a command works for long, by the paths of the files there.

    Args:
        mode: Mode of what is made, within the umask.

    Raises:
        WayError: A link of another user is on the way; or root is to work where another user could change the way.
        OSError: A folder cannot be made.
    """
    if os.geteuid() == 0:
        check_closed(path)
    make_folders(path, mode)


def _place(path: Path, *, closed: bool, users: Collection[int]) -> tuple[int | None, Path]:
    """Find where a file is to be made: a descriptor of what is open or a device there, and the path without links."""
    descriptor, shown, missing = _reached(path, closed=closed, users=users)
    try:
        if missing:
            if len(missing) > 1:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
            return None, shown / missing[0]
        mode = os.fstat(descriptor).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if closed or (stat.S_ISREG(mode) and not shown.is_relative_to(_KERNEL)):
            return None, shown
        return os.open(f"/proc/self/fd/{descriptor}", os.O_WRONLY | os.O_CLOEXEC), shown
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _fresh(folder: int, name: str, mode: int | None, owner: tuple[int, int] | None) -> Iterator[BinaryIO]:
    """A new file in an open folder, which takes its name when the block ends well."""
    fresh = f".{name}.{os.urandom(4).hex()}"
    descriptor = os.open(fresh, _NEW, _ANY_MODE if mode is None else mode, dir_fd=folder)
    try:
        with os.fdopen(descriptor, "wb") as file:
            if owner is not None:
                os.fchown(file.fileno(), *owner)
            if mode is not None:
                os.fchmod(file.fileno(), mode)
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.rename(fresh, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(fresh, dir_fd=folder)
        raise


def _reached(
    path: Path, *, closed: bool, users: Collection[int] = (), hint: str = _HINT
) -> tuple[int, Path, list[str]]:
    """Go a way as far as it is there.

    Returns:
        Descriptor (O_PATH) of what was reached, its path without links, and the names that are missing below it.
    """
    believed = {0, os.geteuid(), *users}
    ahead = deque(path.absolute().parts[1:])
    here, shown, links = os.open("/", _PASS), Path("/"), 0
    try:
        while True:
            status = os.fstat(here)
            if closed:
                _check_folder(status, shown, believed, hint)
            if not ahead:
                return os.dup(here), shown, []
            name = ahead.popleft()
            try:
                below = os.open(name, _PASS | os.O_NOFOLLOW, dir_fd=here)
            except FileNotFoundError:
                return os.dup(here), shown, [name, *ahead]
            target = None
            found = os.fstat(below)
            if stat.S_ISLNK(found.st_mode):
                links += 1
                try:
                    _check_link(found, status, shown / name, believed, closed=closed, hint=hint)
                    if links > _LINKS_MAX:
                        raise WayError(
                            f"{shown / name} leads over too many symbolic links", hint="name the folder itself"
                        )
                    target = _target(below, name)
                finally:
                    os.close(below)
                if target is not None:
                    ahead.extendleft(reversed(target.parts[1:] if target.is_absolute() else target.parts))
                    if not target.is_absolute():
                        continue
                    below, name = os.open("/", _PASS), "/"
                else:
                    below = os.open(name, _PASS, dir_fd=here)
            os.close(here)
            here, shown = below, shown / name
    finally:
        os.close(here)


def _target(link: int, name: str) -> Path | None:
    """The path that a link has; None for one of an open file, such as /proc/self/fd/1, which may have no path."""
    if os.fstat(link).st_dev == _KERNEL.stat().st_dev and name.isdecimal():
        return None
    return Path(os.readlink("", dir_fd=link))


def _check_folder(status: os.stat_result, shown: Path, believed: Collection[int], hint: str) -> None:
    if status.st_uid not in believed:
        what = "who could put another folder in the place of one below it"
        if not stat.S_ISDIR(status.st_mode):
            what = "who could have written anything into it"
        raise WayError(f"{shown} is {user_name(status.st_uid)}'s, {what}", hint=hint)
    # In a sticky folder, such as /tmp, others cannot replace this user's files, and files of others are refused.
    is_sticky = stat.S_ISDIR(status.st_mode) and status.st_mode & stat.S_ISVTX
    has_content = stat.S_ISDIR(status.st_mode) or stat.S_ISREG(status.st_mode)
    if stat.S_IMODE(status.st_mode) & 0o022 and has_content and not is_sticky and not is_private_group(status):
        raise WayError(
            f"{shown} can be changed by other users (mode {stat.S_IMODE(status.st_mode):04o})",
            hint=f"`chmod go-w {shown}`, if nobody has done so; or {hint}",
        )


def _check_link(
    status: os.stat_result,
    folder: os.stat_result,
    shown: Path,
    believed: Collection[int],
    *,
    closed: bool,
    hint: str,
) -> None:
    if status.st_uid in {0, os.geteuid()}:
        return
    # The owner of a folder can put anything there. Root's commands may not be led by anybody, and folders where others
    # make files have links of people whom nobody chose.
    may_lead = not closed and os.geteuid() != 0 and status.st_uid == folder.st_uid
    if not may_lead:
        raise WayError(
            f"{shown} is a link of {user_name(status.st_uid)}, who could make it lead anywhere",
            hint=f"name the folder itself; {hint}",
        )


def is_private_group(status: os.stat_result) -> bool:
    """Decide whether a group that may write is its owner's alone, as where every user has a group of the same name.

    Args:
        status: Status of a file or folder.

    Returns:
        Whether nobody but its owner and its owner's own group may write, and that group has no other member.
    """
    if stat.S_IMODE(status.st_mode) & 0o002:
        return False
    try:
        account, group = pwd.getpwuid(status.st_uid), grp.getgrgid(status.st_gid)
    except KeyError:
        return False
    # Members by their primary group are in no list: a group such as `users` has every user, and none in its list.
    is_own = status.st_gid == account.pw_gid and group.gr_name == account.pw_name
    return is_own and set(group.gr_mem) <= {account.pw_name}


def user_name(uid: int) -> str:
    """Name a user for a message.

    Args:
        uid: Number of the user.

    Returns:
        The name, or the number where the user has none.
    """
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"uid {uid}"
