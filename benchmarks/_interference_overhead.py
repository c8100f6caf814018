"""The cost of windows: write loops whose operations clients and servers count in windows, beside loops without.

.venv/bin/python benchmarks/_interference_overhead.py

Three stores are up at a time: two without windows of a second (the servers' have a minute, the longest, and clients
count nothing), and one whose servers have windows of a second, whose program counts its own operations, and which a
recorder reads. Loops of single writes on all three take turns. The figure is the processor time of an operation, of the
program and of the server, which other work on the machine disturbs less than its wall time; both are printed. The
second store without windows tells how far two stores that are alike differ here. A store's processes lie elsewhere in
memory each time, which alone makes a difference of a percent, so all stores come up anew in each round.
"""

import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import weir.store
from _harness import compiled, finish

ROUNDS = 10
TURNS = 24
LOOPS = {"4 KiB": (4096, 800), "1 MiB": (1 << 20, 24)}
"""Bytes of a write, and writes of a turn: some 20 ms."""
STORE = """version = 1
window = "{window}"
[[server]]
[[server.target]]
backend = "ram"
capacity = "64MiB"
"""
SETTLED_SECONDS = 0.3
KINDS = ("wall", "program", "server")


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of an operation, in seconds."""

    wall: float
    program: float
    server: float

    @property
    def processor(self) -> float:
        """Processor time of the program and of the server."""
        return self.program + self.server


class Loop:
    """A write loop as a job of a store."""

    def __init__(self, process: "subprocess.Popen[str]", server: int, writes: int) -> None:
        self._process = process
        self._server = server
        self._writes = writes
        assert process.stdout is not None
        if process.stdout.readline() != "ready\n":
            sys.exit("error: the write loop did not start")

    def turn(self) -> Cost:
        """Write for a turn."""
        assert self._process.stdin is not None and self._process.stdout is not None
        program, server = processor_seconds(self._process.pid), processor_seconds(self._server)
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        nanoseconds = float(self._process.stdout.readline())
        program, server = processor_seconds(self._process.pid) - program, processor_seconds(self._server) - server
        return Cost(nanoseconds / 1e9, program / self._writes, server / self._writes)


def processor_seconds(pid: int) -> float:
    """The processor time of a process's threads so far, from the scheduler's own count in nanoseconds."""
    threads = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(thread.read_text().split()[0]) for thread in threads) / 1e9


@contextmanager
def loop(program: Path, home: Path, block: tuple[int, int], *, has_windows: bool) -> Iterator[Loop]:
    """A loop on a store of its own, with windows or without."""
    toml = home.parent / f"{home.name}.toml"
    toml.write_text(STORE.format(window="1s" if has_windows else "1min"))
    with ExitStack() as ends:
        store = ends.enter_context(weir.store.up(toml, home=home, mount=False))
        variables = ends.enter_context(store.job(job="loop", prefix="/weir"))
        if not has_windows:
            variables = {**variables, "WEIR_WINDOWS": "off"}
        if has_windows:
            ends.enter_context(recorder(home))
        bytes_of, writes = block
        command: list[str | Path] = [program, "/weir/file", str(writes), str(bytes_of)]
        process = ends.enter_context(
            subprocess.Popen(command, env=variables, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        )
        pid = int(next(home.glob("servers/*/pid")).read_text().split()[0])
        yield Loop(process, pid, writes)


@contextmanager
def recorder(home: Path) -> Iterator[None]:
    """The collector, which reads the store's windows and the programs' while the loops run."""
    command = [sys.executable, "-m", "weir.cli", "interference", "record", "--counts", "client"]
    process = subprocess.Popen(
        [*command, "--to", str(home / "recorded")],
        env={**os.environ, "WEIR_HOME": str(home)},
        stdout=subprocess.DEVNULL,
    )
    try:
        # Its imports are over when the first windows could come.
        time.sleep(2)
        yield
    finally:
        process.terminate()
        process.wait()


def measured_round(program: Path, folder: Path, block: tuple[int, int]) -> dict[str, Cost]:
    """The medians of each loop's turns in one round."""
    with ExitStack() as ends:
        loops = {
            name: ends.enter_context(loop(program, folder / name, block, has_windows=name == "windows"))
            for name in ("without", "again", "windows")
        }
        time.sleep(SETTLED_SECONDS)
        costs: dict[str, list[Cost]] = {name: [] for name in loops}
        for turn in range(TURNS):
            order = list(loops)
            for name in order[turn % 3 :] + order[: turn % 3]:
                costs[name].append(loops[name].turn())
    return {name: median(of_loop) for name, of_loop in costs.items()}


def median(costs: list[Cost]) -> Cost:
    """The median of each kind of cost."""
    wall, program, server = (statistics.median(getattr(each, kind) for each in costs) for kind in KINDS)
    return Cost(wall, program, server)


def overhead(rounds: list[dict[str, Cost]], name: str, kind: str) -> float:
    """The median over rounds of a loop's cost above that of the loop without windows, in percent."""
    ratios: list[float] = [getattr(costs[name], kind) / getattr(costs["without"], kind) for costs in rounds]
    return 100 * (statistics.median(ratios) - 1)


def measure(directory: Path) -> Mapping[str, float | None]:
    """Measure the part `overhead` of the benchmark of interference.

    Args:
        directory: A fresh directory.

    Returns:
        The figures.
    """
    with tempfile.TemporaryDirectory(prefix="weir-overhead-", dir="/dev/shm") as windows:
        # The table of this user's windows may be full of other stores' jobs.
        os.environ["WEIR_WINDOWS"] = windows
        return _measured(directory)


def _measured(directory: Path) -> dict[str, float | None]:
    program = compiled("_write_loop", directory)
    figures: dict[str, float | None] = {}
    for words, block in LOOPS.items():
        rounds: list[dict[str, Cost]] = []
        for number in range(ROUNDS):
            folder = directory / f"{block[0]}-{number}"
            folder.mkdir()
            rounds.append(measured_round(program, folder, block))
        key = words.replace(" ", "").lower()
        for kind in ("processor", "program", "server", "wall"):
            figures[f"overhead_{key}_{kind}_percent"] = overhead(rounds, "windows", kind)
            figures[f"noise_{key}_{kind}_percent"] = overhead(rounds, "again", kind)
        without = statistics.median(costs["without"].processor for costs in rounds) * 1e6
        print(f"{words} writes: {without:.2f} us of processors each without windows; asked: below 1 % more with them")
        for kind in ("processor", "program", "server", "wall"):
            more, alike = (figures[f"{what}_{key}_{kind}_percent"] for what in ("overhead", "noise"))
            print(f"    {kind:10} {more:+6.2f} % with windows   {alike:+6.2f} % of two alike", flush=True)
    found = [figures[f"overhead_{key}_processor_percent"] for key in ("4kib", "1mib")]
    figures["collection_overhead_percent"] = max((each for each in found if each is not None), default=math.nan)
    return figures


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="weir-overhead-") as fresh:
        finish("interference_overhead", measure(Path(fresh)))
