"""Runs of the past, made of the files that they left."""

import shutil
from collections.abc import Sequence
from pathlib import Path

from weir.provisioning.learning.archive import ParsedLog, opened
from weir.provisioning.learning.summaries import read_table
from weir.tracing.records import SHARED, Creation, Run

DATA = Path(__file__).resolve().parent / "data"
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


def recorded(folder: Path) -> None:
    """Write a trace of Recorder, the text of an extended trace, and the runs that classes were made from."""
    shutil.copytree(DATA / "recorder" / "host-user-app-10949-082155.406", folder / "host-user-app-1-1.0")
    line = " X_POSIX        0  write        0             4096          800     0.0012     0.0013\n"
    (folder / "dxt.txt").write_text(f"# darshan log version: 3.21\n# nprocs: 2\n# run time: 1.5\n{line * 4}")
    with opened(folder / "archive.db") as archive:
        archive.list_logs([("/cori.csv.gz", 1, 1)])
        archive.keep([ParsedLog(1, tuple(read_table(DATA / "tokio" / "cori.csv.gz"))[:8], None)])
