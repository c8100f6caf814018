"""The processes of a job: each writes its own file and reads it back, again and again, one request at a time.

`python -m weir.experiments.load SPECIFICATION` runs on a store (`weir run --prefix`). It forks the processes, opens
their files, prints `ready`, and waits for one line: the moment of the clock (CLOCK_MONOTONIC, seconds) from which the
times in the specification count. When the time is over it prints the counts of each window, as JSON. This is the
benchmark of ThemisIO (SC'23, section 5.3.1), with smaller files.
"""

import json
import mmap
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from weir.experiments.ranks import Phases, Ranks

FIELDS = ("bytes_written", "bytes_read", "requests", "waited_nanoseconds")
"""Counts of each process in each window."""
_LAYOUT = "weir.layout"
_ATTEMPTS_MAX = 64
"""Most folders that are made until one has its home on the wanted server."""
_HOME_SHIFT = 48
"""Position of the home's number in an inode number: the upper 16 bits."""


@dataclass(frozen=True)
class Specification:
    """The work of one job's processes."""

    folder: str
    """Folder of the files; with `targets`, the files lie in folders beside it that have their homes on the targets'
    servers."""
    processes: int
    request_bytes: int
    requests_per_file: int
    start_seconds: float
    seconds: float
    window_seconds: float
    windows: int
    """Number of windows; later counts belong to the last one."""
    targets: Sequence[str] = ()
    """Targets of the files, in turn, as `server.index`; each file lies on one. Without any, the store lays the files
    out."""


class Counters:
    """Counts of every process in every window, in memory that the processes share."""

    def __init__(self, processes: int, windows: int) -> None:
        """Make counters, all zero; before the fork.

        Args:
            processes: Number of processes.
            windows: Number of windows.
        """
        self._windows = windows
        self._memory = mmap.mmap(-1, max(1, processes * windows * len(FIELDS) * 8))
        self._cells = memoryview(self._memory).cast("q")

    def add(self, process: int, window: int, field: int, amount: int) -> None:
        """Count; each process writes its own cells alone.

        Args:
            process: Number of the process.
            window: Number of the window; one outside of the range counts as the nearest.
            field: Index in `FIELDS`.
        """
        window = min(max(window, 0), self._windows - 1)
        self._cells[(process * self._windows + window) * len(FIELDS) + field] += amount

    def window(self, process: int, window: int) -> list[int]:
        """Read the counts of a process in a window.

        Args:
            process: Number of the process.
            window: Number of the window.

        Returns:
            The counts, in the order of `FIELDS`.
        """
        at = (process * self._windows + window) * len(FIELDS)
        return self._cells[at : at + len(FIELDS)].tolist()


def main() -> int:
    """Run the processes that the first argument describes, and print their counts.

    Returns:
        The exit code: 0, or 1 where a process failed.
    """
    specification = Specification(**json.loads(sys.argv[1]))
    files = _make_files(specification)
    counters = Counters(specification.processes, specification.windows)
    ranks = Ranks(
        specification.processes,
        lambda number, phases: _serve(number, specification, files[number], counters, phases),
    )
    if ranks.all_done():
        print("ready", flush=True)
        ranks.begin(sys.stdin.readline().strip())
    if ranks.end():
        return 1
    print(json.dumps(_report(specification, counters)))
    return 0


def _serve(process: int, specification: Specification, file: str, counters: Counters, phases: Phases) -> None:
    """Run one process from its open to its end."""
    descriptor = os.open(file, os.O_RDWR)
    phases.done()
    if epoch := phases.next():
        _write_and_read(process, specification, descriptor, counters, float(epoch))
    os.close(descriptor)


def _write_and_read(
    process: int, specification: Specification, descriptor: int, counters: Counters, epoch: float
) -> None:
    """Send requests one after the other, from the start to the end of the job's time."""
    length = specification.request_bytes
    written = os.urandom(length)
    read = bytearray(length)
    begin = epoch + specification.start_seconds
    end = begin + specification.seconds
    time.sleep(max(0.0, begin - time.monotonic()))
    before = time.monotonic()
    while True:
        for field in (FIELDS.index("bytes_written"), FIELDS.index("bytes_read")):
            for number in range(specification.requests_per_file):
                if before >= end:
                    return
                if field == 0:
                    done = os.pwrite(descriptor, written, number * length)
                else:
                    done = os.preadv(descriptor, [read], number * length)
                now = time.monotonic()
                if done != length or (field == 1 and read != written):
                    raise OSError(f"request {number}: {done} of {length} bytes, or not those that were written")
                _count(counters, process, specification, before - epoch, now - epoch, field, done)
                before = now


def _count(
    counters: Counters, process: int, specification: Specification, since: float, until: float, field: int, done: int
) -> None:
    """Count a request in the window of its end, and its waiting in every window of its time."""
    last = int(until / specification.window_seconds)
    counters.add(process, last, field, done)
    counters.add(process, last, FIELDS.index("requests"), 1)
    first = int(since / specification.window_seconds)
    for window in range(first, last + 1):
        begin = max(since, window * specification.window_seconds)
        end = min(until, (window + 1) * specification.window_seconds)
        counters.add(process, window, FIELDS.index("waited_nanoseconds"), int((end - begin) * 1e9))


def _make_files(specification: Specification) -> list[str]:
    """An empty file for each process, on its target."""
    if not specification.targets:
        Path(specification.folder).mkdir()
        return [_empty_file(f"{specification.folder}/{process}") for process in range(specification.processes)]
    wanted = specification.targets
    targets = [wanted[process % len(wanted)] for process in range(specification.processes)]
    folders = {server: _folder_of(specification.folder, server) for server in {_server(target) for target in targets}}
    return [_file_on(target, f"{folders[_server(target)]}/{process}") for process, target in enumerate(targets)]


def _folder_of(stem: str, server: str) -> str:
    """A folder whose files have their home on `server`: its name and the servers' load choose the home."""
    for attempt in range(_ATTEMPTS_MAX):
        folder = f"{stem}-{server}-{attempt}"
        Path(folder).mkdir()
        if Path(folder).stat().st_ino >> _HOME_SHIFT == int(server):
            return folder
        Path(folder).rmdir()
    raise OSError(f"none of {_ATTEMPTS_MAX} folders {stem}-{server}-* has its home on server {server}")


def _file_on(target: str, path: str) -> str:
    """An empty file on `target`."""
    file = _empty_file(path)
    os.setxattr(file, _LAYOUT, f"-o {target}".encode())
    return file


def _empty_file(path: str) -> str:
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    return path


def _server(target: str) -> str:
    return target.partition(".")[0]


def _report(specification: Specification, counters: Counters) -> list[dict[str, int]]:
    """The counts of all processes in each window."""
    report = []
    for window in range(specification.windows):
        counts = [counters.window(process, window) for process in range(specification.processes)]
        report.append(dict(zip(FIELDS, map(sum, zip(*counts, strict=True)), strict=True)))
    return report


if __name__ == "__main__":
    sys.exit(main())
