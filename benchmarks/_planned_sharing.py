"""Four ways of sharing storage, as in figure 10 of LuxIO: turnaround, and the storage that each way holds.

    python _planned_sharing.py [FILES]                         one round; the last line is one JSON object
    python _planned_sharing.py KERNEL FOLDER SECONDS FILES     the processes of a job

One VPIC-IO and two DNDC run on rate-limited targets. VPIC computes and writes in turn; DNDC reads 64,000 small files,
as in the paper. *Serial*: each job waits for the one before, and has all targets. *Parallel*: all of them run on all
targets. *Partition*: each has targets of its own. *Sharing*: the policy `interference` places each job by slowdowns
that are measured here, on as few stores as the threshold allows, and jobs that share start one after the other.
"""

import json
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

from weir.experiments.store import PREFIX, Store
from weir.provisioning.objectives.sslos import Guarantees, Semantics
from weir.provisioning.sharing.interference_factors import Factor, FactorTable, Neighbour
from weir.provisioning.sharing.leases import Existing, Sharer, joined
from weir.provisioning.sharing.policies import Candidate, Request, choose

TARGETS = 8
SPEED, FIXED_TIME = "16MB/s", "1ms"
"""Slow enough that two processors, which run servers and jobs alike, are not the limit."""
SHARED_PARTS = {"store-0": 3, "store-1": 3, "store-2": 2}
"""Targets of the stores that may be made for the sharing jobs, the fastest first."""
PROBED_TARGETS = 3
PARTITION = {"vpic": 4, "dndc-1": 2, "dndc-2": 2}
SLOWDOWN_MAX = 1.5
"""Threshold of every job: half as long again as alone."""
JOBS = ("vpic", "dndc-1", "dndc-2")
FILES, FILE_BYTES, FOLDERS = 64_000, 2048, 64
"""The files of DNDC in the paper. With fewer files VPIC has fewer steps, in the same proportion."""
STEPS, COMPUTE_SECONDS, STEP_BYTES, CALL_BYTES = 12, 1.5, 128 << 20, 1 << 20
PROCESSES = {"vpic": 4, "dndc": 2}
PROBE_SECONDS = 6.0
"""Length of the runs that slowdowns are measured by."""
WAIT_SECONDS = 900.0


# The jobs.


def content(number: int) -> bytes:
    """The bytes of a small file."""
    return random.Random(number).randbytes(32) * (FILE_BYTES // 32)


def vpic(folder: Path, process: int, until: float | None, files: int) -> int:
    """Computes and writes, step by step; all processes have one file."""
    payload, done = os.urandom(CALL_BYTES), 0
    share = STEP_BYTES // PROCESSES["vpic"] // CALL_BYTES
    file = os.open(folder / "particles", os.O_WRONLY | os.O_CREAT, 0o600)
    for _ in range(max(1, STEPS * files // FILES)):
        # The compute nodes are not this machine.
        time.sleep(COMPUTE_SECONDS)
        for call in range(share):
            if until is not None and time.monotonic() >= until:
                return done
            if os.pwrite(file, payload, (process * share + call) * CALL_BYTES) != CALL_BYTES:
                raise OSError("a write was short")
            done += 1
    os.close(file)
    return done


def dndc(folder: Path, process: int, until: float | None, files: int) -> int:
    """Reads small files in random order, and compares the first bytes."""
    numbers = list(range(process, files, PROCESSES["dndc"]))
    random.Random(process).shuffle(numbers)
    for done, number in enumerate(numbers):
        if until is not None and time.monotonic() >= until:
            return done
        with (folder / str(number % FOLDERS) / str(number)).open("rb", buffering=0) as file:
            found = file.read(FILE_BYTES)
        if len(found) != FILE_BYTES or found[:4] != number.to_bytes(4):
            raise OSError(f"file {number} is not what was written")
    return len(numbers)


def make_files(folder: Path, process: int, until: float | None, files: int) -> int:
    """Makes the small files, ahead of the measurement."""
    for number in range(process, files, 8):
        place = folder / str(number % FOLDERS)
        place.mkdir(exist_ok=True)
        (place / str(number)).write_bytes(number.to_bytes(4) + content(number)[4:])
    return files


KERNELS: dict[str, tuple[Callable[[Path, int, float | None, int], int], int]] = {
    "vpic": (vpic, PROCESSES["vpic"]),
    "dndc": (dndc, PROCESSES["dndc"]),
    "make-files": (make_files, 8),
}


def run_kernel(name: str, folder: Path, seconds: float, files: int) -> None:
    """The processes of a job: ready, then from the end of the input on, then the calls and their time are printed."""
    work, processes = KERNELS[name]
    folder.mkdir(parents=True, exist_ok=True)
    print("ready", flush=True)
    sys.stdin.read()
    began = time.monotonic()
    until = began + seconds if seconds else None
    with multiprocessing.get_context("fork").Pool(processes) as pool:
        done = pool.starmap(work, [(folder, process, until, files) for process in range(processes)])
    print(json.dumps({"calls": sum(done), "seconds": time.monotonic() - began}))


# The ways of sharing.


@dataclass(frozen=True)
class Start:
    """A job on a store."""

    job: str
    store: Store
    files: int
    after_seconds: float = 0.0

    @property
    def kernel(self) -> str:
        """The kernel of the job."""
        return self.job.partition("-")[0]


def started(start: Start, ends: ExitStack, seconds: float = 0.0, kernel: str = "") -> "subprocess.Popen[str]":
    """A job that is ready."""
    environment = ends.enter_context(start.store.job(start.job, user="user", group="group", nodes=1, priority=1))
    command = [
        sys.executable,
        __file__,
        kernel or start.kernel,
        f"{PREFIX}/{start.job}",
        str(seconds),
        str(start.files),
    ]
    load = subprocess.Popen(
        command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    ends.callback(end, load)
    assert load.stdout is not None
    if load.stdout.readline() != "ready\n":
        raise RuntimeError(f"{start.job} did not start")
    return load


def end(load: "subprocess.Popen[str]") -> None:
    """End the processes of a job that has not ended; they have one session."""
    if load.poll() is None:
        with suppress(ProcessLookupError):
            os.killpg(load.pid, signal.SIGKILL)
        load.wait(timeout=WAIT_SECONDS)


def together(starts: Sequence[Start], seconds: float = 0.0, kernel: str = "") -> dict[str, dict[str, float]]:
    """Run jobs at the same time; the end of each counts from the common begin."""
    with ExitStack() as ends:
        loads = {start: started(start, ends, seconds, kernel) for start in starts}
        began = time.monotonic()
        for start in sorted(loads, key=lambda each: each.after_seconds):
            time.sleep(max(0.0, began + start.after_seconds - time.monotonic()))
            stdin = loads[start].stdin
            assert stdin is not None
            stdin.close()
            loads[start].stdin = None
        found = {}
        for start, load in loads.items():
            output, _ = load.communicate(timeout=WAIT_SECONDS)
            if load.returncode != 0:
                raise RuntimeError(f"{start.job} failed with {load.returncode}")
            told = json.loads(output)
            found[start.job] = {**told, "end": start.after_seconds + told["seconds"]}
        return found


def store(targets: int) -> Store:
    """A store of so many rate-limited targets."""
    return Store(
        policy="size-fair", targets=targets, speed=SPEED, fixed_time=FIXED_TIME, capacity=f"{4096 // targets}MiB"
    )


def prepare(place: Store, jobs: Sequence[str], files: int) -> None:
    """Make the small files of the jobs that read some."""
    for job in jobs:
        if job.startswith("dndc"):
            together([Start(job, place, files)], kernel="make-files")


def serial(files: int) -> tuple[float, float]:
    """The times at which the jobs end on average and at last, one after the other on all targets."""
    ends, last = [], 0.0
    with store(TARGETS) as place:
        prepare(place, JOBS, files)
        for job in JOBS:
            last += together([Start(job, place, files)])[job]["seconds"]
            ends.append(last)
    return sum(ends) / len(ends), last


def parallel(files: int) -> tuple[float, float]:
    """The same for all jobs at once on all targets."""
    with store(TARGETS) as place:
        prepare(place, JOBS, files)
        ends = [each["end"] for each in together([Start(job, place, files) for job in JOBS]).values()]
    return sum(ends) / len(ends), max(ends)


def partition(files: int) -> tuple[float, float]:
    """The same for each job on targets of its own."""
    with ExitStack() as stack:
        places = {job: stack.enter_context(store(targets)) for job, targets in PARTITION.items()}
        for job, place in places.items():
            prepare(place, [job], files)
        ends = [each["end"] for each in together([Start(job, place, files) for job, place in places.items()]).values()]
    return sum(ends) / len(ends), max(ends)


def measured_factors(place: Store, files: int) -> FactorTable:
    """Slowdowns of the kernels beside each other: calls a second alone over calls a second together."""
    alone = {job: _rate(together([Start(job, place, files)], PROBE_SECONDS)[job]) for job in JOBS[:2]}
    alone["dndc-2"] = alone["dndc-1"]
    factors: dict[tuple[str, str], float] = {}
    for pair in (("vpic", "dndc-1"), ("dndc-1", "dndc-2")):
        beside = together([Start(job, place, files) for job in pair], PROBE_SECONDS)
        for job, other in (pair, pair[::-1]):
            names = (job.partition("-")[0], other.partition("-")[0])
            factors[names] = max(factors.get(names, 1.0), alone[job] / _rate(beside[job]))
    return FactorTable(
        source="measured",
        conditions=f"{PROBED_TARGETS} targets, {SPEED}, {FIXED_TIME} a request",
        factors=tuple(
            Factor(one=one, other=other, same_node=True, processes=1, slowdown=slowdown)
            for (one, other), slowdown in factors.items()
        ),
    )


def _rate(told: dict[str, float]) -> float:
    return told["calls"] / told["seconds"]


def placed(factors: FactorTable) -> dict[str, str]:
    """The store of each job, by the policy `interference`, as the jobs come one after the other."""
    there: dict[str, Existing] = {}
    places: dict[str, str] = {}
    for job in JOBS:
        load = Neighbour(behaviour_class=job.partition("-")[0])
        semantics = Semantics(durable=False)
        request = Request(
            name=job,
            policy="interference",
            load=load,
            size_bytes=1 << 28,
            seconds=60.0,
            semantics=semantics,
            slowdown_max=SLOWDOWN_MAX,
        )
        free = {name: targets for name, targets in SHARED_PARTS.items() if name not in there}
        candidates = [
            Candidate(
                name=name, semantics=semantics, guarantees=Guarantees(), size_bytes=1 << 32, io_seconds=60 / targets
            )
            for name, targets in free.items()
        ]
        choice = choose(request, candidates, list(there.values()), now=0.0, factors=factors)
        name = choice.joins or choice.candidate
        existing = there.get(name) or Existing(
            name=name, shareable=True, semantics=semantics, guarantees=Guarantees(), size_bytes=1 << 32
        )
        sharer = Sharer(name=job, load=load, slowdown_max=SLOWDOWN_MAX, size_bytes=1 << 28)
        there[name] = joined(existing, sharer, 0.0)
        places[job] = name
        print(f"{job}: {name}, expected slowdown {choice.slowdown:.2f}", file=sys.stderr)
    return places


def sharing(files: int) -> tuple[float, float, float]:
    """The same for jobs that share as the policy says; and the targets that they hold."""
    with store(PROBED_TARGETS) as place:
        prepare(place, JOBS, files)
        factors = measured_factors(place, files)
    for each in factors.factors:
        print(f"{each.one} beside {each.other}: {each.slowdown:.2f}", file=sys.stderr)
    places = placed(factors)
    with ExitStack() as stack:
        stores = {name: stack.enter_context(store(SHARED_PARTS[name])) for name in sorted(set(places.values()))}
        starts: list[Start] = []
        for job, name in places.items():
            prepare(stores[name], [job], files)
            # A job begins to read while the others of its store compute for the first time.
            earlier = sum(start.store is stores[name] for start in starts)
            starts.append(Start(job, stores[name], files, after_seconds=earlier * COMPUTE_SECONDS))
        ends = [each["end"] for each in together(starts).values()]
    return sum(ends) / len(ends), max(ends), float(sum(SHARED_PARTS[name] for name in stores))


def measure(_: Path, files: int = FILES) -> dict[str, float]:
    """One round of the four ways."""
    figures: dict[str, float] = {"sharing_files": float(files)}
    for name, way in (("serial", serial), ("parallel", parallel), ("partition", partition)):
        mean, last = way(files)
        figures |= _figures(name, mean, last, TARGETS)
    mean, last, targets = sharing(files)
    figures |= _figures("sharing", mean, last, targets)
    for name in ("parallel", "partition", "sharing"):
        figures[f"sharing_turnaround_{name}_vs_serial"] = figures[f"{name}_seconds"] / figures["serial_seconds"]
    figures["sharing_targets_vs_others"] = figures["sharing_targets"] / TARGETS
    return figures


def _figures(name: str, mean: float, last: float, targets: float) -> dict[str, float]:
    print(f"{name:10} all done after {last:6.1f} s, on average {mean:6.1f} s, on {targets:.0f} targets", flush=True)
    return {
        f"{name}_seconds": last,
        f"{name}_mean_seconds": mean,
        f"{name}_targets": float(targets),
        f"{name}_target_seconds": last * targets,
    }


if __name__ == "__main__":
    if len(sys.argv) > 2:
        run_kernel(sys.argv[1], Path(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4]))
    else:
        found = measure(Path(), *map(int, sys.argv[1:]))
        print(json.dumps({key: round(value, 3) for key, value in found.items()}))
