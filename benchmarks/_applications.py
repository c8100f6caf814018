"""Kernels shaped as applications, alone and beside a job that only does I/O: slowdowns beside their bounds.

.venv/bin/python benchmarks/_applications.py [--quick] [--passes N] [KERNEL ...]

ThemisIO (SC'23, section 5.5): a job of n nodes beside one of one node gets n/(n + 1) of the device under
size-fair, so it takes at most (n + 1)/n of its time alone, were it all I/O.
"""

import argparse
import contextlib
import json
import select
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Any

from _harness import ROOT, WAIT_SECONDS, WEIR, announce, run_weir
from weir.experiments.store import PREFIX, Store

SPEED = "128MB/s"
PASSES = 2
"""Number of passes; each goes through the conditions forth and back (A B C C B A)."""
SETTLING_SECONDS = 0.5
"""Time for which the background job floods before a kernel begins."""
ALONE = "alone"
POLICIES = ("fifo", "size-fair")
END_SECONDS = 60.0


@dataclass(frozen=True)
class Application:
    """A kernel as a job."""

    nodes: int
    """Compute nodes as in the paper, section 5.1."""
    steps: int
    quick_steps: int

    @property
    def bound(self) -> float:
        """Time beside a job of one node over the time alone, if the kernel only did I/O."""
        return (self.nodes + 1) / self.nodes


APPLICATIONS = {
    "wrf": Application(nodes=4, steps=8, quick_steps=4),
    "namd": Application(nodes=64, steps=6, quick_steps=3),
    "specfem3d": Application(nodes=16, steps=2, quick_steps=2),
    "resnet-sync": Application(nodes=16, steps=12, quick_steps=6),
    "resnet-async": Application(nodes=16, steps=18, quick_steps=9),
    "bert": Application(nodes=4, steps=1, quick_steps=1),
}


@dataclass(frozen=True)
class Measured:
    """One run of a kernel."""

    seconds: float
    io_seconds: float
    device_busy: float
    """Part of its time in which the target worked."""
    processor_busy: float
    """Used part of all processors, with all other work on this machine."""


def applications(
    directory: Path, *, passes: int = PASSES, is_quick: bool = False, names: tuple[str, ...] = tuple(APPLICATIONS)
) -> dict[str, float]:
    """Slowdowns of each kernel beside its bound, medians over `2 * passes` runs of each condition.

    Args:
        directory: Folder for the output of the jobs.
        passes: Number of times forth and back through the conditions.
        is_quick: Whether runs have half the length, for a try.
        names: Kernels to run.
    """
    figures: dict[str, float] = {}
    device_busy, processor_busy = [], []
    with Store(policy="size-fair", speed=SPEED) as store:
        for name in names:
            runs = _runs(store, directory, name, passes=passes, is_quick=is_quick)
            figures |= _figures(name, runs)
            device_busy += [run.device_busy for run in runs["fifo"] + runs["size-fair"]]
            processor_busy += [run.processor_busy for run in runs["fifo"] + runs["size-fair"]]
    worst = max(figures[f"{_key(name)}_slowdown_over_bound"] for name in names)
    device, processor = statistics.median(device_busy), statistics.median(processor_busy)
    announce("shared: the target", f"{100 * device:.0f} % busy", f"the processor {100 * processor:.0f} %", device)
    return {
        "application_slowdown_over_bound_max": worst,
        "application_target_busy": device,
        "application_processor_busy": processor,
        **figures,
    }


def _runs(store: Store, directory: Path, name: str, *, passes: int, is_quick: bool) -> dict[str, list[Measured]]:
    """Runs of one kernel by condition, in the order of the passes."""
    application = APPLICATIONS[name]
    steps = application.quick_steps if is_quick else application.steps
    kernel = [name, f"{PREFIX}/{name}", str(steps)]
    conditions = (ALONE, *POLICIES)
    runs: dict[str, list[Measured]] = {condition: [] for condition in conditions}
    for condition in (*conditions, *reversed(conditions)) * passes:
        if condition == ALONE:
            runs[condition].append(_run(store, directory, kernel, application.nodes, None))
            continue
        run_weir(store.environment, "policy", "set", condition)
        with _job(store, directory, ["hog", f"{PREFIX}/hog", "0"], nodes=1) as hog:
            runs[condition].append(_run(store, directory, kernel, application.nodes, hog))
    return runs


def _figures(name: str, runs: dict[str, list[Measured]]) -> dict[str, float]:
    """The medians of a kernel's runs, with a line for people."""
    bound = APPLICATIONS[name].bound
    alone = [run.seconds for run in runs[ALONE]]
    io_part = statistics.median(run.io_seconds / run.seconds for run in runs[ALONE])
    figures = {"seconds_alone": statistics.median(alone), "io_part_alone": io_part, "bound": bound}
    words = {}
    for policy in POLICIES:
        slowdowns = [run.seconds / before for run, before in zip(runs[policy], alone, strict=True)]
        median = statistics.median(slowdowns)
        key = policy.replace("-", "_")
        figures[f"slowdown_{key}"] = median
        figures |= {f"slowdown_{key}_min": min(slowdowns), f"slowdown_{key}_max": max(slowdowns)}
        words[policy] = f"{median:.3f} ({min(slowdowns):.3f}-{max(slowdowns):.3f})"
    ratio = figures["slowdown_size_fair"] / bound
    figures["slowdown_over_bound"] = ratio
    announce(name, words["size-fair"], f"bound {bound:.4f}; fifo {words['fifo']}", ratio)
    return {f"{_key(name)}_{figure}": value for figure, value in figures.items()}


def _key(name: str) -> str:
    return name.replace("-", "_")


def _run(store: Store, directory: Path, kernel: list[str], nodes: int, hog: subprocess.Popen[str] | None) -> Measured:
    """One run of a kernel, beside a background job that begins before it and ends with it."""
    with _job(store, directory, kernel, nodes) as job:
        if hog is not None:
            _go(hog)
            time.sleep(SETTLING_SECONDS)
        device, processor, begin = _device_seconds(store), _processor_seconds(), time.monotonic()
        _go(job)
        line = _line(job, directory / f"{kernel[0]}.log")
        elapsed = time.monotonic() - begin
        device_busy = (_device_seconds(store) - device) / elapsed
        idle, total = (after - before for after, before in zip(_processor_seconds(), processor, strict=True))
        if hog is not None:
            hog.terminate()
            _line(hog, directory / "hog.log")
            _ended(hog, directory / "hog.log")
        _ended(job, directory / f"{kernel[0]}.log")
    result: dict[str, Any] = json.loads(line)
    return Measured(result["seconds"], result["io_seconds"], device_busy, 1.0 - idle / total)


@contextlib.contextmanager
def _job(store: Store, directory: Path, kernel: list[str], nodes: int) -> Iterator[subprocess.Popen[str]]:
    """A kernel that is ready to begin, as a job of its own; it does not outlive the block."""
    log = directory / f"{kernel[0]}.log"
    program = [sys.executable, str(ROOT / "benchmarks/_kernels.py"), *kernel]
    with log.open("w") as words:
        job = subprocess.Popen(
            [WEIR, "run", "--job", kernel[0], "--nodes", str(nodes), "--prefix", PREFIX, "--", *program],
            env=store.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=words,
            text=True,
        )
    with job:
        try:
            if _line(job, log) != "ready\n":
                sys.exit(f"{kernel[0]} did not start: {log.read_text()}")
            yield job
        finally:
            if job.poll() is None:
                job.terminate()


def _go(job: subprocess.Popen[str]) -> None:
    _pipe(job.stdin).close()


def _line(job: subprocess.Popen[str], log: Path) -> str:
    """The next line that a kernel prints."""
    ready, _, _ = select.select([_pipe(job.stdout)], [], [], WAIT_SECONDS)
    line = _pipe(job.stdout).readline() if ready else ""
    if not line:
        sys.exit(f"{job.args!r} said nothing more: {log.read_text()}")
    return line


def _ended(job: subprocess.Popen[str], log: Path) -> None:
    """Waits until a kernel has compared its files."""
    if job.wait(timeout=END_SECONDS) != 0:
        sys.exit(f"{job.args!r} failed with exit code {job.returncode}: {log.read_text()}")


def _pipe(pipe: IO[str] | None) -> IO[str]:
    assert pipe is not None, "both streams of a job are pipes"
    return pipe


def _device_seconds(store: Store) -> float:
    """Seconds of work of the only target."""
    (target,) = store.servers[0].status().targets
    return target.busy_seconds


def _processor_seconds() -> tuple[float, float]:
    """Idle and all time of the processors, in ticks (proc_stat(5))."""
    fields = [float(field) for field in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    return fields[3] + fields[4], sum(fields)


def main() -> None:
    """Runs them and prints the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one pass of half the length")
    parser.add_argument("--passes", type=int, help="times forth and back through the conditions")
    parser.add_argument("kernels", nargs="*", metavar="KERNEL", help=f"of {', '.join(APPLICATIONS)}")
    arguments = parser.parse_args()
    names = tuple(arguments.kernels) or tuple(APPLICATIONS)
    unknown = set(names) - set(APPLICATIONS)
    if unknown:
        parser.error(f"no kernel {', '.join(sorted(unknown))}; there are {', '.join(APPLICATIONS)}")
    passes = arguments.passes or (1 if arguments.quick else PASSES)
    with TemporaryDirectory(prefix="weir-bench-") as directory:
        figures = applications(Path(directory), passes=passes, is_quick=arguments.quick, names=names)
    print(json.dumps({key: float(f"{value:.4g}") for key, value in figures.items()}))


if __name__ == "__main__":
    main()
