"""Programs with one planted fault each, and one without: `ROLE FOLDER`, where FOLDER lies on a store.

The programs were written before the rules of `weir.report`, and know none of them.
"""

import os
import random
import sys
from collections.abc import Callable

KIB, MIB = 1 << 10, 1 << 20


def opened(path: str) -> int:
    """A file that is made where it is missing."""
    return os.open(path, os.O_RDWR | os.O_CREAT, 0o644)


def filled(path: str, size: int) -> int:
    """A file of a size, written in large pieces."""
    file = opened(path)
    for offset in range(0, size, 4 * MIB):
        os.pwrite(file, b"x" * min(4 * MIB, size - offset), offset)
    return file


def clean(folder: str) -> None:
    """Large writes and reads, from front to end."""
    file = filled(f"{folder}/clean", 128 * MIB)
    for offset in range(0, 128 * MIB, 4 * MIB):
        os.pread(file, 4 * MIB, offset)


def small_writes(folder: str) -> None:
    """Records of 512 bytes, each by a call of its own."""
    file = opened(f"{folder}/small")
    for turn in range(5_000):
        os.pwrite(file, b"x" * 512, turn * 512)


def unaligned_writes(folder: str) -> None:
    """Blocks of 256 KiB behind a header of 37 bytes."""
    file = opened(f"{folder}/unaligned")
    os.pwrite(file, b"h" * 37, 0)
    for turn in range(400):
        os.pwrite(file, b"x" * (256 * KIB), 37 + turn * 256 * KIB)


def random_reads(folder: str) -> None:
    """Pages of a file in random order."""
    dice = random.Random(1)
    file = filled(f"{folder}/random", 64 * MIB)
    for _turn in range(5_000):
        os.pread(file, 4 * KIB, dice.randrange(64 * MIB // (4 * KIB)) * 4 * KIB)


def metadata_storm(folder: str) -> None:
    """Empty files that are made, looked at and removed."""
    for turn in range(3_000):
        path = f"{folder}/empty-{turn}"
        os.close(opened(path))
        os.stat(path)
        os.unlink(path)


def many_files(folder: str) -> None:
    """Large files, on all targets together."""
    for turn in range(16):
        os.close(filled(f"{folder}/large-{turn}", 8 * MIB))


def victim(folder: str) -> None:
    """Writes of 1 MiB, beside others."""
    file = opened(f"{folder}/victim")
    for turn in range(160):
        os.pwrite(file, b"x" * MIB, turn % 32 * MIB)


def flood(folder: str) -> None:
    """Writes without an end."""
    file, turn = opened(f"{folder}/flood-{os.getpid()}"), 0
    while True:
        os.pwrite(file, b"x" * MIB, turn % 8 * MIB)
        turn += 1


ROLES: dict[str, Callable[[str], None]] = {
    each.__name__: each
    for each in (clean, small_writes, unaligned_writes, random_reads, metadata_storm, many_files, victim, flood)
}


if __name__ == "__main__":
    ROLES[sys.argv[1]](sys.argv[2])
