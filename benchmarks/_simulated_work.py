"""Work of simulated jobs that benchmarks share."""

import dataclasses

import numpy as np
from weir.simulation.workload import Work


def in_one_folder(work: Work, servers: int) -> Work:
    """The work with its files in one folder: server 0 places all of them, as the home of the folder.

    The simulator's home of a file is its number modulo the servers, so the files get numbers that are multiples. The
    files between them are never made.
    """
    count = len(work.file_bytes) * servers
    sizes = np.zeros(count, dtype=np.uint64)
    sizes[::servers] = work.file_bytes
    layouts: list[str | None] = [None] * count
    layouts[::servers] = work.layouts or [None] * len(work.file_bytes)
    steps = dataclasses.replace(work.steps, file=work.steps.file * np.uint32(servers))
    return dataclasses.replace(work, steps=steps, file_bytes=sizes, layouts=tuple(layouts))
