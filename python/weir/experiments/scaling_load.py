"""The processes of one client node in the scaling experiment: each makes files in a tree of its own, writes one, and
reads that of another process.

`python -m weir.experiments.scaling_load SPECIFICATION` runs on a store (`weir run --prefix`). It forks the processes
and prints `ready`. Each phase begins with a line on its standard input, and ends with a line: the moments of the clock
(CLOCK_MONOTONIC, seconds) at which the first process began and the last one ended. It is the use of IOR and mdtest in
ThemisIO (SC'23, sections 5.1 and 5.2).
"""

import json
import mmap
import os
import struct
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from weir.experiments.ranks import Phases, Ranks

PHASES = ("trees", "creates", "files", "write", "read")
"""The phases, in their order; `trees` and `files` only prepare those that follow."""


@dataclass(frozen=True)
class Specification:
    """The work of a node's processes."""

    folder: str
    """Begin of the paths of the trees, below the root of the store; the number of a process follows."""
    first: int
    """Number of the node's first process among those of all nodes."""
    processes: int
    """Processes of the node."""
    all_processes: int
    """Processes of all nodes: each reads the file of the node behind its own."""
    request_bytes: int
    requests: int
    """Requests of each process in a phase."""
    files: int
    """Files that each process makes."""


def main() -> int:
    """Run the processes that the first argument describes.

    Returns:
        The exit code: 0, or 1 where a process failed.
    """
    specification = Specification(**json.loads(sys.argv[1]))
    moments = mmap.mmap(-1, max(1, 16 * specification.processes))
    ranks = Ranks(specification.processes, lambda number, phases: _serve(number, specification, phases, moments))
    is_done = ranks.all_done()
    print("ready", flush=True)
    for _ in PHASES:
        if not is_done or not sys.stdin.readline():
            break
        ranks.begin()
        is_done = ranks.all_done()
        times = [struct.unpack_from("dd", moments, 16 * number) for number in range(specification.processes)]
        print(min(begin for begin, _ in times), max(end for _, end in times), flush=True)
    return 1 if ranks.end() or not is_done else 0


def _serve(number: int, specification: Specification, phases: Phases, moments: mmap.mmap) -> None:
    """Run one process through the phases."""
    own = specification.first + number
    other = (own + specification.processes) % specification.all_processes
    folder, length = specification.folder, specification.request_bytes
    block = os.urandom(length)
    phases.done()
    descriptors: Sequence[int] = ()
    for phase in PHASES:
        if phases.next() is None:
            return
        begin = time.monotonic()
        if phase == "trees":
            # A directory in the root of the store: each tree has a home of its own.
            Path(f"{folder}-{own}").mkdir()
        elif phase == "creates":
            for file in range(specification.files):
                os.close(os.open(f"{folder}-{own}/{file}", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        elif phase == "files":
            descriptors = [os.open(f"{folder}-{own}/data", os.O_RDWR | os.O_CREAT, 0o600)]
        elif phase == "write":
            for request in range(specification.requests):
                _check(os.pwrite(descriptors[0], block, request * length), length)
        else:
            descriptors = [*descriptors, os.open(f"{folder}-{other}/data", os.O_RDONLY)]
            for request in range(specification.requests):
                _check(len(os.pread(descriptors[1], length, request * length)), length)
        struct.pack_into("dd", moments, 16 * number, begin, time.monotonic())
        phases.done()


def _check(done: int, wanted: int) -> None:
    if done != wanted:
        raise OSError(f"a request moved {done} of {wanted} bytes")


if __name__ == "__main__":
    sys.exit(main())
