"""Runs of the past, made of the files that they left."""

from collections.abc import Sequence

from weir.tracing.records import SHARED, Creation, Run

File = tuple[str, int, int]
"""Path, rank and size; those of a rank in its order."""


def run_of(
    files: Sequence[File], *, ranks: int = 1, arguments: str = "", started: float = 0.0, program: str = "app"
) -> Run:
    """Make the record of a run.

    Args:
        files: Its files.
        ranks: Size of the communicator.
        arguments: Arguments after the program's name, with blanks between them.
        started: Unix time of the start in seconds.
        program: Name of the executable.

    Returns:
        The run, of a second.
    """
    orders: dict[int, int] = {}
    creations = []
    for path, rank, size in files:
        order = orders.get(rank, 0)
        orders[rank] = order + 1
        writers = ranks if rank == SHARED else 1
        creations.append(Creation(path, rank, order, size, size, writers, "-c 2 -S 1M"))
    return Run(program, tuple(arguments.split()), ranks, started, started + 1, tuple(creations), "weir")
