"""The page about a job: the time until it is there, and the planted faults that it names.

The author of the runs of `tests/planted_faults` wrote them, and what a good page says of them, before seeing a rule. A
fault is confirmed where the page has its kind, its figure and its place. The ten cases of `tests/planted.py` are by the
author of the rules, and guard the rules alone.
"""

import subprocess
import sys
import tempfile
import time
from pathlib import Path

from _harness import ROOT, WEIR

sys.path.insert(0, str(ROOT / "tests"))

from planted import CLEAN, LOGS, RULES, RUNS, Log, Run, reported
from planted_runs import judged, known_to_the_store, mpi_launcher, page_of, page_of_job, planted_runs

_PAGED = (
    "sample-badost.darshan",
    "example.darshan",
    "shane_macsio_id29959_5-22-32552-7035573431850780836_1590156158.darshan",
)
"""Logs whose pages are timed: 2,048 files, 2,048 processes, and 16 processes."""
_ROUNDS = 3
_SECONDS_MAX = 120


def measure(quick: bool) -> dict[str, float | int | None]:
    """The figures; with `quick`, of fewer cases of the rules' author."""
    cases: list[Run | Log] = [*LOGS, *(RUNS[::3] if quick else RUNS)]
    found = [_is_found(case) for case in cases]
    clean = {finding["rule"] for finding in reported(CLEAN)["findings"]} & set(RULES.values())
    return {
        "report_seconds": max(_page_seconds(name, 1 if quick else _ROUNDS) for name in _PAGED),
        **_planted(),
        **_past(),
        "report_known_faults": len(found),
        "report_known_faults_found": sum(found),
        "report_known_false_findings": len(clean),
    }


def _planted() -> dict[str, float | int | None]:
    """The faults of runs whose author saw no rule: planted, named, confirmed; and findings that are not true."""
    planted = named = confirmed = wrong = begun = 0
    runs = [run for run in planted_runs() if mpi_launcher() is not None or not run.needs_mpi]
    for run in runs:
        page = page_of(run)
        verdict = judged(run, page)
        planted, named = planted + len(run.faults), named + len(verdict.named)
        confirmed, wrong = confirmed + len(verdict.confirmed), wrong + len(verdict.wrong)
        begun += verdict.begins_with_a_fault
        print(
            f"{run.name}: planted {', '.join(each.kind for each in run.faults) or 'nothing'}; confirmed "
            f"{', '.join(each.kind for each in verdict.confirmed) or 'none'}; all: "
            f"{', '.join(finding['rule'] for finding in page['findings']) or 'none'}",
            file=sys.stderr,
        )
    return {
        "report_runs": len(runs),
        "report_runs_begun_with_a_planted_fault": begun,
        "report_findings_planted": planted,
        "report_findings_named": named,
        "report_findings_confirmed": confirmed,
        "report_findings_wrong": wrong,
    }


def _past() -> dict[str, float | int | None]:
    """The same of past jobs, where only the servers' counts are known: the faults that these can show."""
    planted = confirmed = wrong = 0
    for run in planted_runs():
        faults = [fault for fault in run.faults if fault.store_knows]
        if (not faults and run.faults) or (run.needs_mpi and mpi_launcher() is None):
            continue
        page = page_of_job(run)
        planted, confirmed = planted + len(faults), confirmed + len(known_to_the_store(run, page))
        wrong += len(judged(run, page).wrong)
    return {
        "report_past_findings_planted": planted,
        "report_past_findings_confirmed": confirmed,
        "report_past_findings_wrong": wrong,
    }


def _is_found(case: Run | Log) -> bool:
    found = [finding["rule"] for finding in reported(case)["findings"]]
    is_found = RULES[case.fault] in found
    print(f"{case.name}: {case.fault} {'found' if is_found else 'NOT found'}; all: {', '.join(found)}", file=sys.stderr)
    return is_found


def _page_seconds(name: str, rounds: int) -> float:
    """The median time of `weir report --darshan LOG --html PAGE`, from its start to its end."""
    times = []
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "page.html"
        for _ in range(rounds):
            begin = time.perf_counter()
            subprocess.run(
                [WEIR, "report", "--darshan", ROOT / "tests/data/darshan" / name, "--html", page],
                check=True, capture_output=True, timeout=_SECONDS_MAX,
            )  # fmt: skip
            times.append(time.perf_counter() - begin)
    return sorted(times)[len(times) // 2]
