"""The mark of a folder that is being collected into: one collector at a time, whose death the next one tells.

Each window is on disk when it has ended, so that a collector that dies loses the open window at most.
"""

import fcntl
import json
import os
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from weir.interference.errors import InterferenceError
from weir.ways import make_work_folder

MARK = ".collecting"
_MARK_BYTES_MAX = 4096


@contextmanager
def collecting(folder: Path, window_seconds: float, tell: Callable[[str], None]) -> Iterator[None]:
    """Hold a folder for this collector.

    Args:
        folder: The folder, which is made for its owner alone.
        window_seconds: Length of a window; 0 where it is not known yet.
        tell: Takes a line where the collector before did not end by itself.

    Yields:
        Nothing; the folder is this collector's within the block.

    Raises:
        InterferenceError: Another collector writes there, the folder cannot be written, or others may write to it.
    """
    try:
        # The windows of jobs are for the caller alone, who may open the folder to others.
        make_work_folder(folder, 0o700)
        check_own(folder)
        mark = os.open(folder / MARK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise InterferenceError(f"cannot write to {folder}: {error.strerror}", hint="choose another `to`") from error
    try:
        try:
            fcntl.flock(mark, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise InterferenceError(
                f"another collector writes to {folder}", hint="end it, or choose another `to`"
            ) from error
        _tell_of_death(folder.glob("run=*/*"), os.pread(mark, _MARK_BYTES_MAX, 0), tell)
        os.ftruncate(mark, 0)
        os.pwrite(mark, json.dumps({"process": os.getpid(), "window_seconds": window_seconds}).encode(), 0)
        yield
        (folder / MARK).unlink(missing_ok=True)
    finally:
        os.close(mark)


def check_own(folder: Path) -> None:
    """Check that no other user can put files or links into a folder, from which old files are removed.

    Raises:
        InterferenceError: It belongs to another user, or others may write to it.
    """
    own = os.geteuid()
    found = folder.stat()
    if found.st_uid != own or folder.lstat().st_uid not in (own, 0):
        raise InterferenceError(f"{folder} belongs to another user", hint="choose a folder of yours")
    if found.st_mode & 0o022:
        raise InterferenceError(f"others may write to {folder}", hint=f"chmod go-w {folder}, or choose another folder")


def tell_of_deaths(folder: Path, tell: Callable[[str], None]) -> None:
    """Tell of the runs below a folder whose collectors did not end by themselves, once.

    Args:
        tell: Takes a line for each.
    """
    for path in sorted(folder.glob(f"run=*/{MARK}")):
        try:
            mark = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError:
            continue
        try:
            fcntl.flock(mark, fcntl.LOCK_EX | fcntl.LOCK_NB)
            text = os.pread(mark, _MARK_BYTES_MAX, 0)
            path.unlink(missing_ok=True)
        except OSError:
            # Its collector is alive.
            continue
        finally:
            os.close(mark)
        _tell_of_death(path.parent.iterdir(), text, lambda line, run=path.parent.name: tell(f"{run}: {line}"))  # type: ignore[misc]


def _tell_of_death(files: Iterable[Path], text: bytes, tell: Callable[[str], None]) -> None:
    """Tell that the collector before died, and the time for which windows are missing."""
    if not text:
        return
    files = list(files)
    for unfinished in (path for path in files if path.suffix == ".unfinished"):
        unfinished.unlink(missing_ok=True)
    try:
        process = int(json.loads(text)["process"])
    except (ValueError, KeyError, TypeError):
        process = 0
    whole = [path.stat().st_mtime for path in files if path.suffix == ".parquet"]
    since = f"its last whole window was kept {time.time() - max(whole):.0f} s ago" if whole else "it kept no window"
    name = f"the collector before (process {process})" if process else "the collector before"
    tell(f"{name} did not end by itself: the window that was open is lost; {since}, and windows since are missing")
