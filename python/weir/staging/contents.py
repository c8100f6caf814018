"""The bytes of files: copied and hashed in blocks, with holes left as they are.

A checksum covers the place and the bytes of each block that has a byte other than zero. So it is the same for a file
with holes and for one with zeros there, and whoever reads a file back needs to know nothing of its holes.
"""

import errno
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

from weir.staging.errors import SourceChangedError, StoppedError

if TYPE_CHECKING:
    import threading

BLOCK_BYTES = 1 << 20
"""Bytes that are read, hashed and written at once: a stripe of a Weir file, by default."""
_ZEROS = bytes(BLOCK_BYTES)
_SECTOR_BYTES = 512
"""Unit of `st_blocks` (stat(2))."""


class Scratch:
    """The memory of one worker: one block."""

    def __init__(self, stop: "threading.Event") -> None:
        """Take the memory.

        Args:
            stop: Event after which the worker copies no further block.
        """
        self._block = bytearray(BLOCK_BYTES)
        self._view = memoryview(self._block)
        self._stop = stop

    def read(self, file: int, offset: int, length: int) -> memoryview:
        """Read a block.

        Args:
            file: Descriptor of the file.
            offset: Offset in the file.
            length: Bytes to read, at most `BLOCK_BYTES`.

        Returns:
            The bytes, which are valid until the next call.

        Raises:
            SourceChangedError: The file ends before.
            StoppedError: The copy is to stop.
        """
        if self._stop.is_set():
            raise StoppedError
        done = 0
        while done < length:
            count = os.preadv(file, [self._view[done:length]], offset + done)
            if count == 0:
                raise SourceChangedError
            done += count
        return self._view[:length]

    def is_zero(self, length: int) -> bool:
        """Decide whether the block that was read has zeros alone.

        Args:
            length: Bytes that were read.

        Returns:
            Whether it does.
        """
        if length and self._block[0]:
            return False
        return self._block == _ZEROS if length == BLOCK_BYTES else self._block[:length] == _ZEROS[:length]


def is_sparse(status: os.stat_result) -> bool:
    """Decide whether a file has holes.

    Returns:
        Whether it takes less room than its size.
    """
    return status.st_blocks * _SECTOR_BYTES < status.st_size


def copy_range(source: int, target: int, start: int, end: int, *, sparse: bool, scratch: Scratch) -> bytes:
    """Copy a range of a file.

    Args:
        source: Descriptor of the source.
        target: Descriptor of the target, which has zeros there.
        start: Begin of the range, a multiple of `BLOCK_BYTES`.
        sparse: Whether the source has holes.
        scratch: The worker's memory.

    Returns:
        The checksum of the range.

    Raises:
        SourceChangedError: The source ends before.
        StoppedError: The copy is to stop.
        OSError: The source cannot be read, or the target cannot be written.
    """
    from blake3 import blake3

    found = blake3()
    for offset, length in _blocks(source, start, end, sparse=sparse):
        view = scratch.read(source, offset, length)
        is_hole = scratch.is_zero(length)
        if not is_hole:
            found.update(offset.to_bytes(8, "little"))
            found.update(view)
        if not sparse:
            _write(target, view, offset)
        elif not is_hole:
            for begin, stop in _extents(source, offset, offset + length):
                _write(target, view[begin - offset : stop - offset], begin)
    return bytes(found.digest())


def checksum(file: int, start: int, end: int, *, sparse: bool, scratch: Scratch) -> bytes:
    """Read a range of a file and hash it.

    Args:
        file: Descriptor of the file.
        start: Begin of the range, a multiple of `BLOCK_BYTES`.
        sparse: Whether the file has holes.
        scratch: The worker's memory.

    Raises:
        SourceChangedError: The file ends before.
        StoppedError: The copy is to stop.
        OSError: The file cannot be read.
    """
    from blake3 import blake3

    found = blake3()
    for offset, length in _blocks(file, start, end, sparse=sparse):
        view = scratch.read(file, offset, length)
        if not scratch.is_zero(length):
            found.update(offset.to_bytes(8, "little"))
            found.update(view)
    return bytes(found.digest())


def forget_cache(file: int) -> None:
    """Have the next read of a file come from its device, as far as the kernel can.

    Args:
        file: Descriptor of a file whose bytes are on stable storage.
    """
    os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)


def _write(target: int, view: memoryview, offset: int) -> None:
    done = 0
    while done < len(view):
        count = os.pwrite(target, view[done:], offset + done)
        if count == 0:
            raise OSError(errno.EIO, "a write of no bytes")
        done += count


def _blocks(file: int, start: int, end: int, *, sparse: bool) -> Iterator[tuple[int, int]]:
    """Blocks of a range, without those that lie in holes."""
    offset = start
    while offset < end:
        if sparse:
            data = _next_data(file, offset)
            if data >= end:
                return
            offset += (data - offset) // BLOCK_BYTES * BLOCK_BYTES
        yield offset, min(BLOCK_BYTES, end - offset)
        offset += BLOCK_BYTES


def _extents(file: int, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Ranges with data, between holes."""
    offset = start
    while offset < end:
        data = _next_data(file, offset)
        if data >= end:
            return
        try:
            hole = min(os.lseek(file, data, os.SEEK_HOLE), end)
        except OSError:
            hole = end
        yield data, hole
        offset = hole


def _next_data(file: int, offset: int) -> int:
    try:
        return os.lseek(file, offset, os.SEEK_DATA)
    except OSError as error:
        if error.errno == errno.ENXIO:
            return 1 << 63
        # A file system that does not know its holes has data everywhere.
        return offset
