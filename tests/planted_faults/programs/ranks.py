"""Ranks write a large file each in every step, in large blocks, and meet at a barrier: a checkpoint as it should be."""

import sys
from pathlib import Path

from mpi4py import MPI

BLOCK = bytes(4 << 20)
BLOCKS = 4
STEPS = 2

ranks = MPI.COMM_WORLD
for step in range(STEPS):
    with (Path(sys.argv[1]) / f"checkpoint{step}.{ranks.rank}").open("wb", buffering=0) as file:
        for _ in range(BLOCKS):
            file.write(BLOCK)
    ranks.Barrier()
