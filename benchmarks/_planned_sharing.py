"""Four ways of sharing storage, as in figure 10 of LuxIO: turnaround, and the storage that each way holds.

    python _planned_sharing.py [FILES]                         one round of so many files of each DNDC, or of as many as
                                                               `BUDGET_SECONDS` allow; the last line is one JSON object
    python _planned_sharing.py KERNEL FOLDER SECONDS FILES     the processes of a job

One VPIC-IO and two DNDC run on rate-limited targets. VPIC computes and writes in turn; DNDC reads small files, 64,000
in the paper. *Serial*: each job waits for the one before, and has all targets. *Parallel*: all of them run on all
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
from weir.provisioning.sharing.leases import Existing, Sharer
from weir.provisioning.sharing.policies import Candidate, Request, choose
from weir.store.answers import WantedSpeed

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from sharing_over_time import joined

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
PROCESSES = {"vpic": 4, "dndc": 16}
SITE_SECONDS = 0.01
"""Computation of DNDC for each file. Many readers that compute load devices as a few that do not, and depend less on
this machine's processors, for which each call waits a turn where the machine is busy."""
MAKERS = 8
"""Processes that make the small files."""
PROBED_FILES = 8000
"""More than a probe reads, where a file takes a millisecond."""
PROBE_SECONDS = 6.0
"""Length of the runs that slowdowns are measured by."""
WAIT_SECONDS = 900.0
BUDGET_SECONDS = 400.0
"""Time of a round that names no number of files: on a busy machine such a round has fewer files than the paper."""
TRIED_FILES = 6000
"""Files by which the time of one is found."""
STORES_SECONDS = 80.0
"""Time of a round for anything but files and VPIC: stores that come and go, and the probes."""
MAKINGS, READINGS = 5.0, 6.0
"""Times that all files are made, and that all of them are read by one job alone on all targets, in place of a round."""


# The jobs.


def content(number: int) -> bytes:
    """The bytes of a small file."""
    return random.Random(number).randbytes(32) * (FILE_BYTES // 32)


def small_file(number: int) -> str:
    """The path of a small file."""
    return f"{PREFIX}/small/{number % FOLDERS}/{number}"


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
    """Reads small files in random order and computes on each; all of a store's jobs have the same files."""
    numbers = list(range(process, files, PROCESSES["dndc"]))
    random.Random(f"{folder}-{process}").shuffle(numbers)
    for done, number in enumerate(numbers):
        if until is not None and time.monotonic() >= until:
            return done
        # A file object would ask for the size and the place of each file, too.
        file = os.open(small_file(number), os.O_RDONLY)
        found = os.read(file, FILE_BYTES)
        os.close(file)
        if len(found) != FILE_BYTES or found[:4] != number.to_bytes(4):
            raise OSError(f"file {number} is not what was written")
        # The compute nodes are not this machine.
        time.sleep(SITE_SECONDS)
    return len(numbers)


def make_files(folder: Path, process: int, until: float | None, files: int) -> int:
    """Makes the small files, ahead of the measurement."""
    for number in range(FOLDERS):
        Path(small_file(number)).parent.mkdir(parents=True, exist_ok=True)
    for number in range(process, files, MAKERS):
        file = os.open(small_file(number), os.O_WRONLY | os.O_CREAT, 0o600)
        if os.write(file, number.to_bytes(4) + content(number)[4:]) != FILE_BYTES:
            raise OSError("a write was short")
        os.close(file)
    return files


KERNELS: dict[str, tuple[Callable[[Path, int, float | None, int], int], int]] = {
    "vpic": (vpic, PROCESSES["vpic"]),
    "dndc": (dndc, PROCESSES["dndc"]),
    "make-files": (make_files, MAKERS),
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


def prepare(place: Store, jobs: Sequence[str], files: int) -> float:
    """Make the small files, where one of the jobs reads them, as fast as the machine can; returns the seconds."""
    reader = next((job for job in jobs if job.startswith("dndc")), None)
    if reader is None:
        return 0.0
    place.emulate(WantedSpeed())
    made = together([Start(reader, place, files)], kernel="make-files")[reader]["seconds"]
    place.emulate(WantedSpeed(read=SPEED, write=SPEED, fixed=FIXED_TIME))
    print(f"made {files} files in {made:.1f} s", file=sys.stderr)
    return made


def serial(place: Store, files: int) -> tuple[float, float]:
    """The times at which the jobs end on average and at last, one after the other on all targets."""
    ends, last = [], 0.0
    for job in JOBS:
        last += together([Start(job, place, files)])[job]["seconds"]
        ends.append(last)
    return sum(ends) / len(ends), last


def parallel(place: Store, files: int) -> tuple[float, float]:
    """The same for all jobs at once on all targets."""
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
        probed = min(files, PROBED_FILES)
        prepare(place, JOBS, probed)
        factors = measured_factors(place, probed)
    for each in factors.factors:
        print(f"{each.one} beside {each.other}: {each.slowdown:.2f}", file=sys.stderr)
    places = placed(factors)
    with ExitStack() as stack:
        stores = {name: stack.enter_context(store(SHARED_PARTS[name])) for name in sorted(set(places.values()))}
        starts: list[Start] = []
        for name, place in stores.items():
            prepare(place, [job for job in places if places[job] == name], files)
        for job, name in places.items():
            # A job begins to read while the others of its store compute for the first time.
            earlier = sum(start.store is stores[name] for start in starts)
            starts.append(Start(job, stores[name], files, after_seconds=earlier * COMPUTE_SECONDS))
        ends = [each["end"] for each in together(starts).values()]
    return sum(ends) / len(ends), max(ends), float(sum(SHARED_PARTS[name] for name in stores))


def files_within_budget() -> int:
    """The files of a round that takes `BUDGET_SECONDS`, as fast as the machine is now, and at most the paper's."""
    with store(TARGETS) as place:
        made = prepare(place, JOBS, TRIED_FILES) / TRIED_FILES
        read = together([Start("dndc-1", place, TRIED_FILES)])["dndc-1"]["seconds"] / TRIED_FILES
    computed = 4 * STEPS * (COMPUTE_SECONDS + STEP_BYTES / (TARGETS * 16e6)) / FILES
    fitting = (BUDGET_SECONDS - STORES_SECONDS) / (MAKINGS * made + READINGS * read + computed)
    print(f"a file is made in {made * 1e3:.2f} ms and read in {read * 1e3:.2f} ms: {fitting:.0f} fit", file=sys.stderr)
    return max(TRIED_FILES, min(FILES, int(fitting) // 1000 * 1000))


def measure(_: Path, files: int = 0) -> dict[str, float]:
    """One round of the four ways; 0 files are as many as the budget of time allows."""
    files = files or files_within_budget()
    figures: dict[str, float] = {"sharing_files": float(files)}
    with store(TARGETS) as place:
        prepare(place, JOBS, files)
        figures |= _figures("serial", *serial(place, files), TARGETS)
        figures |= _figures("parallel", *parallel(place, files), TARGETS)
    figures |= _figures("partition", *partition(files), TARGETS)
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
