"""The last walk of a copy: each name of the source has its equal at the destination, and folders are made durable."""

import errno
import os
import stat

from weir.staging.metadata import apply_to_file, apply_to_root, may_be_given_away
from weir.staging.places import below, names_in
from weir.staging.record import is_of_a_copy
from weir.staging.reports import Tally
from weir.staging.small_files import Entry, Trees

_COARSE_NS = 10_000_000
_COARSE_DIFFERENCE_NS = 2_000_000_000
"""Unit of the times of file systems that do not keep nanoseconds, and the largest difference there (FAT)."""


def audit(trees: Trees, single: Entry | None) -> bool:
    """Compare a copy with its source by names, kinds, sizes and times, and finish its folders.

    Names in the folders that are not of the source are counted.

    Args:
        trees: The two trees.
        single: The file, where the copy is one file.

    Returns:
        Whether they are equal; they are not where the source has changed since it was walked through.

    Raises:
        OSError: A folder cannot be read or made durable.
    """
    if single is not None:
        status = os.stat(single.source, dir_fd=trees.source, follow_symlinks=False)
        if not _has_a_copy(single.source, status):
            return True
        return _is_equal(trees.source, single.source, status, trees.target, single.name)
    ahead: list[tuple[tuple[bytes, ...], bool]] = [((), False)]
    while ahead:
        parts, is_compared = ahead.pop()
        if is_compared:
            # Its folders are finished by now: a folder may close itself to its owner, too.
            _finish(trees, parts)
            continue
        try:
            with below(trees.source, parts) as source, below(trees.target, parts) as target:
                ahead.append((parts, True))
                copied = 0
                for name, status in names_in(source):
                    if stat.S_ISDIR(status.st_mode):
                        ahead.append(((*parts, name), False))
                    elif not _has_a_copy(name, status):
                        continue
                    elif not _is_equal(source, name, status, target, name):
                        return False
                    copied += 1
                _count_further(trees.tally, target, copied)
        except (FileNotFoundError, NotADirectoryError):
            return False
    return True


def _has_a_copy(name: bytes, status: os.stat_result) -> bool:
    return stat.S_IFMT(status.st_mode) in (stat.S_IFREG, stat.S_IFLNK, stat.S_IFIFO) and not is_of_a_copy(name)


def _count_further(tally: Tally, target: int, copied: int) -> None:
    """Count the names of a folder that are not of the source, and the files there that other copies left."""
    names = left = 0
    with os.scandir(target) as entries:
        for entry in entries:
            names += 1
            left += is_of_a_copy(os.fsencode(entry.name))
    tally.add(further=max(names - left - copied, 0), left_by_copies=left)


def _finish(trees: Trees, parts: tuple[bytes, ...]) -> None:
    with below(trees.source, parts) as source, below(trees.target, parts) as target:
        status, present = os.fstat(source), os.fstat(target)
        try:
            # A folder of a third user, which was there before, keeps its owner, mode and times.
            if not parts:
                apply_to_root(target, status, is_new=trees.record.is_root_new)
            elif may_be_given_away(status, present):
                apply_to_file(target, status)
        except PermissionError:
            if present.st_uid == os.geteuid():
                raise
        os.fsync(target)


def _is_equal(source: int, name: bytes, status: os.stat_result, target: int, copied: bytes) -> bool:
    kind = stat.S_IFMT(status.st_mode)
    try:
        present = os.stat(copied, dir_fd=target, follow_symlinks=False)
        if stat.S_IFMT(present.st_mode) != kind:
            return False
        if kind == stat.S_IFLNK:
            return os.readlink(copied, dir_fd=target) == os.readlink(name, dir_fd=source)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.EINVAL):
            return False
        raise
    return kind != stat.S_IFREG or (present.st_size == status.st_size and _is_same_time(status, present))


def _is_same_time(source: os.stat_result, present: os.stat_result) -> bool:
    difference = abs(source.st_mtime_ns - present.st_mtime_ns)
    return difference == 0 or (difference < _COARSE_DIFFERENCE_NS and present.st_mtime_ns % _COARSE_NS == 0)
