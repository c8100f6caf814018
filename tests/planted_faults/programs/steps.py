"""Every rank makes a file of its own in every step, first under another name, and looks whether the file is there."""

import sys
from pathlib import Path

from mpi4py import MPI

STEPS = 150

ranks = MPI.COMM_WORLD
for step in range(STEPS):
    folder = Path(sys.argv[1]) / f"step{step:04d}"
    folder.mkdir(exist_ok=True)
    unfinished = folder / f"rank{ranks.rank}.tmp"
    unfinished.write_bytes(bytes(2048))
    unfinished.rename(folder / f"rank{ranks.rank}.dat")
    assert (folder / f"rank{ranks.rank}.dat").stat().st_size == 2048
    ranks.Barrier()
