"""Collection of labelled windows by the campaign of `benchmarks/interference/`, under `fifo` and under sharing.

The data sets are kept in `benchmarks/out/interference/`, and a collection that was ended goes on where it stopped.
"""

import os
import subprocess
import sys
import time
from pathlib import Path

from _harness import OUT, ROOT, announce
from weir.interference import plan
from weir.interference.agreement import quiet_part
from weir.interference.collection import Run, collect, quality

PLAN = ROOT / "benchmarks/interference/campaign.toml"
KEPT = OUT / "interference"
POLICIES = ("fifo", "size-fair")
"""Without sharing, as the plan's store is, and with virtual-time sharing."""
WINDOWS_MIN, SECONDS_MAX = 5000, 7200.0
"""The limits for the collection under `fifo`."""
QUIET_MIN = 0.95
"""The part of the quiet windows that has to be labelled 0.95 to 1.05."""


def measure(_directory: Path) -> dict[str, float | None]:
    """Collect both data sets."""
    figures: dict[str, float | None] = {}
    for policy in POLICIES:
        runs, folder = data_set(policy)
        quiet = quality(runs, folder).quiet
        windows = sum(run.windows for run in runs if not run.is_reference)
        seconds = float(_clock(policy).read_text())
        right = quiet_part(quiet) or 0.0
        announce(f"windows, {policy}", f"{windows}", f"{WINDOWS_MIN}", windows / WINDOWS_MIN)
        announce("collected in", f"{seconds:.0f} s", f"{SECONDS_MAX:.0f} s", seconds / SECONDS_MAX)
        announce(
            "quiet labels right", f"{100 * right:.1f} % of {len(quiet)}", f"{100 * QUIET_MIN:.0f} %", right / QUIET_MIN
        )
        ending = "" if policy == "fifo" else "_shared"
        figures |= {f"windows{ending}": windows, f"collect_seconds{ending}": seconds, f"quiet_right{ending}": right}
    return figures


def data_set(policy: str) -> tuple[list[Run], Path]:
    """The runs of the campaign under a policy and their folder; what is missing is collected."""
    folder = KEPT / policy
    KEPT.mkdir(parents=True, exist_ok=True)
    command = ["interference", "collect", str(PLAN), "--to", str(folder), "--output", "json"]
    loaded = plan.read(PLAN)
    if policy != "fifo":
        command += ["--policy", policy]
        loaded = plan.under(loaded, policy)
    begun = time.monotonic()
    if not (folder / "README.md").exists():
        run_undisturbed(command)
        before = float(_clock(policy).read_text()) if _clock(policy).exists() else 0.0
        _clock(policy).write_text(f"{before + time.monotonic() - begun:.1f}\n")
    # Every run is done, so this reads them.
    return collect(loaded, folder, print), folder


def _clock(policy: str) -> Path:
    """The file of the time that a collection has taken."""
    return KEPT / f"{policy}.seconds"


def run_undisturbed(words: list[str]) -> None:
    """Run a command of `weir` with processors at once whenever it needs one, where that is allowed."""
    command = [sys.executable, "-m", "weir.cli", *words]
    if _may_be_real_time():
        command = ["chrt", "--rr", "1", *command]
    else:
        print("no right to real-time priority: other work on this machine disturbs the labels", file=sys.stderr)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def _may_be_real_time() -> bool:
    """Whether this process may set a real-time priority; it keeps its own."""
    own = os.sched_getscheduler(0)
    try:
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
    except PermissionError:
        return False
    os.sched_setscheduler(0, own, os.sched_param(0))
    return True
