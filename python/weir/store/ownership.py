"""Checks that no other user could change the contents of a home.

A store believes the files in its home: a user who could put a key there could be any user of the store. So a home, and
every folder and link on the way to it (`weir.ways`), must be this user's or root's and closed to the writing of others.
"""

import errno
import os
import stat
from pathlib import Path

from weir.store.errors import StoreError
from weir.ways import check_closed, is_private_group, user_name

HINT = "choose a `home` below folders of your own or of root"
"""Remedy where the way to a home is not this user's alone."""


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
                f"{path} is {user_name(status.st_uid)}'s: its maker could use the store as any user",
                hint="choose a `home` of your own",
            )
    status = found[-1]
    if secret and not stat.S_ISREG(status.st_mode):
        raise StoreError(f"{path} is no plain file", hint="remove it, or choose another `home`")
    open_to = 0o077 if secret else 0o022
    if stat.S_IMODE(status.st_mode) & open_to and not (not secret and is_private_group(status)):
        access = "read or changed" if secret else "changed"
        raise StoreError(
            f"{path} can be {access} by other users (mode {stat.S_IMODE(status.st_mode):04o})",
            hint=f"`chmod go-{'rwx' if secret else 'w'} {path}`, if nobody has done so",
        )
    if not secret and stat.S_ISLNK(found[0].st_mode):
        check_closed(Path(os.path.realpath(path)), hint=HINT)
