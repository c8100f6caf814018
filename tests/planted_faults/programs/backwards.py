"""Reads a log of records from its end to its begin, as a search for the last record that fits."""

import os
import sys
from pathlib import Path

BLOCK_BYTES = 64 << 10

log = os.open(Path(sys.argv[1]) / "records.bin", os.O_RDONLY)
for place in range(os.fstat(log).st_size - BLOCK_BYTES, -1, -BLOCK_BYTES):
    os.lseek(log, place, os.SEEK_SET)
    assert len(os.read(log, BLOCK_BYTES)) == BLOCK_BYTES
os.close(log)
