"""Batches of files that are small, links or pipes: written, made durable together, read back, and given their names."""

import contextlib
import errno
import itertools
import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from weir.staging.contents import Scratch, checksum, copy_range, forget_cache, is_sparse
from weir.staging.errors import FATAL, FatalError, SourceChangedError
from weir.staging.metadata import apply_to_file, apply_to_link, is_done, may_be_kept
from weir.staging.places import below, shown
from weir.staging.record import Record, identity
from weir.staging.reports import Tally
from weir.staging.workers import Unit

BATCH_FILES = 32
"""Files that are made durable together: the first one's fsync writes the journal of the file system for all."""
BATCH_BYTES = 32 << 20
"""Bytes that are made durable together."""
TRIES = 3
"""Copies of a file that changes while it is copied, before it is given up."""
_numbers = itertools.count()


@dataclass(frozen=True)
class Entry:
    """A file of a batch."""

    source: bytes
    """Name in the folder of the source."""
    name: bytes
    """Name in the folder of the destination."""
    status: os.stat_result


class Closeable(Protocol):
    """A file that is under way."""

    def close(self) -> None:
        """Close the file."""


@dataclass(frozen=True)
class Trees:
    """The two trees of a copy."""

    source: int
    """Descriptor of the folder that the source's paths begin at."""
    target: int
    """Descriptor of the folder that the destination's paths begin at."""
    record: Record
    tally: Tally
    opened: set[Closeable] = field(default_factory=set)
    """Large files that are under way, to be closed where the copy ends early."""


@dataclass
class _Written:
    """A file under its temporary name."""

    entry: Entry
    status: os.stat_result
    temporary: bytes
    file: int
    found: bytes


@dataclass
class Batch:
    """Files of one folder."""

    trees: Trees
    folder: Sequence[bytes]
    is_new: bool
    """Whether this process made the folder, so that nothing is in it."""
    entries: list[Entry] = field(default_factory=list)
    size_bytes: int = 0
    _is_taken: bool = False

    def add(self, entry: Entry) -> bool:
        """Add a file.

        Returns:
            Whether the batch is full.
        """
        self.entries.append(entry)
        self.size_bytes += entry.status.st_size if stat.S_ISREG(entry.status.st_mode) else 0
        return len(self.entries) >= BATCH_FILES or self.size_bytes >= BATCH_BYTES

    def take(self) -> Unit | None:
        """See `Work.take`."""
        if self._is_taken:
            return None
        self._is_taken = True
        return self.copy

    def copy(self, scratch: Scratch) -> None:
        """Copy the files.

        Args:
            scratch: The worker's memory.

        Raises:
            FatalError: No other file would fare better.
            StoppedError: The copy is to stop.
        """
        try:
            with below(self.trees.source, self.folder) as source, below(self.trees.target, self.folder) as target:
                _copy_all(self, source, target, scratch)
        except OSError as error:
            self.failed(b"", error)

    def failed(self, name: bytes, error: OSError) -> None:
        """Keep the failure of one file, or end the copy where no other file would fare better.

        Raises:
            FatalError: No other file would fare better.
        """
        path = (*self.folder, name) if name else tuple(self.folder)
        if error.errno in FATAL:
            raise FatalError(b"/".join(path), error) from error
        self.trees.tally.problem(f"{shown(path)}: {error.strerror}")


def temporary_name(record: Record) -> bytes:
    """Name an unfinished file.

    Args:
        record: Record of the copy.

    Returns:
        A name that no other unfinished file of this copy has.
    """
    return record.prefix + f"{os.getpid()}-{next(_numbers)}".encode()


def _copy_all(batch: Batch, source: int, target: int, scratch: Scratch) -> None:
    """Write all files, then make them durable, then read them back: so the devices work for all of them at once."""
    written: list[_Written] = []
    try:
        for entry in batch.entries:
            try:
                found = _begin(batch, entry, source, target, scratch)
            except OSError as error:
                batch.failed(entry.name, error)
                continue
            if found is not None:
                written.append(found)
        for each in written:
            os.fsync(each.file)
        for each in written:
            try:
                _finish(batch, each, target, scratch)
            except SourceChangedError:
                batch.failed(each.entry.name, OSError(errno.EILSEQ, "its end was lost while it was copied"))
            except OSError as error:
                batch.failed(each.entry.name, error)
    except OSError as error:
        batch.failed(b"", error)
    finally:
        for each in written:
            os.close(each.file)
            if each.temporary:
                with contextlib.suppress(OSError):
                    os.unlink(each.temporary, dir_fd=target)


def _begin(batch: Batch, entry: Entry, source: int, target: int, scratch: Scratch) -> _Written | None:
    """Write a file under a temporary name; None where it is done, or has no bytes."""
    kind = stat.S_IFMT(entry.status.st_mode)
    if not batch.is_new and _is_there(batch, entry, source, target, scratch):
        _count(batch, entry, copied=False)
        return None
    if kind == stat.S_IFREG:
        return _write(batch, entry, source, target, scratch)
    temporary = temporary_name(batch.trees.record)
    if kind == stat.S_IFLNK:
        os.symlink(os.readlink(entry.source, dir_fd=source), temporary, dir_fd=target)
    else:
        os.mkfifo(temporary, 0o600, dir_fd=target)
    try:
        apply_to_link(target, temporary, entry.status)
        os.rename(temporary, entry.name, src_dir_fd=target, dst_dir_fd=target)
    except BaseException:
        os.unlink(temporary, dir_fd=target)
        raise
    _count(batch, entry, copied=True)
    return None


def _write(batch: Batch, entry: Entry, source: int, target: int, scratch: Scratch) -> _Written | None:
    for _ in range(TRIES):
        temporary = temporary_name(batch.trees.record)
        file = os.open(
            temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600, dir_fd=target
        )
        try:
            written = _fill(entry, source, file, temporary, scratch)
        except SourceChangedError:
            written = None
        except BaseException:
            _drop(file, temporary, target)
            raise
        if written is not None:
            return written
        _drop(file, temporary, target)
    batch.trees.tally.problem(f"{shown((*batch.folder, entry.source))}: it changes while it is copied")
    return None


def _fill(entry: Entry, source: int, file: int, temporary: bytes, scratch: Scratch) -> _Written | None:
    """Copy the bytes; None where the source changed meanwhile."""
    original = open_source(source, entry.source)
    try:
        status = os.fstat(original)
        sparse = is_sparse(status)
        if sparse:
            os.ftruncate(file, status.st_size)
        found = copy_range(original, file, 0, status.st_size, sparse=sparse, scratch=scratch)
        if identity(os.fstat(original)) != identity(status):
            return None
        apply_to_file(file, status)
    finally:
        os.close(original)
    return _Written(entry, status, temporary, file, found)


def open_source(folder: int, name: bytes) -> int:
    """Open a plain file of the source; one that was replaced by something else meanwhile is not opened.

    Args:
        folder: Descriptor of its folder.

    Returns:
        A descriptor for reading.

    Raises:
        OSError: It cannot be opened, or is no plain file.
    """
    # A pipe in the place of the file would hold the open for ever.
    file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise OSError(errno.EINVAL, "it is no plain file any more")
    return file


def _finish(batch: Batch, written: _Written, target: int, scratch: Scratch) -> None:
    """Read a durable file back, and give it its name."""
    forget_cache(written.file)
    verify_size(written.file, written.status.st_size)
    again = checksum(written.file, 0, written.status.st_size, sparse=is_sparse(written.status), scratch=scratch)
    if again != written.found:
        raise OSError(errno.EILSEQ, "its bytes were read back wrongly")
    os.rename(written.temporary, written.entry.name, src_dir_fd=target, dst_dir_fd=target)
    written.temporary = b""
    _count(batch, written.entry, copied=True)


def verify_size(file: int, size: int) -> None:
    """Refuse a file that is not as long as its source.

    Args:
        file: Descriptor of the file.

    Raises:
        OSError: The sizes differ.
    """
    found = os.fstat(file).st_size
    if found != size:
        raise OSError(errno.EILSEQ, f"it has {found} bytes in place of {size}")


def _is_there(batch: Batch, entry: Entry, source: int, target: int, scratch: Scratch) -> bool:
    """Whether the file is done: copied by this copy before, or equal to its source in each byte."""
    try:
        present = os.stat(entry.name, dir_fd=target, follow_symlinks=False)
    except FileNotFoundError:
        return False
    if stat.S_IFMT(present.st_mode) != stat.S_IFMT(entry.status.st_mode):
        return False
    if stat.S_ISLNK(present.st_mode):
        return os.readlink(entry.name, dir_fd=target) == os.readlink(entry.source, dir_fd=source)
    if not stat.S_ISREG(present.st_mode):
        return True
    if is_done(entry.status, present, batch.trees.record.begun_ns):
        return True
    return present.st_size == entry.status.st_size and _equals(entry, source, target, scratch)


def _equals(entry: Entry, source: int, target: int, scratch: Scratch) -> bool:
    """Compare the bytes of two files; an equal one gets mode and times of its source."""
    try:
        original = open_source(source, entry.source)
        try:
            status = os.fstat(original)
            file = os.open(entry.name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=target)
            try:
                present = os.fstat(file)
                if present.st_size != status.st_size or not may_be_kept(status, present):
                    return False
                os.fsync(file)
                forget_cache(file)
                pair = [
                    checksum(each, 0, status.st_size, sparse=sparse, scratch=scratch)
                    for each, sparse in ((original, is_sparse(status)), (file, False))
                ]
                if pair[0] != pair[1] or identity(os.fstat(original)) != identity(status):
                    return False
                apply_to_file(file, status)
                os.fsync(file)
                return True
            finally:
                os.close(file)
        finally:
            os.close(original)
    except (PermissionError, SourceChangedError):
        return False


def _count(batch: Batch, entry: Entry, *, copied: bool) -> None:
    size = entry.status.st_size if stat.S_ISREG(entry.status.st_mode) else 0
    batch.trees.tally.add(files=1, size_bytes=size)
    if copied:
        batch.trees.tally.add(copied_files=1, copied_bytes=size)


def _drop(file: int, temporary: bytes, target: int) -> None:
    os.close(file)
    with contextlib.suppress(OSError):
        os.unlink(temporary, dir_fd=target)
