"""Jobs by themselves on the idle system: what a slowdown compares with.

A job alone has the machines, the layouts and the allocator of its scenario, yet no policy, no grants, no faults and no
neighbours. Jobs of one shape (the same steps on the same files by as many processes) take one run.
"""

import hashlib
import json
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from typing import Any

import numpy
from numpy.typing import NDArray

from weir.simulation.engine import Prepared, simulate

_IDLE: dict[str, Any] = {
    "policy": "fifo",
    "scheduler": None,
    "entitlements": [],
    "faults": [],
    "exchange_loss": 0.0,
    "sample_seconds": 0.0,
    "until_seconds": None,
}
"""The settings of a system that regulates nothing and keeps no series."""


@dataclass(frozen=True, slots=True)
class Alone:
    """A job by itself."""

    seconds: float
    """Time from its arrival to the end of its last step."""
    busy_seconds: float
    """Time in which any of its streams was in any step but a pause or a barrier."""


class Baseline:
    """The runs of jobs alone, kept for all scenarios that share jobs and machines."""

    def __init__(self, *, threads: int | None = None) -> None:
        """Keep nothing yet.

        Args:
            threads: Runs at once.  By default one for each processor.
        """
        self._threads = threads or os.cpu_count() or 1
        self._known: dict[bytes, Alone] = {}

    def of_jobs(
        self, prepared: Prepared, *, progress: Callable[[int, int], object] | None = None
    ) -> list[Alone | None]:
        """Run each job of a scenario alone, those of one shape once.

        Args:
            progress: Called with the number of runs done, and of all; a KeyboardInterrupt that it raises ends the runs.

        Returns:
            For each job, in the order of the workload, its figures; None for a job that did not end alone.

        Raises:
            SimulationError: The engine refuses a job alone.
            KeyboardInterrupt: The user ended the runs.
        """
        keys: list[bytes] = []
        missing: dict[bytes, Prepared] = {}
        for job in _jobs(prepared):
            key = _key(job)
            keys.append(key)
            if key not in self._known:
                missing.setdefault(key, job)
        self._run(missing, progress)
        return [self._known.get(key) for key in keys]

    def _run(self, jobs: dict[bytes, Prepared], progress: Callable[[int, int], object] | None) -> None:
        is_over = threading.Event()

        def watch(*_: object) -> None:
            if is_over.is_set():
                raise KeyboardInterrupt

        with ThreadPoolExecutor(self._threads) as pool:
            try:
                runs: dict[Future[Alone | None], bytes] = {
                    pool.submit(_run_alone, job, watch): key for key, job in jobs.items()
                }
                for done, run in enumerate(as_completed(runs), start=1):
                    answer = run.result()
                    if answer is not None:
                        self._known[runs[run]] = answer
                    if progress is not None:
                        progress(done, len(runs))
            finally:
                # Runs under way end at their next report, and those that wait do not begin.
                is_over.set()
                pool.shutdown(cancel_futures=True)


def _run_alone(job: Prepared, watch: Callable[..., None]) -> Alone | None:
    watch()
    (only,) = simulate(job, progress=watch).jobs
    return Alone(only.ended_seconds, only.busy_seconds) if only.is_complete else None


def _key(job: Prepared) -> bytes:
    digest = hashlib.blake2b(json.dumps(job.document, sort_keys=True).encode(), digest_size=16)
    for name in sorted(job.steps):
        digest.update(job.steps[name].tobytes())
    return digest.digest()


def _jobs(prepared: Prepared) -> Iterator[Prepared]:
    """The scenario of each job alone."""
    workload, steps = prepared.document["workload"], prepared.steps
    jobs = len(workload["jobs"])
    job_of_stream = numpy.array([stream["job"] for stream in workload["streams"]], numpy.uint32)
    streams_by_job = numpy.argsort(job_of_stream, kind="stable")
    stream_bounds = numpy.searchsorted(job_of_stream[streams_by_job], numpy.arange(jobs + 1))
    job_of_step = job_of_stream[steps["stream"]]
    steps_by_job = numpy.argsort(job_of_step, kind="stable")
    step_bounds = numpy.searchsorted(job_of_step[steps_by_job], numpy.arange(jobs + 1))
    for number in range(jobs):
        streams = streams_by_job[stream_bounds[number] : stream_bounds[number + 1]]
        own = steps_by_job[step_bounds[number] : step_bounds[number + 1]]
        yield _alone(prepared, number, streams, {name: column[own] for name, column in steps.items()})


def _alone(
    prepared: Prepared, number: int, streams: "NDArray[numpy.intp]", steps: "dict[str, NDArray[Any]]"
) -> Prepared:
    from weir.simulation.workload import Kind

    document, workload = prepared.document, prepared.document["workload"]
    has_file = ~numpy.isin(steps["kind"], [Kind.COMPUTE, Kind.BARRIER])
    files, places = numpy.unique(steps["file"][has_file], return_inverse=True)
    steps["stream"] = numpy.searchsorted(streams, steps["stream"]).astype(numpy.uint32)
    steps["file"] = numpy.zeros_like(steps["file"])
    steps["file"][has_file] = places
    nodes = [workload["streams"][stream]["node"] for stream in streams]
    if not any(stage["side"] == "client" for stage in document["topology"].get("routers", [])):
        # All nodes are alike, so jobs on other nodes have the same shape.
        nodes = numpy.unique(nodes, return_inverse=True)[1].tolist()
    job = {**workload["jobs"][number], "name": "alone", "user": "alone", "group": "alone", "arrival_seconds": 0.0}
    alone = {
        "jobs": [job],
        "streams": [{"job": 0, "node": node} for node in nodes],
        "files": [_file(workload["files"][file], number, place, steps) for place, file in enumerate(files)],
        "steps": [],
    }
    return Prepared({**document, **_IDLE, "workload": alone}, steps)


def _file(file: dict[str, Any], job: int, place: int, steps: "dict[str, NDArray[Any]]") -> dict[str, Any]:
    """A file of a job alone; the file of another job was there before, as long as the job reads it."""
    if file["job"] == job:
        return {**file, "job": 0}
    touched = steps["file"] == place
    ends = (steps["offset"] + steps["bytes"])[touched]
    return {**file, "job": 0, "bytes": max(int(file.get("bytes", 0)), int(ends.max(initial=0)))}
