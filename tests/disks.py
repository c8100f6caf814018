"""File systems of a test: one that can be filled to its last byte, and one with a device that fails and works again.

Both need root, and a kernel that lets this process mount.
"""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

_SECONDS = 60.0
"""No helper may take longer."""
_IMAGE_BYTES = 96 << 20
"""More than the file system below a failing device holds, so that writes to it fail."""


_BLOCK_BYTES = 1024
"""No file system here has smaller blocks."""


class Disk:
    """A file system at `path`. It uses the room of `place`, and is full when that is full."""

    def __init__(self, path: Path, place: Path) -> None:
        self.path = path
        self._filler = place / "filler"

    def fill(self, left: int = 0) -> None:
        """Take all room, to the last byte but for `left`."""
        step = 1 << 20
        descriptor = os.open(self._filler, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            while step:
                try:
                    if os.write(descriptor, b"\1" * step) < step:
                        step //= 2
                    os.fsync(descriptor)
                except OSError:
                    step //= 2
            if left:
                os.ftruncate(descriptor, os.fstat(descriptor).st_size - left)
        finally:
            os.close(descriptor)

    def keep(self) -> None:
        """Take the blocks that this file system gave back, too: those of a failing device can still be written."""
        step = 1 << 20
        with (self.path / "kept").open("ab") as kept:
            while step >= _BLOCK_BYTES:
                try:
                    os.posix_fallocate(kept.fileno(), os.fstat(kept.fileno()).st_size, step)
                except OSError:
                    step //= 2

    def free(self) -> None:
        """Give back the room that `fill` and `keep` took."""
        self._filler.unlink()
        (self.path / "kept").unlink(missing_ok=True)


@contextmanager
def small(folder: Path, kind: str) -> Iterator[Disk]:
    """A small file system, `tmpfs` or `ext4`, in a fresh directory below `folder`."""
    path = folder / "disk"
    path.mkdir()
    if kind == "tmpfs":
        _mount("-t", "tmpfs", "-o", "size=24m", "tmpfs", path)
    else:
        image = folder / "image"
        _make_image(image, 32 << 20, "-m", "0")
        _mount("-o", "loop", image, path)
    try:
        yield Disk(path, path)
    finally:
        _run("umount", "--lazy", path)


@contextmanager
def over(path: Path) -> Iterator[None]:
    """An empty file system, mounted over a folder."""
    _mount("-t", "tmpfs", "-o", "size=24m", "tmpfs", path)
    try:
        yield
    finally:
        unmount(path)


def bind(path: Path, place: Path) -> None:
    """Show a folder in another place, too."""
    _mount("--bind", path, place)


def unmount(path: Path, *options: str) -> None:
    """Unmount a file system."""
    answer = _run("umount", *options, path)
    assert answer.returncode == 0, answer.stderr


@contextmanager
def failing(folder: Path) -> Iterator[Disk]:
    """A file system in a sparse file: when the one below it is filled, no block can be written that was not before."""
    below, above = folder / "below", folder / "above"
    below.mkdir()
    above.mkdir()
    _mount("-t", "tmpfs", "-o", "size=24m", "tmpfs", below)
    try:
        # Without a journal of its own the file system takes writes again as soon as its device does.
        _make_image(below / "image", _IMAGE_BYTES, "-O", "^has_journal", "-E", "lazy_itable_init=1")
        _mount("-o", "loop,errors=continue", below / "image", above)
        try:
            yield Disk(above, below)
        finally:
            _run("umount", "--lazy", above)
    finally:
        _run("umount", "--lazy", below)


def _make_image(image: Path, size: int, *options: str) -> None:
    with image.open("wb") as file:
        file.truncate(size)
    made = _run("mkfs.ext4", "-q", "-F", *options, image)
    assert made.returncode == 0, made.stderr


def _mount(*arguments: str | Path) -> None:
    """Mount, or skip the test where this machine lets nobody mount."""
    answer = _run("mount", *arguments)
    if answer.returncode != 0:
        pytest.skip(f"this machine does not mount it: {answer.stderr.strip()}")


def _run(*command: str | Path) -> subprocess.CompletedProcess[str]:
    path = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
    # env(1) looks for the program in this path, and not in that of the tests.
    return subprocess.run(
        ["env", f"PATH={path}", *command], capture_output=True, text=True, timeout=_SECONDS, check=False
    )
