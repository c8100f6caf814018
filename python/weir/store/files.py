"""Folders of a home: made with a mode, and removed as a whole."""

import contextlib
import os
import shutil
from pathlib import Path

from weir.store.errors import StoreError


def make_folder(path: Path, mode: int) -> None:
    """Make a folder with a mode, whatever the umask is. Folders above it get the usual mode.

    Args:
        path: Path of the folder; one that is there, and is this user's, gets the mode.

    Raises:
        OSError: The folder cannot be made or changed.
    """
    path.mkdir(parents=True, exist_ok=True)
    if path.stat().st_uid == os.geteuid():
        path.chmod(mode)


def remove_folder(path: Path) -> None:
    """Remove a folder with all its files. One that is not there, or to which no way leads, is no failure.

    Raises:
        StoreError: Some of it is still there, or it is a link.
    """
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        # Where this user may not look, this user has made nothing.
        return
    try:
        # Another command may remove the same files.
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(path)
    except OSError as error:
        raise StoreError(
            f"cannot remove {path}: {error.strerror or error}", hint="remove the cause, and end the store again"
        ) from error
