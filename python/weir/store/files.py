"""Files that are either whole or not there."""

import contextlib
import os
import shutil
from pathlib import Path

from weir.store.errors import StoreError


def write_whole(path: Path, text: str, *, mode: int = 0o600, owner: tuple[int, int] | None = None) -> None:
    """Replace a file at once. Mode and owner are set before the text is written, so that nobody else ever reads the
    text.

    Args:
        path: Path of the file; its folder must exist.
        text: Content of the file.
        mode: Mode of the file.
        owner: Uid and gid of the file; None is this process's own.

    Raises:
        OSError: The file cannot be written; the error names `path`.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.unlink(missing_ok=True)
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    try:
        with os.fdopen(descriptor, "w") as file:
            if owner is not None:
                os.fchown(file.fileno(), *owner)
            os.fchmod(file.fileno(), mode)
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        temporary.rename(path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise OSError(error.errno, error.strerror, str(path)) from error
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def make_folder(path: Path, mode: int) -> None:
    """Make a folder with a mode, whatever the umask is. Folders above it get the usual mode.

    Args:
        path: Path of the folder; one that is there, and is this user's, gets the mode.
        mode: Mode of the folder.

    Raises:
        OSError: The folder cannot be made or changed.
    """
    path.mkdir(parents=True, exist_ok=True)
    if path.stat().st_uid == os.geteuid():
        path.chmod(mode)


def remove_folder(path: Path) -> None:
    """Remove a folder with all its files. One that is not there, or to which no way leads, is no failure.

    Args:
        path: The folder.

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
