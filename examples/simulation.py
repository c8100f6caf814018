"""A simulation in its files alone: at each step, every rank writes its part of a checkpoint into `results`.

It needs no MPI library: the starter of the ranks tells each its number.
"""

import argparse
import os
from pathlib import Path

RANK = ("PMI_RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID")
"""Variables in which MPICH, Open MPI and Slurm tell the number of the rank."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--bytes", type=int, default=256 << 10, help="size of a rank's part of a checkpoint")
    arguments = parser.parse_args()
    rank = int(next((os.environ[name] for name in RANK if name in os.environ), "0"))
    place = os.environ.get("WEIR_MOUNT") or os.environ["WEIR_PREFIX"]
    results = Path(place) / "results"
    results.mkdir(exist_ok=True)
    for step in range(arguments.steps):
        part = results / f"checkpoint.{step:04}.{rank:04}"
        with part.open("wb") as file:
            file.write(bytes([step % 256]) * arguments.bytes)
    if rank == 0:
        (results / "summary.txt").write_text(f"{arguments.steps} steps\n")


if __name__ == "__main__":
    main()
