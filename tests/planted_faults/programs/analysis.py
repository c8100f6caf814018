"""Reads a file once from its begin to its end in large blocks, and writes a result: an analysis as it should be."""

import sys
from pathlib import Path

BLOCK_BYTES = 4 << 20

total = 0
with (Path(sys.argv[1]) / "input.bin").open("rb", buffering=0) as file:
    while block := file.read(BLOCK_BYTES):
        total += sum(block[::4096])
with (Path(sys.argv[1]) / "result.bin").open("wb", buffering=0) as file:
    file.write(total.to_bytes(8, "little") * (BLOCK_BYTES // 8))
