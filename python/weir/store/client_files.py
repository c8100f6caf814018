"""Open files of a client in this process, as `io` has them: raw, and with a buffer that large reads and writes pass by.

The offset is a thing of this process. `pread` and `pwrite` do without it, so threads may call them at once.
"""

import io
import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from _typeshed import ReadableBuffer, WriteableBuffer

    from weir import _core
    from weir.store.client import FileSystem

BUFFER_BYTES = 256 << 10
"""Buffer of a file unless another one is asked for. Larger reads and writes go past it, straight from and to the
caller's memory."""


class File(io.RawIOBase):
    """An open file without a buffer; `FileSystem.open` makes it.

    Attributes:
        path: Path in the store.
        mode: Mode of the open, such as `rb`.
    """

    def __init__(self, files: "FileSystem", opened: "_core.StoreFile", path: str, mode: str) -> None:
        """Take an open file of the client into hand.

        Args:
            files: The files of the store, by which the pickle of this file finds it again.
            opened: The open description.
            path: Path in the store.
        """
        super().__init__()
        self.path = path
        self.mode = mode
        self._files = files
        self._opened = opened
        self._reads = "r" in mode or "+" in mode
        self._writes = "r" not in mode or "+" in mode
        self._appends = "a" in mode
        self._offset = opened.size() if self._appends else 0

    @property
    def name(self) -> str:
        """Path in the store, as the files of `open` have it."""
        return self.path

    @property
    def size(self) -> int:
        """The size in bytes now."""
        return self._opened.size()

    def readable(self) -> bool:
        """Decide whether the mode lets the file be read."""
        return self._reads

    def writable(self) -> bool:
        """Decide whether the mode lets the file be written."""
        return self._writes

    def seekable(self) -> bool:
        """Decide whether the file has an offset that can be set, which every file of a store has."""
        return True

    def readinto(self, buffer: "WriteableBuffer", /) -> int:
        """Read at the offset into memory of the caller, without a copy.

        Returns:
            Number of bytes, fewer than the buffer's only at the end of the file.

        Raises:
            io.UnsupportedOperation: The file is not open for reading.
            OSError: The read failed.
        """
        count = self.preadinto(buffer, self._offset)
        self._offset += count
        return count

    def readall(self) -> bytes:
        """Read from the offset to the end that the file has now.

        Raises:
            io.UnsupportedOperation: The file is not open for reading.
            OSError: The read failed.
        """
        self._check(self._reads)
        data = self._opened.read_at(max(self._opened.size() - self._offset, 0), self._offset)
        self._offset += len(data)
        return data

    def pread(self, size: int, offset: int) -> bytes:
        """Read at an offset, and leave that of the file where it is.

        Args:
            size: Most bytes to read.
            offset: Offset of the first byte.

        Returns:
            The bytes, fewer than `size` only at the end of the file.

        Raises:
            io.UnsupportedOperation: The file is not open for reading.
            OSError: The read failed.
        """
        self._check(self._reads)
        return self._opened.read_at(size, offset)

    def preadinto(self, buffer: "WriteableBuffer", offset: int) -> int:
        """Read at an offset into memory of the caller, and leave the offset of the file where it is.

        Args:
            offset: Offset of the first byte.

        Returns:
            Number of bytes.

        Raises:
            io.UnsupportedOperation: The file is not open for reading.
            OSError: The read failed.
        """
        self._check(self._reads)
        return self._opened.read_into(buffer, offset)

    def write(self, data: "ReadableBuffer", /) -> int:
        """Write at the offset, or at the end of a file that is open for appending, straight from the caller's memory.

        Returns:
            Number of bytes that are written and seen by all: all of them, or those before a failure.

        Raises:
            io.UnsupportedOperation: The file is not open for writing.
            OSError: Nothing could be written.
        """
        self._check(self._writes)
        if self._appends:
            start, count = self._opened.append(data)
            self._offset = start + count
            return count
        count = self._opened.write_at(data, self._offset)
        self._offset += count
        return count

    def pwrite(self, data: "ReadableBuffer", offset: int) -> int:
        """Write at an offset, also where the file is open for appending, and leave that of the file where it is.

        Args:
            offset: Offset of the first byte.

        Returns:
            Number of bytes, as for `write`.

        Raises:
            io.UnsupportedOperation: The file is not open for writing.
            OSError: Nothing could be written.
        """
        self._check(self._writes)
        return self._opened.write_at(data, offset)

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        """Set the offset, which may lie beyond the end.

        Returns:
            The new offset.

        Raises:
            ValueError: The offset would be negative, or the file is closed.
            OSError: The size of the file is not known.
        """
        self._check(True)
        if whence == os.SEEK_SET:
            place = offset
        elif whence == os.SEEK_CUR:
            place = self._offset + offset
        elif whence == os.SEEK_END:
            place = self._opened.size() + offset
        else:
            raise ValueError(f"whence is {whence}: expected os.SEEK_SET, os.SEEK_CUR or os.SEEK_END")
        if place < 0:
            raise ValueError(f"negative offset {place} in {self.path}")
        self._offset = place
        return place

    def tell(self) -> int:
        """Read the offset.

        Raises:
            ValueError: The file is closed.
        """
        self._check(True)
        return self._offset

    def truncate(self, size: int | None = None, /) -> int:
        """Cut or extend the file; the offset stays.

        Args:
            size: The new size; None is the offset.

        Returns:
            The new size.

        Raises:
            io.UnsupportedOperation: The file is not open for writing.
            OSError: The size could not be set.
        """
        self._check(self._writes)
        wanted = self._offset if size is None else size
        self._opened.truncate(wanted)
        return wanted

    def sync(self, *, data_only: bool = False) -> None:
        """Make bytes and size durable, as `os.fsync` does.

        Args:
            data_only: Whether the modification time may be lost, as with `os.fdatasync`.

        Raises:
            OSError: A device or a server failed.
        """
        self._check(True)
        self._opened.sync(data_only)

    def stat(self) -> os.stat_result:
        """Read the attributes of the open file.

        Raises:
            OSError: The home server does not answer.
        """
        from weir.store.client import status_of

        return status_of(self._opened.attributes())

    def close(self) -> None:
        """End the open description; a second call changes nothing.

        Raises:
            OSError: The home server does not answer. The file is closed nevertheless.
        """
        if not self.closed:
            try:
                self._opened.close()
            finally:
                super().close()

    def __reduce__(self) -> tuple[Any, ...]:
        """Describe a file that is read for `pickle`: it is opened again, at the same offset.

        Raises:
            TypeError: The file is written.
        """
        return self.reduced(0, self._offset)

    def reduced(self, buffering: int, offset: int) -> tuple[Any, ...]:
        """Describe the file for `pickle`.

        Args:
            buffering: Bytes of its buffer; 0 is none.
            offset: Offset at which the other process goes on.

        Raises:
            TypeError: The file is written: two processes would write over each other.
        """
        if self.mode != "rb":
            raise TypeError(f"{self.path} is open with mode {self.mode!r}; only files that are read can be pickled")
        return _reopened, (self._files, self.path, buffering, offset)

    def __repr__(self) -> str:
        """Name the file."""
        return f"<{type(self).__name__} {self.path!r} mode={self.mode!r}>"

    def _check(self, is_able: bool) -> None:
        if self.closed:
            raise ValueError(f"I/O operation on the closed file {self.path}")
        if not is_able:
            raise io.UnsupportedOperation(f"{self.path} is open with mode {self.mode!r}, which lets it do no such call")


class _Buffered:
    """What the files with a buffer have beside those of `io`."""

    raw: File
    buffer_bytes: int
    flush: "Callable[[], None]"
    tell: "Callable[[], int]"

    @property
    def path(self) -> str:
        """Path in the store."""
        return self.raw.path

    @property
    def size(self) -> int:
        """The size in bytes now, with those that still lie in the buffer."""
        self.flush()
        return self.raw.size

    def sync(self, *, data_only: bool = False) -> None:
        """Write the buffer, and make bytes and size durable. See `File.sync`."""
        self.flush()
        self.raw.sync(data_only=data_only)

    def pread(self, size: int, offset: int) -> bytes:
        """Read at an offset, past the buffer, once it is written. See `File.pread`."""
        self.flush()
        return self.raw.pread(size, offset)

    def pwrite(self, data: "ReadableBuffer", offset: int) -> int:
        """Write at an offset, past the buffer, once it is written. See `File.pwrite`."""
        self.flush()
        return self.raw.pwrite(data, offset)

    def stat(self) -> os.stat_result:
        """Read the attributes of the open file, once its buffer is written. See `File.stat`."""
        self.flush()
        return self.raw.stat()

    def __reduce__(self) -> tuple[Any, ...]:
        """Describe a file that is read for `pickle`. See `File.__reduce__`."""
        return self.raw.reduced(self.buffer_bytes, self.tell())


class Reader(_Buffered, io.BufferedReader):  # type: ignore[misc]
    """A file that is read through a buffer.

    The first read after a jump asks for what it returns and no more, so reads here and there cost no more than their
    bytes; a read that goes on from the one before fills the buffer.
    """

    def __init__(self, raw: File, buffer_bytes: int) -> None:
        """Put a buffer before a file."""
        super().__init__(raw, buffer_bytes)
        self.buffer_bytes = buffer_bytes
        self._has_jumped = False

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        """Set the offset. See `File.seek`."""
        before = self.tell()
        place = super().seek(offset, whence)
        self._has_jumped = place != before
        return place

    def read(self, size: int | None = -1, /) -> bytes:
        """Read at the offset. See `io.BufferedReader.read`."""
        if not self._has_jumped:
            return super().read(size)
        self._has_jumped = False
        if size is None or not 0 < size < self.buffer_bytes:
            return super().read(size)
        place = self.tell()
        data = self.raw.pread(size, place)
        super().seek(place + len(data))
        return data

    def readinto(self, buffer: "WriteableBuffer", /) -> int:
        """Read at the offset into memory of the caller. See `io.BufferedReader.readinto`."""
        if not self._has_jumped:
            return super().readinto(buffer)
        self._has_jumped = False
        place = self.tell()
        count = self.raw.preadinto(buffer, place)
        super().seek(place + count)
        return count


class Writer(_Buffered, io.BufferedWriter):  # type: ignore[misc]
    """A file that is written through a buffer."""

    def __init__(self, raw: File, buffer_bytes: int) -> None:
        """Put a buffer before a file."""
        super().__init__(raw, buffer_bytes)
        self.buffer_bytes = buffer_bytes


class ReaderWriter(_Buffered, io.BufferedRandom):  # type: ignore[misc]
    """A file that is read and written through a buffer."""

    def __init__(self, raw: File, buffer_bytes: int) -> None:
        """Put a buffer before a file."""
        super().__init__(raw, buffer_bytes)
        self.buffer_bytes = buffer_bytes


def buffered(raw: File, buffer_bytes: int) -> Reader | Writer | ReaderWriter:
    """Put a buffer before a file, by its mode."""
    if "+" in raw.mode:
        return ReaderWriter(raw, buffer_bytes)
    return Reader(raw, buffer_bytes) if "r" in raw.mode else Writer(raw, buffer_bytes)


def _reopened(files: "FileSystem", path: str, buffering: int, offset: int) -> Any:
    """A file that another process read, at the same offset."""
    opened = files.open(path, buffering=buffering)
    opened.seek(offset)
    return opened
