"""Ten logs and runs with a planted fault each, and a run without: what `weir report` has to find.

The cases were written before the rules of `weir.report`. The faults of the logs are those that their sources describe.
"""

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import weir.store

_HERE = Path(__file__).resolve().parent
_PROGRAM = _HERE / "planted_program.py"
_LOGS = _HERE / "data/darshan"
_USUAL = 'read = "200MB/s", write = "200MB/s", fixed = "100us"'
_SLOW = 'read = "15MB/s", write = "15MB/s", fixed = "100us"'
_FLOODING = 6
"""Processes of the neighbour that floods."""
_SECONDS_MAX = 300


@dataclass(frozen=True, slots=True)
class Run:
    """A program on a store of four targets.

    Attributes:
        name: Name of the case.
        fault: The planted fault; empty where none is.
        role: The program, as `planted_program.py` names it.
        slow: Targets of the four that are slow.
        layout: Layout of the program's folder; empty for the store's own.
        is_flooded: Whether another job floods the store meanwhile.
    """

    name: str
    fault: str
    role: str
    slow: int = 0
    layout: str = ""
    is_flooded: bool = False


@dataclass(frozen=True, slots=True)
class Log:
    """A Darshan log.

    Attributes:
        name: Name of the case.
        fault: The fault by the log's source.
        file: Path below `tests/data/darshan`.
    """

    name: str
    fault: str
    file: str


RUNS = (
    Run("small writes", "small writes", "small_writes"),
    Run("unaligned writes", "unaligned", "unaligned_writes"),
    Run("random reads", "random reads", "random_reads"),
    Run("metadata storm", "metadata", "metadata_storm"),
    Run("slow target", "slow target", "many_files", slow=1),
    Run("flooding neighbour", "neighbour", "victim", layout="-c 1 -o 0.0", is_flooded=True),
    Run("one target", "one target", "many_files", layout="-c 1 -o 0.0"),
)
LOGS = (
    Log("IOR beside a slow OST", "slow target", "sample-badost.darshan"),
    Log(
        "IOR by calls of 1 KiB, each made durable", "small writes",
        "jobs/dbin_ior_id66184525-37486_1-22-67323-16349198698853775843_1.darshan",
    ),
    Log(
        "IOR that reads by calls of 1 KiB", "small reads",
        "jobs/dbin_ior_id66186284-26845_1-22-78692-9868598872249172998_1.darshan",
    ),
)  # fmt: skip
CLEAN = Run("clean", "", "clean", layout="-c -1 -S 4M")

RULES = {
    "small writes": "small-writes",
    "unaligned": "unaligned",
    "random reads": "random-reads",
    "metadata": "metadata",
    "slow target": "slow-target",
    "neighbour": "neighbour",
    "one target": "one-target",
    "small reads": "small-reads",
}
"""The rule that finds each planted fault."""


def reported(case: Run | Log) -> dict[str, Any]:
    """The report of a case, as `weir` gives it as JSON."""
    return _reported_log(_LOGS / case.file) if isinstance(case, Log) else _reported_run(case)


def _reported_log(log: Path) -> dict[str, Any]:
    answer = _weir("report", "--darshan", str(log), "--output", "json")
    return _object(answer.stdout)


def _reported_run(case: Run) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="weir-planted-") as folder, store_of(Path(folder), case) as store:
        page = Path(folder) / "report.json"
        command = ["--home", str(store.home), "run", "--prefix", "/weir", "--job", "planted"]
        with ExitStack() as ends:
            _weir(*command, "--", "mkdir", "/weir/work")
            if case.layout:
                setting = ("layout", "set", *case.layout.split(), "/weir/work")
                _weir(*command, "--", sys.executable, "-m", "weir.cli", *setting)
            if case.is_flooded:
                ends.enter_context(_flood(store))
            _weir(*command, "--report", str(page), "--", sys.executable, str(_PROGRAM), case.role, "/weir/work")
        return _object(page.read_text())


@contextmanager
def store_of(folder: Path, case: Run) -> Iterator[weir.store.Store]:
    """A store of one server and four targets, first come, first served."""
    speeds = [_SLOW] * case.slow + [_USUAL] * (4 - case.slow)
    targets = "".join(
        f'[[server.target]]\nbackend = "ram"\ncapacity = "192MiB"\nspeed = {{ {speed} }}\n' for speed in speeds
    )
    head = 'version = 1\npolicy = "fifo"\nwindow = "0.25s"\n[[server]]\nmetadata_speed = { fixed = "50us" }\n'
    file = folder / "cluster.toml"
    file.write_text(head + targets)
    with weir.store.up(file, home=folder / "home", mount=False) as store:
        try:
            yield store
        finally:
            store.down(discard=True)


@contextmanager
def _flood(store: weir.store.Store) -> Iterator[None]:
    with ExitStack() as ends, store.job(job="flood", user="bob") as environment:
        for _number in range(_FLOODING):
            process = subprocess.Popen([sys.executable, _PROGRAM, "flood", "/weir/work"], env=environment)
            ends.callback(process.wait)
            ends.callback(process.kill)
        time.sleep(1.0)
        yield


def _weir(*words: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "weir.cli", *words]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS_MAX, check=False)
    assert answer.returncode == 0, f"{words} gave {answer.returncode}\n{answer.stdout}{answer.stderr}"
    return answer


def _object(text: str) -> dict[str, Any]:
    found = json.loads(text)
    assert isinstance(found, dict)
    return found
