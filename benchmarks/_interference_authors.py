"""F1 of all estimators on the windows that the interference paper's authors published."""

import os
import sys
from pathlib import Path

from _harness import ROOT, announce
from _interference_splits import f1
from weir.interference import quanterference
from weir.interference.evaluation import evaluate

WINDOWS = Path(os.environ.get("WEIR_INTERFERENCE_WINDOWS", ROOT.parent / "shared/data/interference-windows"))
"""Folder of the authors' files, which are not ours to give away."""
ESTIMATOR = "gated"
"""The estimator that is best on the honest splits of these windows."""
LEAST = {"random": 0.90, "other runs": 0.80, "other workloads": 0.50}
"""The limits."""
_NAMES = {"random": "random", "other runs": "leave_runs_out", "other workloads": "leave_one_workload_out"}


def measure(_directory: Path) -> dict[str, float | None]:
    """Evaluate; without the windows every figure is null."""
    files = sorted(WINDOWS.glob("*/*.json*"))
    if not files:
        print(
            f"no window of the authors is in {WINDOWS}; WEIR_INTERFERENCE_WINDOWS names another folder", file=sys.stderr
        )
        return dict.fromkeys(f"authors_f1_{name}" for name in _NAMES.values())
    found = evaluate(quanterference.read_windows(files))
    for score in found.scores:
        print(f"{score.split:18} {score.estimator:14} F1 {score.f1:.3f}, over all {score.overall:.3f}", flush=True)
    for split, least in LEAST.items():
        reached = f1(found, split, ESTIMATOR)
        announce(f"authors, {split}", f"F1 {reached:.3f}", f"{least:.2f}", reached / least)
    return {f"authors_f1_{name}": f1(found, split, ESTIMATOR) for split, name in _NAMES.items()}
