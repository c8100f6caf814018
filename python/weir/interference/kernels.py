"""Kernels: real programs with the I/O of known benchmarks and applications, which time each of their operations.

`python -m weir.interference.kernels SPECIFICATION` runs one on a store (`weir run`). The operations of a kernel are the
same in each run of it, so those of two runs can be matched.
"""

import itertools
import json
import math
import os
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from weir.csv_table import CsvTable
from weir.interference.processor_waits import OwnWaits

_KIB, _MIB = 1024, 1024 * 1024
_STRIDE = 7
"""Step through the places of a file for random access: prime to every number of places used here."""


@dataclass(frozen=True)
class Specification:
    """The work of one process."""

    kernel: str
    """Name in `KERNELS`."""
    folder: str
    """Folder of the kernel's files, which is made."""
    rounds: int
    """Rounds; 0 goes on until the process is ended."""
    log: str = ""
    """File of the operations, outside of the store; empty writes none."""
    pause_seconds: float = 0.0
    """Pause after each round, as a computation makes one."""
    seconds: float = 0.0
    """Time of the rounds after which the process ends; 0 sets none."""


@dataclass(frozen=True)
class Step:
    """One operation of a kernel."""

    kind: str
    """`read`, `write`, `open`, `make`, `close`, `stat` or `remove`."""
    file: str
    """Name of the file below the folder."""
    offset: int = 0
    """Place of the bytes."""
    size_bytes: int = 0
    """Number of bytes."""


Round = Callable[[int], Iterator[Step]]


@dataclass(frozen=True)
class Kernel:
    """The operations of a kernel."""

    round: Round
    """The operations of a round, by its number."""
    prepare: Round | None = None
    """Operations before the first round, which are not timed; the number is 0."""


def _whole_file(kind: str, file: str, size_bytes: int, request_bytes: int) -> Iterator[Step]:
    """Make or open a file, move all of its bytes in requests, and close it."""
    yield Step("make" if kind == "write" else "open", file)
    for offset in range(0, size_bytes, request_bytes):
        yield Step(kind, file, offset, request_bytes)
    yield Step("close", file)


def _strided(kind: str, file: str, places: int, request_bytes: int) -> Iterator[Step]:
    """Touch every place of a file once, far apart from each other."""
    yield Step("open", file)
    for number in range(places):
        yield Step(kind, file, number * _STRIDE % places * request_bytes, request_bytes)
    yield Step("close", file)


def _many(names: Callable[[int, int], str], kinds: tuple[str, ...], count: int, size_bytes: int = 0) -> Round:
    """For many small files, one after the other, each of the operations."""

    def steps(number: int) -> Iterator[Step]:
        for index in range(count):
            for kind in kinds:
                is_data = kind in ("read", "write")
                yield Step(kind, names(number, index), 0, size_bytes if is_data else 0)

    return steps


def _prepared(names: Callable[[int], str], count: int, size_bytes: int) -> Round:
    """Write files that the rounds read."""

    def steps(_number: int) -> Iterator[Step]:
        for index in range(count):
            yield from _whole_file("write", names(index), size_bytes, min(size_bytes, _MIB))

    return steps


def _samples(index: int) -> str:
    return f"sample-{index}"


def _new(number: int, index: int) -> str:
    return f"{number}-{index}"


def _same(_number: int, index: int) -> str:
    return _samples(index)


def _plotfile(number: int) -> Iterator[Step]:
    """AMReX: a header, then the data of each level in large writes."""
    yield from _whole_file("write", f"plt{number}-Header", 4 * _KIB, 4 * _KIB)
    for level in range(2):
        yield from _whole_file("write", f"plt{number}-Level{level}", _MIB, 256 * _KIB)


def _dump(number: int) -> Iterator[Step]:
    """Enzo: each grid is looked for, written, and read back."""
    for grid in range(4):
        file = f"grid{number}-{grid}"
        yield from _whole_file("write", file, 192 * _KIB, 64 * _KIB)
        yield Step("stat", file)
        yield from _whole_file("read", file, 192 * _KIB, 64 * _KIB)


KERNELS: dict[str, Kernel] = {
    "ior-easy-write": Kernel(lambda number: _whole_file("write", f"easy-{number % 2}", 2 * _MIB, 256 * _KIB)),
    "ior-easy-read": Kernel(
        lambda _: _whole_file("read", _samples(0), 2 * _MIB, 256 * _KIB), _prepared(_samples, 1, 2 * _MIB)
    ),
    "ior-hard-write": Kernel(lambda _: _strided("write", _samples(0), 32, 47_008), _prepared(_samples, 1, 32 * 47_008)),
    "ior-hard-read": Kernel(lambda _: _strided("read", _samples(0), 32, 47_008), _prepared(_samples, 1, 32 * 47_008)),
    "mdtest-easy-write": Kernel(_many(_new, ("make", "close", "remove"), 16)),
    "mdtest-hard-write": Kernel(_many(_new, ("make", "write", "close", "remove"), 12, 3_901)),
    "mdtest-hard-read": Kernel(
        _many(_same, ("stat", "open", "read", "close"), 12, 3_901), _prepared(_samples, 12, 3_901)
    ),
    "dlio-unet3d": Kernel(
        lambda number: _whole_file("read", _samples(number * 3 % 4), 2 * _MIB, _MIB), _prepared(_samples, 4, 2 * _MIB)
    ),
    "dlio-bert": Kernel(lambda _: _strided("read", _samples(0), 64, 16 * _KIB), _prepared(_samples, 1, 64 * 16 * _KIB)),
    "amrex": Kernel(_plotfile),
    "enzo": Kernel(_dump),
    "openpmd": Kernel(_many(_new, ("make", "write", "close", "stat"), 12, 8 * _KIB)),
}
"""Kernels by name: the seven I/O tasks that the interference paper takes from IO500, the loaders of DLIO, and three
applications."""


class _Runner:
    """Carries operations out, and times them."""

    def __init__(self, folder: Path, log: CsvTable | None) -> None:
        self._folder = folder
        self._log = log
        self._open: dict[str, int] = {}
        self._bytes = bytes(range(256)) * (_MIB // 256)
        self._waits = OwnWaits()

    def run(self, steps: Iterator[Step], end: float = math.inf, *, is_timed: bool = True) -> None:
        """Carry out the steps that begin before a moment of the monotonic clock."""
        for step in steps:
            waited, moment, begun = self._waits.seconds(), time.time(), time.monotonic()
            if begun >= end:
                return
            self._carry_out(step)
            seconds = time.monotonic() - begun
            waited = self._waits.seconds() - waited
            if self._log is not None and is_timed:
                place = f"{step.file}@{step.offset}"
                self._log.add((step.kind, place, f"{moment:.6f}", f"{seconds:.9f}", f"{waited:.9f}"))

    def _carry_out(self, step: Step) -> None:
        path = self._folder / step.file
        match step.kind:
            case "make":
                self._open[step.file] = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o644)
            case "open":
                self._open[step.file] = os.open(path, os.O_RDWR)
            case "write":
                os.pwrite(self._open[step.file], self._bytes[: step.size_bytes], step.offset)
            case "read":
                os.pread(self._open[step.file], step.size_bytes, step.offset)
            case "close":
                os.close(self._open.pop(step.file))
            case "stat":
                path.stat()
            case _:
                path.unlink()


def main() -> int:
    """Run the kernel that the first argument describes.

    Returns:
        The exit code.
    """
    specification = Specification(**json.loads(sys.argv[1]))
    folder = Path(specification.folder)
    folder.mkdir(parents=True, exist_ok=True)
    kernel = KERNELS[specification.kernel]
    with Path(specification.log or os.devnull).open("w", newline="") as file:
        runner = _Runner(folder, CsvTable(file) if specification.log else None)
        if kernel.prepare is not None:
            runner.run(kernel.prepare(0), is_timed=False)
        rounds = range(specification.rounds) if specification.rounds else itertools.count()
        end = time.monotonic() + specification.seconds if specification.seconds else math.inf
        for number in rounds:
            if time.monotonic() >= end:
                break
            # An endless kernel writes its files anew, so that it fills no target.
            runner.run(kernel.round(number if specification.rounds else number % 4), end)
            time.sleep(specification.pause_seconds)
    return 0


if __name__ == "__main__":
    sys.exit(main())
