"""Runs of one representative alone, and of two beside each other; the factors of all pairs."""

import contextlib
import itertools
import json
import os
import re
import select
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import IO

from weir.provisioning.behaviour.classes import BehaviourClass
from weir.provisioning.errors import ProvisioningError
from weir.provisioning.pairwise import shape
from weir.provisioning.pairwise.load import Specification
from weir.provisioning.sharing.interference_factors import Factor, FactorTable

PROCESSES_MAX = 1024
_READY_SECONDS = 120.0
"""Longest time until the processes have made their files, on a busy machine."""
_END_SECONDS = 60.0
"""Longest time until a job has ended after its time: one call of each process is still under way."""
_KILL_SECONDS = 5.0
_HEAD_START_SECONDS = 0.2
"""Time between the last job that is ready and the moment from which all times count."""
_WARM_PART = 0.2
_LENGTHS = (1, 5, 25)
"""Lengths of the attempts at a run, in those that were asked for: calls on slow or busy storage are long."""
_COUNTED = re.compile(r"error: \d+ of \d+ processes failed")
"""The last word of a job that failed."""
_NUMBERED = re.compile(r"^error: process \d+: ")
"""Beginning of the words of a process that failed."""
_WORDS_MAX = 300

Progress = Callable[[int, int], None]
"""Called with the number of runs that are done, and of all."""


@dataclass(frozen=True)
class Node:
    """A node that runs jobs: a way to start a program there."""

    launcher: tuple[str, ...] = ()
    """Words ahead of the program, such as `srun -w node1`; empty is this machine."""
    processors: tuple[int, ...] = ()
    """Processors of this machine that stand for the node; empty leaves them to the system."""


@dataclass(frozen=True)
class Experiment:
    """The conditions of all runs."""

    folder: Path
    """An empty folder on the storage, as the jobs see it."""
    environments: tuple[Mapping[str, str], Mapping[str, str]]
    """Variables of the first and the second job of a pair."""
    nodes: tuple[Node, Node]
    """The node of both jobs where they share one, and the node of the second job where they do not."""
    seconds: float
    rounds: int


@dataclass(frozen=True)
class _Job:
    """A job of a run."""

    name: str
    shape: shape.Shape
    environment: Mapping[str, str]
    node: Node


def factors(
    classes: Sequence[BehaviourClass], scales: Sequence[int], experiment: Experiment, progress: Progress
) -> tuple[Factor, ...]:
    """Run every pair of classes, on one node and on two, and compare with runs alone of the same round.

    Args:
        classes: The classes, by the jobs in their middle.
        scales: Numbers of processes of each job.
        progress: Called behind each run.

    Returns:
        For each ordered pair, placement and scale the median of the rounds.

    Raises:
        ProvisioningError: A run failed; no process of it is left.
    """
    shapes = {each.name: shape.of(each.centre) for each in classes}
    pairs = list(itertools.combinations_with_replacement(shapes, 2))
    total = len(scales) * experiment.rounds * (2 * len(pairs) + 2 * len(shapes))
    done = itertools.count(1)
    found: dict[tuple[str, str, bool, int], list[float]] = {}
    first, second = experiment.environments
    here, there = experiment.nodes

    def run(jobs: Sequence[_Job], processes: int, seed: int) -> list[float]:
        for length in _LENGTHS:
            seconds = experiment.seconds * length
            rates = _run(jobs, processes, seed, replace(experiment, seconds=seconds))
            if all(rates):
                progress(next(done), total)
                return rates
        name = next(job.name for job, rate in zip(jobs, rates, strict=True) if not rate)
        raise ProvisioningError(f"no call of {name} ended within {seconds:g} s", hint="give more `seconds`")

    for processes, turn in itertools.product(scales, range(experiment.rounds)):
        for same_node in (True, False):
            other_node = here if same_node else there
            # The order in which a job of a pair is compared does not matter, so that one run alone serves both.
            alone = {name: run([_Job(name, each, first, here)], processes, turn)[0] for name, each in shapes.items()}
            for one, other in pairs:
                jobs = [_Job(one, shapes[one], first, here), _Job(other, shapes[other], second, other_node)]
                beside = run(jobs, processes, turn)
                for (name, neighbour), rate in zip(((one, other), (other, one)), beside, strict=True):
                    found.setdefault((name, neighbour, same_node, processes), []).append(alone[name] / rate)
    return tuple(
        Factor(
            one=one,
            other=other,
            same_node=same_node,
            processes=processes,
            slowdown=round(max(1.0, statistics.median(each)), 3),
            runs=len(each),
            slowdown_max=round(max(1.0, *each), 3),
        )
        for (one, other, same_node, processes), each in sorted(found.items())
    )


def table(found: Sequence[Factor], *, source: str, conditions: str) -> FactorTable:
    """Make the document.

    Args:
        source: Origin of the classes and factors.
        conditions: The machine, the storage and the lengths of the runs, in words.
    """
    return FactorTable(source=source, conditions=conditions, factors=tuple(found))


def processor_nodes() -> tuple[Node, Node]:
    """Divide this machine's processors into two nodes; with one processor both are the same."""
    usable = sorted(os.sched_getaffinity(0))
    half = max(1, len(usable) // 2)
    return Node(processors=tuple(usable[:half])), Node(processors=tuple(usable[half:] or usable))


@contextlib.contextmanager
def folder_on(path: Path) -> Iterator[Path]:
    """Make a folder for the runs, for the length of a block.

    Args:
        path: A folder on the storage.

    Yields:
        The folder.

    Raises:
        ProvisioningError: It cannot be made.
    """
    try:
        made = Path(tempfile.mkdtemp(prefix="weir-pairs-", dir=path))
    except OSError as error:
        raise ProvisioningError(f"{path}: {error.strerror}", hint="name a folder that you may write") from error
    try:
        yield made
    finally:
        shutil.rmtree(made, ignore_errors=True)


def _run(jobs: Sequence[_Job], processes: int, seed: int, experiment: Experiment) -> list[float]:
    """Calls a second of each job, 0 where none ended; all of them work at the same time."""
    warm = experiment.seconds * _WARM_PART
    work = Specification("", processes, {}, experiment.seconds, warm, seed)
    with contextlib.ExitStack() as ends:
        loads = []
        for number, job in enumerate(jobs):
            own = replace(
                work,
                folder=str(experiment.folder / f"{time.monotonic_ns()}-{number}"),
                shape=asdict(job.shape),
                seed=seed * len(jobs) + number,
                processors=job.node.processors,
            )
            loads.append(ends.enter_context(_started(job, own)))
        deadline = time.monotonic() + _READY_SECONDS
        for load in loads:
            load.wait_until_ready(deadline)
        epoch = time.monotonic() + _HEAD_START_SECONDS
        for load in loads:
            load.begin(epoch)
        counts = [load.count(epoch + experiment.seconds + _END_SECONDS) for load in loads]
    return [count / (experiment.seconds - warm) for count in counts]


@contextlib.contextmanager
def _started(job: _Job, work: Specification) -> Iterator["_Load"]:
    """The processes of a job. None of them is left behind the block."""
    command = [*job.node.launcher, sys.executable, "-m", "weir.provisioning.pairwise.load", json.dumps(asdict(work))]
    with tempfile.TemporaryFile("w+") as words:
        try:
            process = subprocess.Popen(
                command,
                env={**job.environment, "OMP_NUM_THREADS": "1"},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=words,
                text=True,
                errors="replace",
                # One session holds all processes of the job, so that one signal ends them.
                start_new_session=True,
            )
        except OSError as error:
            raise ProvisioningError(f"cannot start {command[0]}: {error.strerror}", hint="is it on PATH?") from error
        load = _Load(job, process, words)
        try:
            yield load
        finally:
            load.end()
            _pipe(process.stdout).close()
            if process.stdin is not None:
                process.stdin.close()


@dataclass
class _Load:
    """A job that runs."""

    job: _Job
    process: "subprocess.Popen[str]"
    words: IO[str]
    """Its standard error."""

    def end(self) -> None:
        """End every process that has not ended."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            if self.process.poll() is None or number == signal.SIGKILL:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(self.process.pid, number)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self.process.wait(timeout=_KILL_SECONDS)

    def wait_until_ready(self, deadline: float) -> None:
        """Wait for the files of all processes."""
        ready, _, _ = select.select([_pipe(self.process.stdout)], [], [], max(0.0, deadline - time.monotonic()))
        if not ready or _pipe(self.process.stdout).readline() != "ready\n":
            self.end()
            raise self._failure()

    def begin(self, epoch: float) -> None:
        """Tell the moment from which times count."""
        _pipe(self.process.stdin).write(f"{epoch}\n")
        _pipe(self.process.stdin).close()
        self.process.stdin = None

    def count(self, deadline: float) -> int:
        """The calls that ended in the time."""
        try:
            output, _ = self.process.communicate(timeout=max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            raise ProvisioningError(
                f"{self.job.name} did not end within {_END_SECONDS:.0f} s of its time", hint="give a faster storage"
            ) from None
        if self.process.returncode != 0:
            raise self._failure()
        return int(json.loads(output)["calls"])

    def _failure(self) -> ProvisioningError:
        """The reason why the job ended too soon, in the last words of its processes."""
        self.words.seek(0)
        lines = [line.strip() for line in self.words.read().splitlines() if line.strip()]
        # The last line counts the processes that failed; one before tells why.
        told = [line for line in lines if not _COUNTED.fullmatch(line)] or lines or ["it said nothing"]
        words = _NUMBERED.sub("", told[-1])
        return ProvisioningError(
            f"{self.job.name} failed: {words[:_WORDS_MAX]}", hint="is there room, and may you write?"
        )


def _pipe(pipe: IO[str] | None) -> IO[str]:
    assert pipe is not None, "both streams of a job are pipes"
    return pipe
