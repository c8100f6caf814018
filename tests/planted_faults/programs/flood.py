"""Four writers that fill and refill a file each, until the program is ended."""

import os
import sys
from pathlib import Path
from threading import Thread


def write_without_end(path: Path) -> None:
    """Write 64 MiB over and over."""
    block = bytes(1 << 20)
    file = os.open(path, os.O_WRONLY | os.O_CREAT)
    while True:
        for number in range(64):
            os.pwrite(file, block, number << 20)


for writer in range(4):
    Thread(target=write_without_end, args=(Path(sys.argv[1]) / f"flood{writer}",)).start()
