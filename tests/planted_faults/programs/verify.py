"""Writes a checkpoint, and reads all of it back at once to compare it, as a cautious user does."""

import os
import sys
from pathlib import Path

BLOCK = os.urandom(1 << 20)
BLOCKS = 64

checkpoint = Path(sys.argv[1]) / "checkpoint.bin"
with checkpoint.open("wb", buffering=0) as file:
    for _ in range(BLOCKS):
        file.write(BLOCK)
with checkpoint.open("rb", buffering=0) as file:
    for _ in range(BLOCKS):
        assert file.read(len(BLOCK)) == BLOCK
