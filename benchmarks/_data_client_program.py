"""The loads of `_data_client.py`: one program, with the files of Python's `open` or those of `weir://`.

Each prints `ready`, waits for the end of its standard input, and prints operations and seconds.

_data_client_program.py DOOR write|read PATH BLOCKS          blocks of 1 MiB, one after the other
_data_client_program.py DOOR random PATH BYTES SECONDS       4 KiB at random places
_data_client_program.py DOOR files FOLDER FILES WORKER WORKERS EPOCHS
                                                              whole small files in an order that each epoch draws anew
"""

import os
import random
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

BLOCK = 1 << 20
SMALL = 4096
BATCH = 32
"""Files that a worker takes at once, as the loader of a training does."""


def begin() -> float:
    print("ready", flush=True)
    sys.stdin.read()
    return time.monotonic()


def opener(door: str) -> Callable[[str, str], Any]:
    """The `open` of a door; both have a buffer, which blocks go past."""
    if door == "paths":
        return lambda path, mode: Path(path).open(mode)
    import fsspec

    return fsspec.filesystem("weir").open  # type: ignore[no-any-return]


def write(door: str, path: str, blocks: str) -> tuple[int, float]:
    data = memoryview(os.urandom(BLOCK))
    open_file = opener(door)
    since = begin()
    with open_file(path, "wb") as file:
        for _ in range(int(blocks)):
            file.write(data)
    return int(blocks), since


def read(door: str, path: str, blocks: str) -> tuple[int, float]:
    memory = bytearray(BLOCK)
    with opener(door)(path, "rb") as file:
        since = begin()
        for _ in range(int(blocks)):
            assert file.readinto(memory) == BLOCK
    return int(blocks), since


def random_reads(door: str, path: str, size: str, seconds: str) -> tuple[int, float]:
    places = range(0, int(size), SMALL)
    draw = random.Random(os.getpid())
    # The buffer of `open` would read a block of the file for each of these: programs that know go without.
    with Path(path).open("rb", buffering=0) if door == "paths" else opener(door)(path, "rb") as file:
        since = begin()
        count = 0
        while time.monotonic() - since < float(seconds):
            for _ in range(BATCH):
                file.seek(draw.choice(places))
                assert len(file.read(SMALL)) == SMALL
            count += BATCH
    return count, since


def order(files: int, worker: int, workers: int, epochs: int) -> Iterator[int]:
    """The files of one worker: each epoch shuffles all of them, and gives batches to workers in turn."""
    for epoch in range(epochs):
        drawn = random.Random(epoch).sample(range(files), files)
        batches = [drawn[start : start + BATCH] for start in range(0, files, BATCH)]
        for batch in batches[worker::workers]:
            yield from batch


def small_files(door: str, folder: str, files: str, worker: str, workers: str, epochs: str) -> tuple[int, float]:
    names = [f"{folder}/{number}" for number in order(int(files), int(worker), int(workers), int(epochs))]
    if door == "paths":

        def whole(path: str) -> bytes:
            return Path(path).read_bytes()

    else:
        import fsspec

        whole = fsspec.filesystem("weir").cat_file
    whole(names[0])
    since = begin()
    total = sum(len(whole(name)) for name in names)
    assert total > 0
    return len(names), since


LOADS: dict[str, Callable[..., tuple[int, float]]] = {
    "write": write,
    "read": read,
    "random": random_reads,
    "files": small_files,
}

if __name__ == "__main__":
    operations, started = LOADS[sys.argv[2]](sys.argv[1], *sys.argv[3:])
    print(operations, time.monotonic() - started)
