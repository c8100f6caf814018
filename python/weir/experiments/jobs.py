"""Jobs of real processes on a store: prepared one by one, started at one moment, sampled, and waited for."""

import contextlib
import itertools
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import ceil
from pathlib import Path
from typing import IO

from weir.experiments.sampling import Sampler
from weir.experiments.store import PREFIX, ExperimentError, Store
from weir.experiments.windows import Done, Sample

_READY_SECONDS = 120.0
"""Longest time until all processes of all jobs have opened their files, on a busy machine."""
_END_SECONDS = 60.0
"""Longest time until jobs have ended after their time: a request of each process is still under way."""
_KILL_SECONDS = 5.0
"""Longest time until a process has ended after a signal, and again after it was killed."""
_PIPE_BYTES = 65536
_HEAD_START_SECONDS = 0.3
"""Time between the last process that is ready and the moment from which all times count."""


@dataclass(frozen=True)
class Job:
    """One job: its identity, and the work of its processes."""

    name: str
    processes: int
    seconds: float
    """Length of the time in which it has work."""
    start_seconds: float = 0.0
    """Time of its first request, from the beginning of the experiment."""
    nodes: int = 1
    user: str = "user"
    group: str = "group"
    priority: int = 1
    request_bytes: int = 64 * 1024
    requests_per_file: int = 16
    targets: tuple[str, ...] = ()
    """Targets of its files, in turn, as `server.index`; without any, the store lays the files out."""

    @property
    def end_seconds(self) -> float:
        """Time at which it has no more work, from the beginning of the experiment."""
        return self.start_seconds + self.seconds


@dataclass
class Run:
    """A run of jobs on a store: samples of the servers' accounts, and the jobs' own counts."""

    jobs: list[Job]
    window_seconds: float
    samples: list[list[Sample]] = field(default_factory=list)
    """Samples at each edge of a window, one of each server."""
    polls: list[Sample] = field(default_factory=list)
    """All samples of the time that was requested, in their order."""
    done: dict[str, list[Done]] = field(default_factory=dict)
    """Counts of each job's processes in each window; the last window also holds the counts after it."""
    final: list[Sample] = field(default_factory=list)
    """Samples after the end of all jobs, one of each server."""


def run_jobs(
    store: Store,
    jobs: Sequence[Job],
    *,
    window_seconds: float = 1.0,
    poll_seconds: float = 0.0,
) -> Run:
    """Run jobs on a store, and sample its servers' accounts all the time; edges of windows are those of one clock.

    Args:
        store: A store that is up.
        jobs: The jobs; their names must differ.
        poll_seconds: Time from the beginning whose samples are all kept.

    Raises:
        ExperimentError: A job failed, or did not start or end in time. None of them is left.
        StoreError: A server does not answer.
    """
    windows = ceil(max(job.end_seconds for job in jobs) / window_seconds - 1e-9)
    run = Run(list(jobs), window_seconds)
    with contextlib.ExitStack() as stack:
        loads = {job.name: stack.enter_context(_load(store, job, window_seconds, windows + 1)) for job in jobs}
        deadline = time.monotonic() + _READY_SECONDS
        for name, load in loads.items():
            if _line(load, deadline) != "ready\n":
                _end(load)
                raise _failure(store, name, load.returncode)
        epoch = time.monotonic() + _HEAD_START_SECONDS
        for load in loads.values():
            _pipe(load.stdin).write(f"{epoch}\n")
            _pipe(load.stdin).close()
            load.stdin = None
        with Sampler(store, epoch) as sampler:
            time.sleep(max(0.0, epoch + windows * window_seconds - time.monotonic()))
            sampler.wait_for(windows * window_seconds)
        run.samples = [sampler.at(edge * window_seconds) for edge in range(windows + 1)]
        polls = itertools.chain.from_iterable(sampler.samples)
        run.polls = sorted(
            (poll for poll in polls if 0 <= poll.time_seconds < poll_seconds), key=lambda poll: poll.time_seconds
        )
        deadline = time.monotonic() + _END_SECONDS
        for name, load in loads.items():
            run.done[name] = _done(store, name, load, deadline)
    with Sampler(store, epoch) as sampler:
        sampler.wait_for(0.0)
    run.final = [taken[-1] for taken in sampler.samples]
    return run


def coarser(run: Run, factor: int) -> Run:
    """Join windows of a run; a last one that is not whole is left out.

    Args:
        factor: Number of windows that become one.

    Returns:
        The same run in longer windows.
    """
    samples = run.samples[::factor]
    done = {
        name: [_added(each[first : first + factor]) for first in range(0, len(each), factor)]
        for name, each in run.done.items()
    }
    return replace(run, window_seconds=run.window_seconds * factor, samples=samples, done=done)


def _added(parts: Sequence[Done]) -> Done:
    return Done(
        bytes_written=sum(part.bytes_written for part in parts),
        bytes_read=sum(part.bytes_read for part in parts),
        requests=sum(part.requests for part in parts),
        waited_nanoseconds=sum(part.waited_nanoseconds for part in parts),
    )


@contextlib.contextmanager
def _load(store: Store, job: Job, window_seconds: float, windows: int) -> Iterator[subprocess.Popen[str]]:
    """The processes of a job. None of them is left behind the block."""
    specification = {
        "folder": f"{PREFIX}/{job.name}",
        "processes": job.processes,
        "request_bytes": job.request_bytes,
        "requests_per_file": job.requests_per_file,
        "start_seconds": job.start_seconds,
        "seconds": job.seconds,
        "window_seconds": window_seconds,
        "windows": windows,
        "targets": job.targets,
    }
    with contextlib.ExitStack() as stack:
        environment = stack.enter_context(
            store.job(job.name, user=job.user, group=job.group, nodes=job.nodes, priority=job.priority)
        )
        log = stack.enter_context(_log(store, job.name).open("w"))
        load = subprocess.Popen(
            [sys.executable, "-m", "weir.experiments.load", json.dumps(specification)],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            # One session holds all processes of the job, so that one signal ends them.
            start_new_session=True,
        )
        try:
            yield load
        finally:
            _end(load)
            _pipe(load.stdout).close()
            if load.stdin is not None:
                load.stdin.close()


def _end(load: subprocess.Popen[str]) -> None:
    """End every process of a job that has not ended, and wait until all have."""
    output = _pipe(load.stdout)
    # Every process holds the pipe that the first one writes to, so its end is the end of the last of them.
    if output.closed:
        return
    for number in (signal.SIGTERM, signal.SIGKILL):
        if load.poll() is not None:
            break
        with contextlib.suppress(ProcessLookupError):
            os.killpg(load.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            load.wait(timeout=_KILL_SECONDS)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(load.pid, signal.SIGKILL)
    deadline = time.monotonic() + _KILL_SECONDS
    while select.select([output], [], [], max(0.0, deadline - time.monotonic()))[0]:
        if not os.read(output.fileno(), _PIPE_BYTES):
            break


def _line(load: subprocess.Popen[str], deadline: float) -> str:
    """The next line that a job prints; empty where it ended or the time is over."""
    ready, _, _ = select.select([_pipe(load.stdout)], [], [], max(0.0, deadline - time.monotonic()))
    return _pipe(load.stdout).readline() if ready else ""


def _done(store: Store, name: str, load: subprocess.Popen[str], deadline: float) -> list[Done]:
    """The counts that a job prints."""
    try:
        output, _ = load.communicate(timeout=max(0.0, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        raise ExperimentError(
            f"job {name} did not end within {_END_SECONDS:.0f} s of its time", hint="choose a higher `speed`"
        ) from None
    if load.returncode != 0:
        raise _failure(store, name, load.returncode)
    return [Done(**window) for window in json.loads(output)]


def _failure(store: Store, name: str, code: int) -> ExperimentError:
    """The reason why a job ended too soon, in the last words of its processes."""
    lines = [line.strip() for line in _log(store, name).read_text().splitlines() if line.strip()]
    words = lines[-1].removeprefix("error:").strip() if lines else "it said nothing"
    return ExperimentError(f"job {name} ended with code {code}: {words}")


def _log(store: Store, name: str) -> Path:
    """The log of a job's processes."""
    return store.folder / f"{name}.log"


def _pipe(pipe: IO[str] | None) -> IO[str]:
    assert pipe is not None, "both streams of a job are pipes"
    return pipe
