"""The processes of a representative: `python -m weir.provisioning.pairwise.load SPECIFICATION`.

They make their files, print `ready`, and wait for one line: the moment (CLOCK_MONOTONIC, seconds) from which they go
through their calls until the time is over. Then the number of calls that ended in the time is printed.
"""

import json
import mmap
import os
import shutil
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from weir.experiments.ranks import Phases, Ranks
from weir.provisioning.pairwise.shape import FILE_BYTES, LARGE_BYTES, Call, Shape, calls


@dataclass(frozen=True)
class Specification:
    """The work of one job."""

    folder: str
    """A folder that is made, and removed at the end."""
    processes: int
    shape: dict[str, float]
    seconds: float
    warm_seconds: float
    """First part of the time, whose calls do not count."""
    seed: int
    processors: tuple[int, ...] = ()
    """Processors that stand for the job's node; empty leaves them to the system."""


def main() -> int:
    """Run the processes that the first argument describes, and print the count of their calls.

    Returns:
        The exit code: 0, or 1 where a process failed.
    """
    work = Specification(**json.loads(sys.argv[1]))
    if work.processors:
        os.sched_setaffinity(0, set(work.processors) & os.sched_getaffinity(0) or os.sched_getaffinity(0))
    Path(work.folder).mkdir()
    counts = memoryview(mmap.mmap(-1, work.processes * 8)).cast("q")
    ranks = Ranks(work.processes, lambda number, phases: _run(number, work, counts, phases))
    if ranks.all_done():
        print("ready", flush=True)
        ranks.begin(sys.stdin.readline().strip())
    failed = ranks.end()
    shutil.rmtree(work.folder)
    if failed:
        return 1
    print(json.dumps({"calls": sum(counts)}))
    return 0


def _run(process: int, work: Specification, counts: memoryview, phases: Phases) -> None:
    folder = Path(work.folder) / str(process)
    folder.mkdir()
    descriptor = os.open(folder / "data", os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    payload = os.urandom(LARGE_BYTES)
    for place in range(0, FILE_BYTES, LARGE_BYTES):
        os.pwrite(descriptor, payload, place)
    phases.done()
    if epoch := phases.next():
        _work(float(epoch), process, work, descriptor, folder, payload, counts)
    os.close(descriptor)


def _work(
    epoch: float,
    process: int,
    work: Specification,
    descriptor: int,
    folder: Path,
    payload: bytes,
    counts: memoryview,
) -> None:
    begin, end = epoch + work.warm_seconds, epoch + work.seconds
    named = 0
    time.sleep(max(0.0, epoch - time.monotonic()))
    for call in calls(Shape(**work.shape), work.seed * work.processes + process):
        if call.kind == "metadata":
            _change_names(folder, named)
            named += 1
        else:
            _move(call, descriptor, payload)
        now = time.monotonic()
        if now >= end:
            return
        if now >= begin:
            counts[process] += 1


def _change_names(folder: Path, number: int) -> None:
    """One of four calls on an empty file, in turn: made, looked at, renamed, removed."""
    path, step = folder / f"empty-{number // 4}", number % 4
    if step == 0:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    elif step == 1:
        path.stat()
    elif step == 2:
        path.rename(f"{path}-renamed")
    else:
        Path(f"{path}-renamed").unlink()


def _move(call: Call, descriptor: int, payload: bytes) -> None:
    if call.kind == "read":
        done = len(os.pread(descriptor, call.length, call.place))
    else:
        done = os.pwrite(descriptor, payload[: call.length], call.place)
    if done != call.length:
        raise OSError(f"{done} of {call.length} bytes at {call.place}")


if __name__ == "__main__":
    sys.exit(main())
