"""`weir replay` beside the truth: the same load on the real store under each policy, each run recorded.

The record of a run under one policy is replayed under another one, and compared with the run under that one. The runs
under one policy are compared with each other, too: a replay cannot be nearer than these are.
"""

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from statistics import median

import weir.store
from _harness import WEIR, announce
from weir.history.counterfactual import Had, Replay, replay
from weir.history.reading import History

POLICIES = ("fifo", "size-fair", "job-fair")
REPEATED = "size-fair"
"""Policy under which each load runs twice."""
STRETCH_SECONDS = 10
LATER_SECONDS = 60
"""Longest time behind the stretch in which a job may end."""
END_SECONDS = 1.5
"""Time for which the end of the jobs is recorded."""
START_SECONDS = 3
"""Time until all processes of a load have started."""
WINDOW = "250ms"
SPEED = 'speed = { read = "64MB/s", write = "64MB/s", fixed = "1ms" }'
ENDING = ("steps", "reader")
"""Roles that end with their work."""
PROGRAM = Path(__file__).with_name("_history_program.py")


@dataclass(frozen=True)
class Member:
    """A job of a load."""

    name: str
    role: str
    processes: int
    nodes: int


LOADS: dict[str, tuple[Member, ...]] = {
    "a flood beside a simulation": (Member("hog", "flood", 6, 1), Member("simulation", "steps", 2, 4)),
    "an analysis beside checkpoints": (Member("checkpoints", "checkpoint", 4, 8), Member("analysis", "reader", 1, 2)),
    "three jobs": (
        Member("hog", "flood", 4, 1),
        Member("simulation", "steps", 2, 4),
        Member("analysis", "reader", 2, 2),
    ),
}


@dataclass(frozen=True)
class Run:
    """A load under a policy."""

    history: Path
    since: int
    until: int

    def replayed(self, policy: str) -> Replay:
        """The load under a policy, by the record of this run."""
        history = History(self.history)
        try:
            return replay(history, self.since, self.until, policy)
        finally:
            history.close()

    def had(self) -> dict[str, Had]:
        """The work and shares that the jobs had, by their names."""
        return {job.job: job.had for job in self.replayed("fifo").jobs}


@contextmanager
def recorded(home: Path, history: Path) -> Iterator[int]:
    """A recorder at work; its process."""
    command = [WEIR, "--home", str(home), "record", "--history", str(history)]
    recorder = subprocess.Popen([str(word) for word in command], stderr=subprocess.DEVNULL)
    try:
        yield recorder.pid
    finally:
        recorder.terminate()
        recorder.wait()


def run(directory: Path, load: str, policy: str) -> Run:
    """Bring a load to a store of its own.

    It is recorded until the jobs with an end of their own have ended: a replay may ask what the jobs did next.
    """
    directory.mkdir(parents=True)
    file, history = directory / "cluster.toml", directory / "history"
    target = f'[[server.target]]\nbackend = "ram"\ncapacity = "256MiB"\n{SPEED}\n'
    file.write_text(f'version = 1\npolicy = "{policy}"\nwindow = "{WINDOW}"\n[[server]]\n{target}')
    with (
        weir.store.up(file, home=directory / "home", mount=False) as store,
        ExitStack() as ends,
        recorded(store.home, history),
    ):
        begin = float(int(time.time()) + START_SECONDS)
        end = begin + STRETCH_SECONDS
        finite = []
        for member in LOADS[load]:
            environment = ends.enter_context(store.job(job=member.name, user=member.name, nodes=member.nodes))
            for number in range(member.processes):
                words = [sys.executable, str(PROGRAM), member.role, str(number), str(begin)]
                process = subprocess.Popen(words, env=environment)
                ends.callback(process.wait)
                ends.callback(process.kill)
                finite += [process] if member.role in ENDING else []
        while any(process.poll() is None for process in finite) and time.time() < end + LATER_SECONDS:
            time.sleep(0.1)
        time.sleep(max(end - time.time(), 0.0) + END_SECONDS)
    return Run(history, round(begin * 1000), round(end * 1000))


def distances(first: dict[str, Had], second: dict[str, Had]) -> dict[str, float]:
    """How far the jobs of two runs are apart."""
    return {name: had.distance(second[name]) for name, had in first.items()}


def measure(directory: Path) -> dict[str, float]:
    """Compare replays with runs."""
    errors: list[float] = []
    same: list[float] = []
    changes: list[float] = []
    repeats: list[float] = []
    for load in LOADS:
        folder = directory / load.replace(" ", "-")
        runs = {policy: run(folder / policy, load, policy) for policy in POLICIES}
        truths = {policy: of_policy.had() for policy, of_policy in runs.items()}
        repeats += distances(truths[REPEATED], run(folder / "again", load, REPEATED).had()).values()
        for source, policy in product(POLICIES, POLICIES):
            would = {job.job: job.would_have for job in runs[source].replayed(policy).jobs}
            found = distances(truths[policy], would)
            (same if source == policy else errors).extend(found.values())
            changes += distances(truths[source], truths[policy]).values()
            for name, error in found.items():
                had, real, told = (
                    each[name].bytes_per_second(STRETCH_SECONDS) / 1e6
                    for each in (truths[source], truths[policy], would)
                )
                beside = f"{real:.2f} MB/s; {had:.2f} recorded under {source}"
                announce(f"{load}: {name} under {policy}", f"{told:.2f} MB/s", beside, 1 + error)
    return {
        "replay_error_max": max(errors),
        "replay_error_median": median(errors),
        "replay_error_same_policy_max": max(same),
        "replay_change_max": max(changes),
        "replay_repeat_error_max": max(repeats),
    }
