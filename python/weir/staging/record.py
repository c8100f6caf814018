"""The record of a copy, beside its destination: it is there until the copy is done.

It holds the source, the moment at which the copy began, and the parts of large files that are written. A part in it may
still be lost when the machine loses its power, because a part counts only once it was read back from stable storage.
A file that is done is known by its own name, size and times: no file has its name before it was verified.
"""

import base64
import errno
import fcntl
import json
import os
import re
import secrets
import stat
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from weir.staging.errors import StagingError

_VERSION = 1
_TEMPORARY = b".weir-stage-"
_TOKEN = re.compile("[0-9a-f]{8}")
_RECORD = b".weir-stage"
_OF_A_COPY = re.compile(re.escape(_TEMPORARY) + rb"[0-9a-f]{8}-\d+-\d+|\..+" + re.escape(_RECORD), re.DOTALL)
LOCK_SECONDS = 5.0
"""Longest wait for the lock of a process that was killed: a store hears of its end through a broken connection."""
_BYTES_MAX = 1 << 30
"""A record above this is damaged: it has 100 bytes for each 16 MiB of unfinished files."""


@dataclass
class Parts:
    """The parts of a large file that are written, by their number, with their checksums."""

    status: tuple[int, ...]
    """Size, times and inode of the source."""
    temporary: bytes
    """Name of the unfinished file, beside its place."""
    done: dict[int, bytes] = field(default_factory=dict)


def is_of_a_copy(name: bytes) -> bool:
    """Decide whether a file is an unfinished one of a copy, or the record of a copy.

    Returns:
        Whether it is, by its name. Such a file is nobody's data.
    """
    return _OF_A_COPY.fullmatch(name) is not None


def identity(status: os.stat_result) -> tuple[int, ...]:
    """Tell whether a source is the one that was looked at before.

    Args:
        status: Status of a file.

    Returns:
        Size, modification and change time in nanoseconds, and inode.
    """
    return (status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino)


class Record:
    """The record of one copy, held by the one process that copies."""

    def __init__(self, parent: int, destination: bytes, origin: str) -> None:
        """Open the record, or make it.

        Args:
            parent: Descriptor of the folder that the destination lies in; it has to stay open.
            destination: Name of the destination.
            origin: The source, for the check that the same copy goes on.

        Raises:
            StagingError: Another process copies to the same destination, or the record is of another copy or damaged.
            OSError: The record cannot be written.
        """
        self._parent = parent
        self._name = b"." + destination[:200] + _RECORD
        self._lock = threading.Lock()
        self._descriptor = self._open()
        try:
            self._begin(origin)
        except BaseException:
            os.close(self._descriptor)
            raise

    @property
    def path_name(self) -> str:
        """Name of the record, for people."""
        return self._name.decode("utf-8", "backslashreplace")

    def _open(self) -> int:
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
        while True:
            descriptor = os.open(self._name, flags, 0o600, dir_fd=self._parent)
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid() or status.st_nlink > 1:
                os.close(descriptor)
                raise StagingError(
                    f"{self.path_name} beside the destination is no record of this user",
                    hint="another user may have put it there: choose another destination",
                )
            if not _locked(descriptor):
                os.close(descriptor)
                raise StagingError(
                    f"another process copies to the same place (it holds {self.path_name})", hint="wait for its end"
                )
            if os.fstat(descriptor).st_nlink:
                return descriptor
            # The process that held the lock has just finished and removed the record.
            os.close(descriptor)

    def _begin(self, origin: str) -> None:
        status = os.fstat(self._descriptor)
        if status.st_size > _BYTES_MAX:
            raise StagingError(f"the record {self.path_name} is damaged", hint="remove it; the copy then begins anew")
        lines = os.pread(self._descriptor, status.st_size, 0).split(b"\n")
        header = _decoded(lines[0])
        self._large: dict[bytes, Parts] = {}
        self.is_root_new = False
        """Whether the copy, or the part of it before a break, made the folder that is the destination itself."""
        self.is_resumed = header is not None
        token = secrets.token_hex(4) if header is None else header.get("token")
        if not isinstance(token, str) or not _TOKEN.fullmatch(token):
            raise StagingError(f"the record {self.path_name} is damaged", hint="remove it; the copy then begins anew")
        self.prefix = _TEMPORARY + token.encode() + b"-"
        if header is None:
            # By the destination's own clock, which also gives the files there their times.
            os.ftruncate(self._descriptor, 0)
            os.utime(self._descriptor)
            begun = os.fstat(self._descriptor).st_ctime_ns
            header = {"version": _VERSION, "source": origin, "token": token, "begun": begun}
            self._append(header)
            os.fsync(self._descriptor)
        elif header.get("version") != _VERSION or header.get("source") != origin:
            raise StagingError(
                f"an unfinished copy of {header.get('source')} lies at the destination",
                hint=f"finish that copy; or, to begin a new one, remove the record {self.path_name} beside the "
                f"destination, and the files {os.fsdecode(self.prefix)}* in it",
            )
        else:
            for line in lines[1:]:
                self._replay(_decoded(line))
            if lines[-1]:
                # The last line was torn; the next one is to be whole.
                os.write(self._descriptor, b"\n")
        moment = header.get("begun")
        self.begun_ns = moment if isinstance(moment, int) else 1 << 63

    def _replay(self, entry: dict[str, Any] | None) -> None:
        try:
            if entry is None:
                return
            if entry.get("root") == "new":
                self.is_root_new = True
                return
            path = base64.b64decode(entry["path"])
            if "temporary" in entry:
                name = base64.b64decode(entry["temporary"])
                # A name of any other form could be that of a file of the user's.
                if name.startswith(self.prefix) and b"/" not in name and b"\0" not in name:
                    self._large[path] = Parts(tuple(entry["status"]), name)
            elif "checksum" in entry:
                if isinstance(entry["part"], int):
                    self._large[path].done[entry["part"]] = bytes.fromhex(entry["checksum"])
            else:
                self._large.pop(path, None)
        except (KeyError, ValueError, TypeError, AttributeError):
            # The last words of a machine that lost its power: the part is copied again.
            return

    def note_new_root(self) -> None:
        """Note that the copy has made the folder that is the destination itself.

        Raises:
            OSError: The record cannot be written.
        """
        self.is_root_new = True
        self._append({"root": "new"})

    def is_empty(self) -> bool:
        """Decide whether the record knows of nothing: no large file is unfinished, and the copy made no root.

        Returns:
            Whether it does, and no earlier process copied anything.
        """
        with self._lock:
            return not (self.is_resumed or self.is_root_new or self._large)

    def parts_of(self, path: Sequence[bytes]) -> Parts | None:
        """Find the parts of a large file that are written.

        Args:
            path: Names on the way to the file.

        Returns:
            The parts; None where the file was not begun.
        """
        with self._lock:
            return self._large.get(b"/".join(path))

    def begin(self, path: Sequence[bytes], parts: Parts) -> None:
        """Note that a large file was begun.

        Args:
            path: Names on the way to the file.
            parts: The file's state.

        Raises:
            OSError: The record cannot be written.
        """
        key = b"/".join(path)
        with self._lock:
            self._large[key] = parts
        self._append({"path": _text(key), "temporary": _text(parts.temporary), "status": parts.status})

    def part(self, path: Sequence[bytes], number: int, checksum: bytes) -> None:
        """Note that a part was written.

        Args:
            path: Names on the way to the file.
            checksum: Checksum of its bytes in the source.

        Raises:
            OSError: The record cannot be written.
        """
        self._append({"path": _text(b"/".join(path)), "part": number, "checksum": checksum.hex()})

    def end(self, path: Sequence[bytes]) -> None:
        """Note that a large file is done, or begins anew.

        Args:
            path: Names on the way to the file.

        Raises:
            OSError: The record cannot be written.
        """
        key = b"/".join(path)
        with self._lock:
            self._large.pop(key, None)
        self._append({"path": _text(key)})

    def is_leftover(self, name: bytes) -> bool:
        """Decide whether a file is an unfinished one of an earlier process, and not a large file that goes on.

        Returns:
            Whether it can be removed.
        """
        if not name.startswith(self.prefix):
            return False
        with self._lock:
            return all(parts.temporary != name for parts in self._large.values())

    def close(self, *, done: bool) -> None:
        """Give the record up.

        Args:
            done: Whether the copy is done, or nothing of it is there, so that the record is removed.

        Raises:
            OSError: The record cannot be removed.
        """
        try:
            if done:
                os.unlink(self._name, dir_fd=self._parent)
        finally:
            os.close(self._descriptor)

    def _append(self, entry: dict[str, Any]) -> None:
        line = json.dumps(entry).encode() + b"\n"
        if os.write(self._descriptor, line) != len(line):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _locked(descriptor: int) -> bool:
    deadline = time.monotonic() + LOCK_SECONDS
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if time.monotonic() > deadline:
                return False
            time.sleep(0.05)


def _decoded(line: bytes) -> dict[str, Any] | None:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _text(path: bytes) -> str:
    return base64.b64encode(path).decode()
