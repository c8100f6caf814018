"""The page about a job: the time until it is there, and the planted faults that it names.

The author of the runs of `tests/planted_faults` wrote them, and what a good page says of them, before seeing a rule. A
fault is confirmed where the page has its kind, its figure and its place. The ten cases of `tests/planted.py` are by the
author of the rules, and guard the rules alone.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from _harness import ROOT, TEST_SECONDS, WEIR

sys.path.insert(0, str(ROOT / "tests"))

from planted import CLEAN, LOGS, RULES, RUNS, Log, Run, reported

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
        "report_known_faults": len(found),
        "report_known_faults_found": sum(found),
        "report_known_false_findings": len(clean),
    }


def _planted() -> dict[str, float | int | None]:
    """The planted faults that pages of runs and of past jobs name, confirm, and name where they are not."""
    words = [sys.executable, str(ROOT / "tests/planted_counts.py")]
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path}
    counted = subprocess.run(words, stdout=subprocess.PIPE, timeout=TEST_SECONDS, check=True, env=environment)
    figures: dict[str, float | int | None] = json.loads(counted.stdout)
    return figures


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
