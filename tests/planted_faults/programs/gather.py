"""Every rank computes an equal part, and the first one gathers all parts and writes them, step by step."""

import sys
from pathlib import Path

from mpi4py import MPI

PART_BYTES = 16 << 20
WRITE_BYTES = 4 << 20
STEPS = 2

ranks = MPI.COMM_WORLD
part = bytearray(PART_BYTES)
for step in range(STEPS):
    whole = bytearray(PART_BYTES * ranks.size) if ranks.rank == 0 else None
    ranks.Gather(part, whole, root=0)
    if whole is not None:
        with (Path(sys.argv[1]) / f"whole{step}.raw").open("wb", buffering=0) as file:
            for begin in range(0, len(whole), WRITE_BYTES):
                file.write(memoryview(whole)[begin : begin + WRITE_BYTES])
