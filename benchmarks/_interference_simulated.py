"""F1 on real windows after a training with simulated windows beside the real ones, and without them.

The simulated windows are those of the campaign's plan. The real ones are the part of the campaign that is kept for
tests, the whole campaign where `collect` has collected it, and the windows that the paper's authors published.
"""

import time
from pathlib import Path

import numpy as np
from _harness import ROOT, announce
from _interference_authors import WINDOWS
from _interference_collect import KEPT, PLAN
from weir.interference import plan, quanterference
from weir.interference.collection import collect
from weir.interference.evaluation import OWN_ADDITIONAL, STRANGERS, Evaluation, Score, evaluate
from weir.interference.windows import Windows, read

SEED = 0
ESTIMATORS = ("forest", "trees", "ratio trees", "above quiet", "gated")
"""Estimators that take seconds."""
BEST = {"kept": "ratio trees", "campaign": "ratio trees", "authors": "gated"}
"""The estimator that is best on the honest splits of each data set; its figures are kept."""
_NAMES = {
    "random": "random",
    "later in the run": "later_in_run",
    "other runs": "leave_runs_out",
    STRANGERS: "leave_one_workload_out",
    OWN_ADDITIONAL: "leave_one_workload_out_but_simulated",
}


def measure(directory: Path) -> dict[str, float | None]:
    """Simulate the campaign, and evaluate with and without its windows."""
    begun = time.monotonic()
    collect(plan.simulated(plan.read(PLAN), SEED), directory / "simulated", lambda _line: None)
    seconds = time.monotonic() - begun
    simulated = read([directory / "simulated/windows"])
    labelled = simulated.labelled()
    print(
        f"{len(labelled)} simulated windows in {seconds:.0f} s, {100 * (labelled.slowdowns >= 2).mean():.1f} % slowed"
    )
    figures: dict[str, float | None] = {"simulated_windows": len(labelled), "simulated_seconds": seconds}
    real = _real()
    figures |= _likeness(real["kept"].labelled(), labelled)
    for name, windows in real.items():
        found = evaluate(windows, (2.0,), ESTIMATORS, simulated)
        _print(name, found)
        figures |= _figures(name, found)
    return figures


def _real() -> dict[str, Windows]:
    """The real windows that are here, by the names of their figures."""
    found = {"kept": read([ROOT / "tests/data/interference"])}
    if (KEPT / "fifo/README.md").exists():
        found["campaign"] = read([KEPT / "fifo/windows"])
    files = sorted(WINDOWS.glob("*/*.json*"))
    if files:
        found["authors"] = quanterference.read_windows(files)
    return found


def _likeness(real: Windows, simulated: Windows) -> dict[str, float | None]:
    """The mean labels of simulated runs over those of the same real runs: the median, and the two farthest from 1."""
    ratios = {
        run: float(simulated.slowdowns[simulated.runs == run].mean() / real.slowdowns[real.runs == run].mean())
        for run in np.unique(real.runs).tolist()
    }
    for run, ratio in sorted(ratios.items(), key=lambda each: each[1]):
        print(f"{run:40} mean label, simulated over real: {ratio:.2f}")
    values = list(ratios.values())
    return {
        "simulated_label_ratio_median": float(np.median(values)),
        "simulated_label_ratio_least": min(values),
        "simulated_label_ratio_most": max(values),
    }


def _by_split(scores: tuple[Score, ...], estimator: str) -> dict[str, Score]:
    return {score.split: score for score in scores if score.estimator == estimator}


def _figures(name: str, found: Evaluation) -> dict[str, float | None]:
    alone = _by_split(found.scores, BEST[name])
    figures: dict[str, float | None] = {f"f1_{name}_{_NAMES[split]}": score.f1 for split, score in alone.items()}
    for split, score in _by_split(found.with_additional, BEST[name]).items():
        figures[f"f1_{name}_{_NAMES[split]}_with_simulated"] = score.f1
        before = alone[STRANGERS if split == OWN_ADDITIONAL else split].f1
        announce(f"{name}, {split}", f"F1 {score.f1:.3f} with simulated", f"{before:.3f} without", score.f1 / before)
    return figures


def _print(name: str, found: Evaluation) -> None:
    """A table of F1 without and with simulated windows, and in brackets those of all parts together."""
    print(
        f"\n{name}: {found.windows} real windows, {found.additional_windows} simulated ones beside those of trainings"
    )
    for estimator in ESTIMATORS:
        alone = _by_split(found.scores, estimator)
        for split, score in _by_split(found.with_additional, estimator).items():
            before = alone[STRANGERS if split == OWN_ADDITIONAL else split]
            print(
                f"{split:34} {estimator:12} {before.f1:.3f} ({before.overall:.3f}) without, "
                f"{score.f1:.3f} ({score.overall:.3f}) with",
                flush=True,
            )
