"""The processes of a kernel: they make its calls, phase by phase, on whatever file system their folder is on.

`python -m weir.provisioning.stress.load SPECIFICATION` forks the processes. All of them begin a phase together; each
goes through its calls, pass after pass, until the time of the phase is over, and makes its bytes durable behind each
pass, as behind a checkpoint. Then it prints the counts of each phase as JSON. Readers read bytes that other processes
wrote, and every call is checked against a mark that its writer left in it.
"""

import contextlib
import json
import mmap
import os
import stat
import struct
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from weir.experiments.ranks import Phases, Ranks
from weir.provisioning.stress import kernels
from weir.provisioning.stress.kernels import Call, Kernel

FIELDS = ("bytes_written", "bytes_read", "operations", "begun", "ended", "calls_written")
"""Counts of a process in the current phase; the times are nanoseconds of CLOCK_MONOTONIC."""
PREPARE = "prepare"
"""The phase that writes what a later one reads; it is not timed, and ends with the first pass or with the time."""
_MARK = struct.Struct("<IIQ")
"""The number of the writer, 32 bits of the run's seed, and the place of the call."""


@dataclass(frozen=True)
class Specification:
    """The work of the processes of one kernel."""

    folder: str
    """An empty folder, which is empty again behind the run."""
    kernel: str
    processes: int
    """Number of processes, with the kernel's factor."""
    file_bytes: int
    """Bytes of each process."""
    seconds: float
    """Length of each phase. A phase ends behind the call that its end falls into."""
    seed: int
    is_private: bool
    """Whether the folder has to be this user's and closed to others: else another one was put in its place."""
    lifeline: int = -1
    """Descriptor of a pipe whose other end the run holds: its end is that of the run, which may have been killed."""


class Counters:
    """Counts of every process, in memory that the processes share."""

    def __init__(self, processes: int) -> None:
        """Make counters, all zero; before the fork.

        Args:
            processes: Number of processes.
        """
        self._cells = memoryview(mmap.mmap(-1, processes * len(FIELDS) * 8)).cast("q")

    def set(self, process: int, field: str, value: int) -> None:
        """Set a count; each process writes its own cells alone.

        Args:
            process: Number of the process.
            field: A name of `FIELDS`.
            value: The count.
        """
        self._cells[process * len(FIELDS) + FIELDS.index(field)] = value

    def get(self, process: int, field: str) -> int:
        """Read a count.

        Args:
            process: Number of the process.
            field: A name of `FIELDS`.
        """
        return self._cells[process * len(FIELDS) + FIELDS.index(field)]


class _Process:
    """One process of a kernel."""

    def __init__(self, number: int, specification: Specification, kernel: Kernel, counters: Counters) -> None:
        self._number = number
        self._specification = specification
        self._kernel = kernel
        self._counters = counters
        self._calls = self._calls_of(number)
        self._longest = max((length for _, length in self._calls), default=0)
        self._payload = bytearray(os.urandom(self._longest))
        self._passes = 0

    def run(self, phase: str) -> None:
        """Go through a phase; the counts are those of this phase alone, but for `calls_written`."""
        for field in ("bytes_written", "bytes_read", "operations"):
            self._counters.set(self._number, field, 0)
        begun = time.monotonic_ns()
        until = begun + int(self._specification.seconds * 1e9)
        if phase == "metadata":
            self._change_names(until)
        elif phase == "read" or (phase == "mixed" and self._number % 2):
            self._read(until, is_mixed=phase == "mixed")
        else:
            self._write(until, is_once=phase == PREPARE)
        self._counters.set(self._number, "begun", begun)
        self._counters.set(self._number, "ended", time.monotonic_ns())

    def _write(self, until: int, *, is_once: bool) -> None:
        descriptor = os.open(self._file(self._number), os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            moved = written = 0
            is_over = False
            while not is_over:
                for count, number in enumerate(self._order_written(self._number, len(self._calls)), 1):
                    place, length = self._calls[number]
                    _MARK.pack_into(self._payload, 0, *self._mark(self._number, place))
                    _write_whole(descriptor, memoryview(self._payload)[:length], place)
                    moved += length
                    written = max(written, count)
                    is_over = time.monotonic_ns() >= until
                    if is_over:
                        break
                os.fsync(descriptor)
                is_over = is_over or is_once
        finally:
            os.close(descriptor)
        self._counters.set(self._number, "bytes_written", moved)
        # A mixed phase follows one that prepared the whole file, and its own first pass may be cut short.
        written = max(written, self._counters.get(self._number, "calls_written"))
        self._counters.set(self._number, "calls_written", written)

    def _read(self, until: int, *, is_mixed: bool) -> None:
        """Read the bytes of another process, the one half the processes away, as HACC-IO does.

        Beside writers, readers read their own bytes: those of a writer would change meanwhile.
        """
        processes = self._specification.processes
        owner = self._number if is_mixed else (self._number + (processes + 1) // 2) % processes
        theirs = self._calls_of(owner)
        written = self._order_written(owner, len(theirs))[: self._counters.get(owner, "calls_written")]
        buffer = bytearray(self._longest)
        descriptor = os.open(self._file(owner), os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            moved = 0
            is_over = not written
            while not is_over:
                # Pages that this node still has would be read at the speed of memory.
                with contextlib.suppress(OSError):
                    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
                for number in self._order_read(written):
                    place, length = theirs[number]
                    _read_whole(descriptor, memoryview(buffer)[:length], place)
                    if _MARK.unpack_from(buffer, 0) != self._mark(owner, place):
                        raise OSError(f"{self._file(owner)}: other bytes at {place} than those that were written")
                    moved += length
                    is_over = time.monotonic_ns() >= until
                    if is_over:
                        break
        finally:
            os.close(descriptor)
        self._counters.set(self._number, "bytes_read", moved)

    def _change_names(self, until: int) -> None:
        """Make, stat and remove files in a folder of this process, as mdtest -u does."""
        folder = f"mdtest-{self._number}"
        Path(folder).mkdir(0o700)
        names = [f"{folder}/{number}" for number in range(kernels.MDTEST_FILES)]
        operations = 0

        def each(act: Callable[[str], object]) -> bool:
            nonlocal operations
            for name in names:
                act(name)
                operations += 1
                if time.monotonic_ns() >= until:
                    return True
            return False

        while not (each(_make_empty) or each(os.stat) or each(os.unlink)):
            pass
        self._counters.set(self._number, "operations", operations)
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                Path(name).unlink()
        Path(folder).rmdir()

    def _order_written(self, owner: int, count: int) -> Sequence[int]:
        """The order in which a process writes, the same in every pass, so that its readers know the first calls."""
        return kernels.order(self._kernel, count, self._specification.seed * 1024 + owner)

    def _order_read(self, written: Sequence[int]) -> Sequence[int]:
        self._passes += 1
        if not self._kernel.is_random:
            return sorted(written)
        seed = (self._specification.seed * 1024 + self._number) * 1024 + self._passes
        return [written[place] for place in kernels.order(self._kernel, len(written), seed)]

    def _calls_of(self, process: int) -> Sequence[Call]:
        if self._kernel.phases == ("metadata",):
            return ()
        specification = self._specification
        return kernels.calls(self._kernel, process, specification.processes, specification.file_bytes)

    def _mark(self, owner: int, place: int) -> tuple[int, int, int]:
        return owner, self._specification.seed & 0xFFFFFFFF, place

    def _file(self, owner: int) -> str:
        return file_of(self._kernel, owner)


def file_of(kernel: Kernel, process: int) -> str:
    """Name the file of a process.

    Args:
        process: Number of the process.

    Returns:
        The name in the folder of the run.
    """
    return f"{kernel.name}-shared" if kernel.is_shared else f"{kernel.name}-{process}"


def phases_of(kernel: Kernel) -> tuple[str, ...]:
    """List the phases of a kernel, with those that are not timed.

    Returns:
        The names of the phases.
    """
    return kernel.phases if kernel.phases[0] in ("write", "metadata") else (PREPARE, *kernel.phases)


def main() -> int:
    """Run the processes that the first argument describes, and print their counts.

    Returns:
        The exit code: 0, or 1 where a process failed.
    """
    specification = Specification(**json.loads(sys.argv[1]))
    kernel = kernels.KERNELS[specification.kernel]
    _enter(specification)
    counters = Counters(specification.processes)
    files: list[str] = []
    try:
        _make_files(specification, kernel, files)
        ranks = Ranks(
            specification.processes,
            lambda number, phases: _serve(_Process(number, specification, kernel, counters), kernel, phases),
        )
        answers = _phases(specification, kernel, counters, ranks)
        # Without answers the others would go on to the end of their phase, whose figures nobody wants.
        failed = ranks.end(is_killed=answers is None)
    finally:
        for file in files:
            with contextlib.suppress(FileNotFoundError):
                Path(file).unlink()
    if failed or answers is None:
        return 1
    print(json.dumps(answers))
    return 0


def _phases(
    specification: Specification, kernel: Kernel, counters: Counters, ranks: Ranks
) -> list[dict[str, Any]] | None:
    """Let all processes go through the phases together; None where one of them failed."""
    answers: list[dict[str, Any]] = []
    for phase in phases_of(kernel):
        ranks.begin()
        if not ranks.all_done(specification.lifeline):
            return None
        if phase != PREPARE:
            answers.append({"phase": phase, **_total(specification, counters)})
    return answers


def _total(specification: Specification, counters: Counters) -> dict[str, float]:
    """The counts of all processes, from the first begin to the last end."""
    processes = range(specification.processes)
    begun = min(counters.get(process, "begun") for process in processes)
    ended = max(counters.get(process, "ended") for process in processes)
    sums = {
        field: sum(counters.get(process, field) for process in processes)
        for field in ("bytes_written", "bytes_read", "operations")
    }
    return {"seconds": (ended - begun) / 1e9, **sums}


def _serve(process: _Process, kernel: Kernel, phases: Phases) -> None:
    """Run one process from its fork to its end."""
    for phase in phases_of(kernel):
        if phases.next() is None:
            return
        process.run(phase)
        phases.done()


def _enter(specification: Specification) -> None:
    """Go to the folder, so that whatever is put in its place later is not used."""
    os.chdir(specification.folder)
    there = Path().stat()
    if specification.is_private and (there.st_uid != os.geteuid() or stat.S_IMODE(there.st_mode) & 0o077):
        raise OSError(f"{specification.folder} is not the folder that was made for the kernel")


def _make_files(specification: Specification, kernel: Kernel, made: list[str]) -> None:
    """Make the files, none of which may be there: bytes of others are never written over."""
    if kernel.phases == ("metadata",):
        return
    for name in dict.fromkeys(file_of(kernel, process) for process in range(specification.processes)):
        _make_empty(name)
        made.append(name)


def _write_whole(descriptor: int, data: memoryview, place: int) -> None:
    while len(data):
        count = os.pwrite(descriptor, data, place)
        data, place = data[count:], place + count


def _read_whole(descriptor: int, buffer: memoryview, place: int) -> None:
    while len(buffer):
        count = os.preadv(descriptor, [buffer], place)
        if count == 0:
            raise OSError(f"the file ends at {place}, before bytes that were written")
        buffer, place = buffer[count:], place + count


def _make_empty(name: str) -> None:
    os.close(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))


if __name__ == "__main__":
    sys.exit(main())
