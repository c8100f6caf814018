"""A block device that records every write and barrier: a loop device over one file of a FUSE file system of our own.

The file system has no directory, its root is the file. It keeps the bytes in memory and appends each write and each
flush that the kernel sends it to a log, in order, so that what a power loss after any of them would leave can be built
again.
"""

import contextlib
import ctypes
import errno
import os
import stat
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

WRITE, BARRIER = 1, 2
_RECORD = struct.Struct("<BQI")
"""Kind, offset and length; the bytes of a write follow."""
RECORD_HEAD_BYTES = _RECORD.size

# The FUSE protocol, include/uapi/linux/fuse.h.
_GETATTR, _SETATTR, _OPEN, _READ, _WRITE, _STATFS, _RELEASE, _FSYNC = 3, 4, 14, 15, 16, 17, 18, 20
_FLUSH, _INIT, _INTERRUPT, _FORGET, _DESTROY, _BATCH_FORGET = 25, 26, 36, 2, 38, 42
_HEAD = struct.Struct("<IIQQIIIHH")
_ANSWER = struct.Struct("<IiQ")
_ROOT = 1
_BIG_WRITES, _MAX_PAGES, _KEEP_CACHE = 1 << 5, 1 << 22, 2
_PAGES = 256
"""Most pages of one write that the kernel allows."""
_BUFFER_BYTES = (_PAGES + 1) * 4096 + 4096
_MS_NOSUID, _MS_NODEV, _MNT_DETACH = 2, 4, 2
_READY_SECONDS = 30.0
_COMMAND_SECONDS = 120.0


@dataclass(frozen=True)
class Operation:
    """A write, or a barrier where it has no bytes."""

    offset: int
    data: bytes | None

    @property
    def is_barrier(self) -> bool:
        """Whether every write before this operation is on the device once the operation is done."""
        return self.data is None


def operations(log: Path) -> list[Operation]:
    """Everything that was recorded, in order."""
    found = []
    with log.open("rb") as file:
        while head := file.read(_RECORD.size):
            kind, offset, length = _RECORD.unpack(head)
            found.append(Operation(offset, file.read(length) if kind == WRITE else None))
    return found


@contextlib.contextmanager
def recorded(image: Path, log: Path, point: Path) -> Iterator[Path]:
    """A loop device whose first bytes are those of `image`, while the block lasts; yields the device."""
    point.touch()
    command = [sys.executable, __file__, str(image), str(log), str(point)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            if server.stdout.readline() != "ready\n":
                raise RuntimeError("the recording file system did not start")
            with loop_device(point) as device:
                yield device
        finally:
            _libc().umount2(os.fsencode(point), _MNT_DETACH)
            server.terminate()


@contextlib.contextmanager
def loop_device(image: Path) -> Iterator[Path]:
    """A loop device over a file, while the block lasts."""
    device = Path(_run("losetup", "--find", "--show", str(image)).strip())
    try:
        yield device
    finally:
        _run("losetup", "--detach", str(device))


@contextlib.contextmanager
def mounted(device: Path, point: Path, *options: str) -> Iterator[Path]:
    """A file system, mounted while the block lasts."""
    point.mkdir(exist_ok=True)
    _run("mount", *options, str(device), str(point))
    try:
        yield point
    finally:
        _unmount(point)


def _unmount(point: Path) -> None:
    """Unmount, once no program uses the file system any more: a killed program may be about to let go of it."""
    deadline = time.monotonic() + _READY_SECONDS
    while True:
        done = subprocess.run(["umount", str(point)], check=False, capture_output=True, timeout=_COMMAND_SECONDS)
        if done.returncode == 0 or time.monotonic() > deadline:
            break
        time.sleep(0.05)
    if done.returncode != 0:
        raise RuntimeError(done.stderr.decode())


def _run(*command: str) -> str:
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=_COMMAND_SECONDS)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()}")
    return done.stdout


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


class _FileSystem:
    """One file in memory, served to the kernel."""

    def __init__(self, image: Path, log: Path) -> None:
        self.content = bytearray(image.read_bytes())
        self.log = log.open("wb", buffering=0)
        self.device = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)

    def mount(self, point: Path) -> None:
        mode = stat.S_IFREG | 0o600
        options = f"fd={self.device},rootmode={mode:o},user_id={os.getuid()},group_id={os.getgid()}"
        names = (b"weir-record", os.fsencode(point), b"fuse.weir-record")
        if _libc().mount(*names, _MS_NOSUID | _MS_NODEV, options.encode()) != 0:
            raise OSError(ctypes.get_errno(), "mount", str(point))

    def serve(self) -> None:
        """Answer until the file system is unmounted."""
        while True:
            try:
                message = os.read(self.device, _BUFFER_BYTES)
            except OSError as error:
                if error.errno == errno.ENODEV:
                    return
                if error.errno in (errno.EINTR, errno.ENOENT, errno.EAGAIN):
                    continue
                raise
            head = _HEAD.unpack_from(message)
            opcode, unique = head[1], head[2]
            if opcode in (_FORGET, _BATCH_FORGET, _INTERRUPT):
                continue
            failed, body = self._answer(opcode, memoryview(message)[_HEAD.size :])
            answer = _ANSWER.pack(_ANSWER.size + len(body), -failed, unique)
            with contextlib.suppress(FileNotFoundError):
                os.writev(self.device, [answer, body])

    def _answer(self, opcode: int, body: memoryview) -> tuple[int, bytes]:
        if opcode == _INIT:
            major, minor, ahead, _ = struct.unpack_from("<IIII", body)
            flags = _BIG_WRITES | _MAX_PAGES
            limits = (16, 12, _PAGES * 4096, 1, _PAGES, 0, 0)
            return 0, struct.pack("<IIIIHHIIHHI28x", major, min(minor, 31), ahead, flags, *limits)
        if opcode in (_GETATTR, _SETATTR):
            return 0, struct.pack("<QII", 3600, 0, 0) + self._attributes()
        if opcode == _OPEN:
            return 0, struct.pack("<QII", 0, _KEEP_CACHE, 0)
        if opcode == _READ:
            _, offset, size = struct.unpack_from("<QQI", body)
            return 0, bytes(self.content[offset : offset + size])
        if opcode == _WRITE:
            _, offset, size = struct.unpack_from("<QQI", body)
            data = bytes(body[40 : 40 + size])
            self.content[offset : offset + size] = data
            self.log.write(_RECORD.pack(WRITE, offset, size) + data)
            return 0, struct.pack("<II", size, 0)
        if opcode == _FSYNC:
            self.log.write(_RECORD.pack(BARRIER, 0, 0))
            return 0, b""
        if opcode in (_FLUSH, _RELEASE, _DESTROY):
            return 0, b""
        if opcode == _STATFS:
            blocks = len(self.content) // 4096
            return 0, struct.pack("<QQQQQIIII24x", blocks, blocks, blocks, 1, 1, 4096, 255, 4096, 0)
        return errno.ENOSYS, b""

    def _attributes(self) -> bytes:
        size = len(self.content)
        times = (0, 0, 0, 0, 0, 0)
        rest = (stat.S_IFREG | 0o600, 1, os.getuid(), os.getgid(), 0, 4096, 0)
        return struct.pack("<QQQQQQIIIIIIIIII", _ROOT, size, size // 512, *times, *rest)


def _main() -> None:
    image, log, point = map(Path, sys.argv[1:])
    served = _FileSystem(image, log)
    served.mount(point)
    print("ready", flush=True)
    served.serve()


if __name__ == "__main__":
    _main()
