"""A process of a job of `_history_replay`: `ROLE NUMBER BEGIN`, of which BEGIN is a moment in Unix time.

It waits for that moment, at which all jobs begin, does its work on the store below /weir, and ends with it, unless the
role has no end.
"""

import os
import sys
import time
from collections.abc import Callable

KIB, MIB = 1 << 10, 1 << 20


def opened(name: str, size: int) -> int:
    """A file of the process on the store, as long as it will be."""
    file = os.open(f"/weir/{name}", os.O_RDWR | os.O_CREAT)
    os.ftruncate(file, size)
    return file


def flood(name: str) -> None:
    """Writes of 1 MiB without a pause, without an end."""
    file, turn = opened(name, 8 * MIB), 0
    while True:
        os.pwrite(file, b"x" * MIB, turn % 8 * MIB)
        turn += 1


def steps(name: str) -> None:
    """A simulation: 18 times some computing, then 2 MiB in writes of 256 KiB."""
    file = opened(name, 2 * MIB)
    for _step in range(18):
        time.sleep(0.1)
        for part in range(8):
            os.pwrite(file, b"x" * (256 * KIB), part * 256 * KIB)


def reader(name: str) -> None:
    """An analysis: 500 reads of 64 KiB."""
    file = opened(name, 4 * MIB)
    for turn in range(500):
        os.pread(file, 64 * KIB, turn % 64 * 64 * KIB)


def checkpoint(name: str) -> None:
    """Each two seconds a checkpoint of 12 MiB, without an end."""
    file, due = opened(name, 12 * MIB), time.time()
    while True:
        for part in range(12):
            os.pwrite(file, b"x" * MIB, part * MIB)
        due += 2
        time.sleep(max(0.0, due - time.time()))


ROLES: dict[str, Callable[[str], None]] = {
    "flood": flood,
    "steps": steps,
    "reader": reader,
    "checkpoint": checkpoint,
}


def main() -> None:
    """Do the work of one process."""
    role, number, begin = sys.argv[1], sys.argv[2], float(sys.argv[3])
    time.sleep(max(0.0, begin - time.time()))
    ROLES[role](f"{role}-{number}")


if __name__ == "__main__":
    main()
