"""The logs of a store's servers and mounts on this host: their last lines, and the lines that come."""

import contextlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from weir.store import mounts
from weir.store.home import Home
from weir.store.processes import older_log

_BLOCK_BYTES = 1 << 16
"""Bytes of a log that are read at once."""
_END_BYTES = 16 << 20
"""Bytes of a log in which its last lines are looked for."""
_LINE_BYTES = 4096
"""Bytes of a line that are shown."""


def logs_of(home: Home, servers: Sequence[int], *, with_mounts: bool) -> "list[Log]":
    """Find logs of this host.

    Args:
        servers: Numbers of the servers.
        with_mounts: Whether the logs of the mounts are wanted, too.

    Returns:
        The logs, which need not be there.
    """
    found = [Log(f"server {number}", home.log(number)) for number in servers]
    if with_mounts:
        found += [Log(f"mount {mount.point}", mount.log) for mount in mounts.mounts_of(home)]
    return found


def text_of(line: bytes) -> str:
    """Read a line of a log.

    Returns:
        The begin of the line, with marks in place of what is no UTF-8.
    """
    return line[:_LINE_BYTES].decode(errors="replace")


@dataclass
class Log:
    """A log, and the place up to which it was shown."""

    name: str
    path: Path
    file: BinaryIO | None = None
    """The log that is read. Under another name, once a new log began, it is read to its end."""
    begun: bytes = b""
    """A line that is not at its end yet."""

    def last(self, count: int) -> list[bytes]:
        """Read the last lines.

        Args:
            count: Number of lines.

        Returns:
            The lines, without those before them; none where there is no log.
        """
        self.close()
        self.file = self._opened()
        if self.file is None:
            return []
        *whole, self.begun = _end(self.file, count).split(b"\n")
        if len(whole) < count and (older := _opened(older_log(self.path))) is not None:
            with older:
                whole = [*_end(older, count - len(whole)).split(b"\n")[:-1], *whole]
        return whole[len(whole) - min(count, len(whole)) :]

    def fresh(self) -> Iterator[bytes]:
        """Read the lines that came since the last look, also where a new log began since.

        Yields:
            The lines, without their ends.
        """
        while True:
            if self.file is None:
                self.file = self._opened()
            if self.file is None:
                return
            is_present = self._is_present()
            yield from self._rest(self.file)
            if is_present:
                return
            self.close()

    def close(self) -> None:
        """Close the file that is read."""
        if self.file is not None:
            self.file.close()
        self.file, self.begun = None, b""

    def _opened(self) -> BinaryIO | None:
        return _opened(self.path)

    def _is_present(self) -> bool:
        """Whether the file that is read is the log still, and was not cut."""
        assert self.file is not None
        own = os.fstat(self.file.fileno())
        try:
            named = self.path.stat()
        except FileNotFoundError:
            return True
        return os.path.samestat(own, named) and self.file.tell() <= own.st_size

    def _rest(self, file: BinaryIO) -> Iterator[bytes]:
        while block := file.read(_BLOCK_BYTES):
            *whole, begun = (self.begun + block).split(b"\n")
            self.begun = begun[:_LINE_BYTES]
            yield from whole


def _opened(path: Path) -> BinaryIO | None:
    with contextlib.suppress(FileNotFoundError):
        return path.open("rb")
    return None


def _end(file: BinaryIO, count: int) -> bytes:
    """The end of a file, with `count` whole lines at least where it has as many; the file is read to its end."""
    end = at = file.seek(0, 2)
    read = b""
    while at > 0 and len(read) < _END_BYTES and read.count(b"\n") <= count:
        size = min(_BLOCK_BYTES, at)
        at = file.seek(at - size)
        read = file.read(size) + read
    file.seek(end)
    return read
