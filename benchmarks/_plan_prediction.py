"""Predictions of the times of I/O, beside baselines, on applications and months that were held out; many logs.

.venv/bin/python benchmarks/_plan_prediction.py [--many] [--tables]

The runs are a year of benchmark jobs on NERSC's Cori and Edison (`benchmarks/data/tokio-*.csv.gz`): five applications
with file systems that other jobs used at the same time. The figures are those of the report of `weir classes build`.
`--many` builds classes from 100,000 copies of the tests' logs instead, and `--tables` prints tables as Markdown.
"""

import itertools
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from _harness import ROOT, announce, finish
from _simulated_tables import table
from weir.provisioning.learning.building import Options, build
from weir.provisioning.learning.models import GROUP_MEAN, MODELS, SAME_JOB
from weir.provisioning.learning.processes import Processes
from weir.provisioning.learning.report import Report, SplitScore

TABLES = tuple(ROOT / "benchmarks/data" / f"tokio-{system}.csv.gz" for system in ("cori", "edison"))
LOGS = ROOT / "tests/data/darshan"
TARGETS = ("read", "write", "metadata")
PAPER = {"read": 0.35, "write": 0.32, "metadata": 0.27}
"""Errors of the ensemble in the LuxIO paper (section III-B), on random rows of Argonne's jobs."""
MANY = 100_000
_FOLDER_LOGS = 1000


def prediction(folder: Path) -> dict[str, float]:
    """Errors of the model that is best on held-out months and applications, and of the baselines.

    `mape_read` is of held-out months, `mape_read_applications` of held-out applications, and `mape_read_random` of
    random rows as in the paper.
    """
    report = built(folder)
    model = report.best_model
    assert model is not None
    figures: dict[str, float] = {}
    ways = {"": "months", "_applications": "applications", "_random": "random"}
    for ending, held_out in ways.items():
        for target in TARGETS:
            ours, baseline, same_job = (
                score_of(report, target, held_out, name).mape for name in (model, GROUP_MEAN, SAME_JOB)
            )
            figures[f"mape_{target}{ending}"] = ours
            figures[f"mape_baseline_{target}{ending}"] = baseline
            figures[f"mape_same_job_{target}{ending}"] = same_job
            beside = f"same-job median {same_job:.1%}"
            if held_out == "random":
                beside += f", paper {PAPER[target]:.0%}"
            announce(f"{target}, {held_out}", f"{model} {ours:.1%}", beside, ours / same_job)
    coverages = {
        held_out: [score_of(report, target, held_out, model).coverage for target in TARGETS]
        for held_out in ("months", "applications")
    }
    for held_out, each in coverages.items():
        figures[f"interval_coverage_{held_out}"] = statistics.fmean(each)
    figures["interval_coverage"] = statistics.fmean(itertools.chain.from_iterable(coverages.values()))
    announce("coverage", f"{figures['interval_coverage']:.1%}", f"the level {report.interval_level:.0%}", 0.0)
    return figures


def built(folder: Path) -> Report:
    """The report of a build with the defaults."""
    pool = Processes(len(os.sched_getaffinity(0)))
    _, report = build(TABLES, folder / "classes", pool, Options(), lambda work, done, parts: None)
    return report


def score_of(report: Report, target: str, held_out: str, model: str, program: str | None = None) -> SplitScore:
    """The errors of a model on one split."""
    (found,) = (
        each
        for each in report.scores
        if (each.target, each.held_out, each.model, each.program) == (target, held_out, model, program)
    )
    return found


def markdown(report: Report) -> Iterable[str]:
    """Tables of all models, and of the best one by application."""
    for target in TARGETS:
        rows = []
        for model in MODELS:
            cells = [model]
            for held_out in ("random", "months", "applications"):
                score = score_of(report, target, held_out, model)
                cells += [f"{score.mape:.1%}", f"{score.median_error:.1%}", f"{score.coverage:.0%}"]
            rows.append(cells)
        heads = [
            f"{way}: {name}" for way in ("80/20", "months", "applications") for name in ("MAPE", "median", "cover")
        ]
        yield table([f"{target} time", *heads], rows)
    model = str(report.best_model)
    programs = sorted({each.program for each in report.scores if each.program})
    rows = []
    for target, program in itertools.product(TARGETS, programs):
        found = [
            score_of(report, target, held_out, model, program)
            for held_out in ("random", "months", "applications")
            if any((each.target, each.held_out, each.program) == (target, held_out, program) for each in report.scores)
        ]
        if len(found) == 3:
            rows.append([f"{target}: {program}", *(f"{each.mape:.1%}" for each in found)])
    yield table([f"MAPE of `{model}`", "80/20", "months", "application held out"], rows)


def many_logs(folder: Path, count: int = MANY) -> dict[str, float]:
    """Time and memory of a build from many logs, which are copies of the tests' 14 ones under other names."""
    logs = folder / "logs"
    names = itertools.cycle(sorted(LOGS.glob("*.darshan")))
    for number in range(count):
        place = logs / f"{number // _FOLDER_LOGS:04d}"
        if number % _FOLDER_LOGS == 0:
            place.mkdir(parents=True)
        os.link(next(names), place / f"{number}.darshan")
    before = time.monotonic()
    command = [sys.executable, "-m", "weir.cli", "classes", "build", logs, "--to", folder / "many", "--trials", "4"]
    process = subprocess.Popen([*map(str, command), "--output", "json"], stdout=subprocess.PIPE)
    peaks: dict[str, int] = {}
    with (folder / "report").open("wb") as output:
        assert process.stdout is not None
        os.set_blocking(process.stdout.fileno(), False)
        while process.poll() is None:
            output.write(process.stdout.read() or b"")
            peaks = {"self": memory(process.pid, "VmHWM") or peaks.get("self", 0)} | {
                "all": max(peaks.get("all", 0), sum(memory(each, "VmRSS") for each in tree(process.pid)))
            }
            time.sleep(0.5)
    seconds = time.monotonic() - before
    assert process.returncode == 0
    report = json.loads((folder / "many" / "report.json").read_text())
    assert report["logs"] == count and not report["unreadable"]
    announce("logs a second", f"{count / seconds:.0f}", "build and models included", 0.0)
    announce("memory", f"{peaks['self'] / 1024:.0f} MiB", f"all processes {peaks['all'] / 1024:.0f} MiB", 0.0)
    return {
        "classes_logs": count,
        "classes_seconds": seconds,
        "classes_mib": peaks["self"] / 1024,
        "classes_all_processes_mib": peaks["all"] / 1024,
    }


def memory(process: int, field: str) -> int:
    """A field of a process' status in KiB; 0 where the process has ended."""
    try:
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith(f"{field}:")), 0)


def tree(process: int) -> list[int]:
    """A process and all below it."""
    found = [process]
    for parent in found:
        for children in Path(f"/proc/{parent}/task").glob("*/children"):
            try:
                found += map(int, children.read_text().split())
            except OSError:
                continue
    return found


def main() -> None:
    """Run the part that is asked for."""
    figures: dict[str, Any]
    with TemporaryDirectory(prefix="weir-bench-") as directory:
        folder = Path(directory)
        if "--many" in sys.argv:
            finish("plan-many-logs", many_logs(folder))
            return
        figures = prediction(folder)
        if "--tables" in sys.argv:
            # The archive has all steps, so this reads them.
            print("\n\n".join(markdown(built(folder))))
    finish("plan-prediction", figures)


if __name__ == "__main__":
    main()
