"""Files with several names: one name is copied, and the others are linked to its copy."""

import contextlib
import errno
import os
import stat
from collections.abc import Sequence

from weir.staging.contents import Scratch
from weir.staging.places import below, shown
from weir.staging.small_files import Batch, Entry, Trees, temporary_name

_UNLINKABLE = frozenset((errno.EXDEV, errno.EPERM, errno.EMLINK, errno.EOPNOTSUPP, errno.ENOSYS))
"""Errors of a destination that does not link these two names: each gets bytes of its own."""


class HardLinks:
    """The further names of files. Each takes memory until the end, and few trees have many."""

    def __init__(self, trees: Trees) -> None:
        """Begin without a name.

        Args:
            trees: The two trees.
        """
        self._trees = trees
        self._first: dict[tuple[int, int], tuple[bytes, ...]] = {}
        self._others: list[tuple[tuple[bytes, ...], tuple[bytes, ...], Entry]] = []

    def is_another(self, path: tuple[bytes, ...], folder: Sequence[bytes], entry: Entry) -> bool:
        """Keep a name of a file that has several.

        Args:
            path: Names on the way to the file.
            folder: Names on the way to its folder.

        Returns:
            Whether it is not the first name that was found; this name is linked later.
        """
        key = (entry.status.st_dev, entry.status.st_ino)
        first = self._first.setdefault(key, path)
        if first == path:
            return False
        self._others.append((first, tuple(folder), entry))
        return True

    def make(self, scratch: Scratch) -> None:
        """Link the further names, once their files are there.

        Args:
            scratch: Memory for files that cannot be linked.

        Raises:
            OSError: The destination has no room, or is gone.
        """
        for first, folder, entry in self._others:
            try:
                with below(self._trees.target, first[:-1]) as origin, below(self._trees.target, folder) as target:
                    is_new = self._link(first[-1], origin, entry.name, target)
                self._trees.tally.add(files=1, size_bytes=entry.status.st_size, copied_files=int(is_new))
            except OSError as error:
                if error.errno in _UNLINKABLE:
                    Batch(self._trees, folder, is_new=False, entries=[entry]).copy(scratch)
                elif error.errno in (errno.ENOENT, errno.EEXIST, errno.EISDIR):
                    self._trees.tally.problem(f"{shown((*folder, entry.name))}: {error.strerror}")
                else:
                    raise

    def _link(self, first: bytes, origin: int, name: bytes, target: int) -> bool:
        """Give a copied file a further name; return whether it had not the name before."""
        status = os.stat(first, dir_fd=origin, follow_symlinks=False)
        if not stat.S_ISREG(status.st_mode):
            raise FileNotFoundError(errno.ENOENT, "its first name is no file at the destination")
        with contextlib.suppress(FileNotFoundError):
            present = os.stat(name, dir_fd=target, follow_symlinks=False)
            if (present.st_dev, present.st_ino) == (status.st_dev, status.st_ino):
                return False
        temporary = temporary_name(self._trees.record)
        os.link(first, temporary, src_dir_fd=origin, dst_dir_fd=target, follow_symlinks=False)
        try:
            os.rename(temporary, name, src_dir_fd=target, dst_dir_fd=target)
        except BaseException:
            os.unlink(temporary, dir_fd=target)
            raise
        return True
