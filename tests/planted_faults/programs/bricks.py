"""Ranks write bricks of an odd size in turn into one file, each by itself, as a solver without collective calls."""

import sys

from mpi4py import MPI

BRICK_BYTES = 600_011
BRICKS_OF_RANK = 40

ranks = MPI.COMM_WORLD
brick = bytearray(BRICK_BYTES)
field = MPI.File.Open(ranks, f"{sys.argv[1]}/bricks/field.raw", MPI.MODE_CREATE | MPI.MODE_WRONLY)
for number in range(BRICKS_OF_RANK):
    field.Write_at((number * ranks.size + ranks.rank) * BRICK_BYTES, brick)
field.Close()
