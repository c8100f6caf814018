"""The common part of benchmarks: a store in a directory, loads that begin together, and the output of figures."""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from types import TracebackType

import weir
from weir.experiments import provenance
from weir.experiments.provenance import machine

ROOT = Path(__file__).resolve().parent.parent
WEIR = Path(sys.executable).with_name("weir")
OUT = ROOT / "benchmarks/out"
MEASURED = OUT / "measured.jsonl"
"""Every figure that benchmarks measured, a run a line, the newest last."""
WAIT_SECONDS = 600
TEST_SECONDS = 3600
"""Longest time of a test with its build, on a busy machine."""


@dataclass(frozen=True)
class Result:
    """The result of one load."""

    operations: int
    seconds: float

    @property
    def rate(self) -> float:
        """Operations a second."""
        return self.operations / self.seconds


class Store:
    """A store with a mount, brought up for the duration of a block."""

    def __init__(
        self,
        directory: Path,
        *,
        servers: int | None = None,
        targets: int | None = None,
        capacity: str | None = None,
        is_mounted: bool = True,
    ) -> None:
        self.home = directory / "home"
        self.mount = self.home / "mnt"
        self._bring_up = partial(
            weir.store.up, home=self.home, servers=servers, targets=targets, capacity=capacity, mount=is_mounted
        )
        self._ends = ExitStack()

    def __enter__(self) -> "Store":
        # Programs run on the store by `weir run`, which finds it here.
        os.environ["WEIR_HOME"] = str(self.home)
        store = self._ends.enter_context(self._bring_up())
        for notice in store.notices:
            print(f"{notice.words}; {notice.hint}", file=sys.stderr)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ends.close()

    def run(self, command: Sequence[object]) -> list[object]:
        """Makes `command` a job of its own on the fast path."""
        return [WEIR, "run", "--", *command]

    def servers(self) -> list[int]:
        """Process ids of the servers, by number."""
        return [int(path.read_text().split()[0]) for path in sorted(self.home.glob("servers/*/pid"))]


def run_weir(environment: Mapping[str, str], *words: str) -> str:
    """Run a command of `weir` on the store that `environment` names, and return its output."""
    answer = subprocess.run(
        [WEIR, *words], env=environment, check=True, stdout=subprocess.PIPE, text=True, timeout=WAIT_SECONDS
    )
    return answer.stdout


def compiled(name: str, directory: Path) -> Path:
    """Compiles the program of `benchmarks/NAME.c`."""
    program = directory / name
    source = ROOT / f"benchmarks/{name}.c"
    subprocess.run(["cc", "-O2", "-Wall", "-Werror", "-o", program, source], check=True)
    return program


class Loads:
    """Loads that tell when they are ready, wait for the end of their input, and so begin together."""

    def __init__(self, commands: Sequence[Sequence[object]], environment: Mapping[str, str] | None = None) -> None:
        self._loads = [
            subprocess.Popen(
                [str(word) for word in command],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                env=environment,
            )
            for command in commands
        ]
        for load in self._loads:
            assert load.stdout is not None
            if load.stdout.readline() != "ready\n":
                sys.exit(f"{load.args!r} did not start")

    def go(self) -> None:
        """Lets all of them begin."""
        for load in self._loads:
            assert load.stdin is not None
            load.stdin.close()
            load.stdin = None

    def results(self) -> list[Result]:
        """Waits for all of them."""
        results = []
        for load in self._loads:
            output, _ = load.communicate(timeout=WAIT_SECONDS)
            if load.returncode != 0:
                sys.exit(f"{load.args!r} failed with exit code {load.returncode}")
            operations, seconds = output.split()
            results.append(Result(int(operations), float(seconds)))
        return results


def together(commands: Sequence[Sequence[object]], environment: Mapping[str, str] | None = None) -> list[Result]:
    """Runs loads that begin at once."""
    loads = Loads(commands, environment)
    loads.go()
    return loads.results()


def announce(what: str, measured: str, beside: str, ratio: float) -> None:
    """Prints one line for people: a figure beside its limit or rival, and their ratio."""
    print(f"{what:20} {measured:>24}   beside {beside:32} {ratio:8.2f}", flush=True)


def commit() -> str:
    """The commit of the sources, with `-dirty` where they differ from it; `unknown` outside of a repository."""
    return provenance.commit(ROOT) or "unknown"


def finish(name: str, figures: Mapping[str, float | None]) -> None:
    """Writes the figures to `benchmarks/out/NAME.json` and prints them as the last line; None was not measured.

    `benchmarks/out/measured.jsonl` gets the same line behind those of earlier runs, so that the run of one part hides
    no figure of another.
    """
    OUT.mkdir(exist_ok=True)
    rounded = {key: None if value is None else float(f"{value:.4g}") for key, value in figures.items()}
    run = {"machine": machine(), "date": time.strftime("%Y-%m-%d"), "commit": commit()}
    text = json.dumps({**rounded, **run})
    (OUT / f"{name}.json").write_text(text + "\n")
    kept = {"benchmark": Path(sys.argv[0]).stem, **run, "figures": rounded}
    with MEASURED.open("a") as file:
        file.write(json.dumps(kept) + "\n")
    print(text)


def measure_parts(
    name: str, parts: Mapping[str, tuple[str, Sequence[str]]], measure: Callable[[str], Mapping[str, float | None]]
) -> None:
    """Measures the parts that the arguments name, or all, and finishes with their figures and durations.

    `parts` has the module of each part, for errors, and the figures that it owes. Those of parts that did not run are
    None. The figures of each part are printed when it ends, so that they outlive a failure of a later one.
    """
    unknown = set(sys.argv[1:]) - parts.keys()
    if unknown:
        sys.exit(f"error: no part is named {', '.join(sorted(unknown))}\nhint: the parts are {', '.join(parts)}")
    figures: dict[str, float | None] = dict.fromkeys(figure for _, owed in parts.values() for figure in owed)
    for part in sys.argv[1:] or list(parts):
        module, owed = parts[part]
        begin = time.monotonic()
        told = measure(part)
        missing = [figure for figure in owed if figure not in told]
        if missing:
            sys.exit(f"error: {module} did not measure {', '.join(missing)}")
        seconds = time.monotonic() - begin
        print(f"{part} took {seconds:.0f} s: {json.dumps(dict(told))}", flush=True)
        figures |= {**told, f"{part.replace('-', '_')}_part_seconds": seconds}
    finish(name, figures)


def measured_by(module: str, function: str = "measure") -> Mapping[str, float | None]:
    """The figures of one part, whose function takes a fresh directory.

    The module is imported when its part runs, so a part needs the packages of no other.
    """
    measure: Callable[[Path], Mapping[str, float | None]] = getattr(import_module(module), function)
    with tempfile.TemporaryDirectory(prefix="weir-bench-") as directory:
        return measure(Path(directory))


def told_by_test(name: str, prefix: str) -> dict[str, float]:
    """The figures that a test of the server prints as JSON behind a prefix.

    Raises:
        RuntimeError: The test failed, or printed no such line, or several.
    """
    command = ["cargo", "test", "--quiet", "-p", "weir-server", "--test", "all", name, "--", "--nocapture"]
    answer = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=TEST_SECONDS, check=False)
    lines = [line.partition(prefix)[2] for line in answer.stdout.splitlines() if prefix in line]
    if answer.returncode != 0 or len(lines) != 1:
        raise RuntimeError(f"{' '.join(command)} gave {answer.returncode}:\n{answer.stdout}{answer.stderr}")
    figures: dict[str, float] = json.loads(lines[0])
    return figures
