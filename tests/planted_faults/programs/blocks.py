"""Writes one file in large, aligned blocks, one after the other."""

import sys
from pathlib import Path

block = bytes(int(sys.argv[2]) << 20)
with (Path(sys.argv[1]) / "field.dat").open("wb", buffering=0) as file:
    for _ in range(int(sys.argv[3])):
        file.write(block)
