"""What recording costs a loop of 4 KiB writes, on the store and on an observed directory, beside the same without.

make bench-tracing        every figure; the last line is one JSON object
.venv/bin/python benchmarks/tracing.py memory directory prefix mount

Two processes take turns of a millisecond on one core and one file, one recorded and one not, so that whatever else the
machine does, and where the file's pages lie, meets both; which goes first alternates. A ratio is the median over
neighbouring turns, and the spread is over fresh pairs of processes. The same between two processes that are both not
recorded tells what the method cannot see.
Outside the store, the process that is not recorded runs without any library of Weir.
"""

import os
import shutil
import statistics
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from _harness import ROOT, WAIT_SECONDS, WEIR, Store, announce, finish

PAIRS = 12
"""Number of fresh pairs of processes: the places of a program's own pages make some faster than others."""
WARM_TURNS = 3
"""Turns of each process that are not counted: the file is being made."""
LIMIT = 0.01
"""Accepted part of the run time that recording costs."""
PREFIX = "/weir"


@dataclass(frozen=True)
class Case:
    """A way to run a loop with and without the recorder."""

    folder: str
    plain: Sequence[object]
    recorded: Sequence[object]
    blocks: int
    """Length of a turn."""
    turns: int
    """Turns of each process."""


class Loop:
    """A process that writes in its turns."""

    def __init__(self, command: Sequence[object], core: int) -> None:
        words = [str(word) for word in command]
        self._process = subprocess.Popen(
            words,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            preexec_fn=lambda: os.sched_setaffinity(0, {core}),
        )
        if self._line() != "ready":
            sys.exit(f"{words} did not start")

    def _line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def turn(self) -> float:
        """Time of a write in nanoseconds."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        return float(self._line())

    def end(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        if self._process.wait(WAIT_SECONDS) != 0:
            sys.exit(f"{self._process.args!r} failed")


def ratio(first: Sequence[object], second: Sequence[object], turns: int) -> tuple[float, float]:
    """Ratio of the times of a write of `second` and of `first`, and nanoseconds of `first`."""
    core = max(os.sched_getaffinity(0))
    one, other = Loop(first, core), Loop(second, core)
    ratios, alone = [], []
    for _ in range(WARM_TURNS):
        one.turn()
        other.turn()
    for turn in range(turns):
        if turn % 2:
            two = other.turn()
            own = one.turn()
        else:
            own = one.turn()
            two = other.turn()
        ratios.append(two / own)
        alone.append(own)
    one.end()
    other.end()
    return statistics.median(ratios), statistics.median(alone)


def measured(name: str, case: Case, program: Path) -> dict[str, float]:
    """Overhead of recording, and the difference of two equal processes."""

    def loop(command: Sequence[object]) -> list[object]:
        return [*command, program, f"{case.folder}/file", case.blocks]

    overheads, noises, times = [], [], []
    for pair in range(PAIRS):
        # The order in which the two files were made must not matter.
        flipped = pair % 2 == 1
        first, second = loop(case.plain), loop(case.recorded)
        if flipped:
            value, _ = ratio(second, first, case.turns)
            value = 1 / value
        else:
            value, alone = ratio(first, second, case.turns)
            times.append(alone)
        overheads.append(value - 1)
        noises.append(ratio(loop(case.plain), loop(case.plain), case.turns)[0] - 1)
    overhead = statistics.median(overheads)
    low, _, high = statistics.quantiles(overheads, n=4)
    noise = statistics.quantiles([abs(value) for value in noises], n=4)[2]
    announce(
        f"{name}, {statistics.median(times):.0f} ns a write",
        f"{100 * overhead:+.2f} % ({100 * low:+.2f} to {100 * high:+.2f})",
        f"{100 * LIMIT:.0f} %; two plain ones: {100 * noise:.2f} %",
        overhead / LIMIT,
    )
    return {
        f"trace_overhead_{name}": overhead,
        f"trace_overhead_{name}_low": low,
        f"trace_overhead_{name}_high": high,
        f"trace_noise_{name}": noise,
        f"write_ns_{name}": statistics.median(times),
    }


def _observed(name: str, folder: Path, program: Path, traces: Path) -> dict[str, float]:
    os.environ["WEIR_HOME"] = str(traces / "none")
    recorded = [WEIR, "run", "--observe", folder, "--trace", traces, "--"]
    return measured(name, Case(str(folder), [], recorded, 1000, 600), program)


def memory(directory: Path, program: Path) -> dict[str, float]:
    """An observed directory in memory: the fastest there is, where recording weighs most."""
    with TemporaryDirectory(prefix="weir-bench-", dir="/dev/shm") as folder:
        return _observed("memory", Path(folder), program, directory / "traces")


def directory(directory: Path, program: Path) -> dict[str, float]:
    """An observed directory of the machine's disk (its pages in memory)."""
    folder = directory / "observed"
    folder.mkdir()
    return _observed("directory", folder, program, directory / "traces")


def prefix(directory: Path, program: Path) -> dict[str, float]:
    """The store without a mount."""
    with Store(directory):
        plain = [WEIR, "run", "--prefix", PREFIX]
        recorded = [*plain, "--trace", directory / "traces", "--"]
        return measured("prefix", Case(PREFIX, [*plain, "--"], recorded, 200, 200), program)


def mount(directory: Path, program: Path) -> dict[str, float]:
    """The store with a mount."""
    with Store(directory) as store:
        recorded = [WEIR, "run", "--trace", directory / "traces", "--"]
        return measured("mount", Case(str(store.mount), [WEIR, "run", "--"], recorded, 200, 200), program)


PARTS: dict[str, Callable[[Path, Path], dict[str, float]]] = {
    "memory": memory,
    "directory": directory,
    "prefix": prefix,
    "mount": mount,
}


def main() -> None:
    figures: dict[str, float] = {}
    for name in sys.argv[1:] or list(PARTS):
        with TemporaryDirectory(prefix="weir-bench-") as folder:
            program = Path(folder) / "write_loop"
            source = ROOT / "benchmarks/_write_loop.c"
            subprocess.run(["cc", "-O2", "-Wall", "-Werror", "-o", program, source], check=True)
            figures |= PARTS[name](Path(folder), program)
            shutil.rmtree(Path(folder) / "traces", ignore_errors=True)
    overall = [value for name, value in figures.items() if name.startswith("trace_overhead_") and name.count("_") == 2]
    finish("tracing", {"trace_overhead": max(overall), **figures})


if __name__ == "__main__":
    main()
