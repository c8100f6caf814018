"""F1 of all estimators on own windows by four splits, for two classes and for three, without and with sharing."""

from pathlib import Path

from _harness import announce
from _interference_collect import POLICIES, data_set
from weir.interference.evaluation import BASELINES, Evaluation, evaluate
from weir.interference.windows import read

ESTIMATOR = "ratio trees"
"""The estimator that is best on the honest splits."""
RIVALS = (*BASELINES, "network")
"""Rivals of the estimator: the two baselines and the paper's network."""
QUICK = (*BASELINES, "trees", "ratio trees", "above quiet")
"""Estimators that take seconds; the network and the forest take minutes, and are not asked about three classes."""
LEAST = {"random": 0.97, "other runs": 0.92, "other workloads": 0.80}
"""The limits for two classes under `fifo`."""


def measure(_directory: Path) -> dict[str, float | None]:
    """Evaluate on both data sets."""
    figures: dict[str, float | None] = {}
    for policy in POLICIES:
        _, folder = data_set(policy)
        windows = read([folder / "windows"])
        two = evaluate(windows, (2.0,), () if policy == "fifo" else (*QUICK, "network"))
        three = evaluate(windows, (2.0, 5.0), QUICK)
        for found in (two, three):
            _print(policy, found)
        figures |= _figures(two, three, "" if policy == "fifo" else "_shared")
        for split, least in LEAST.items():
            reached = f1(two, split, ESTIMATOR)
            announce(f"{policy}, {split}", f"F1 {reached:.3f}", f"{least:.2f}", reached / least)
    return figures


def _figures(two: Evaluation, three: Evaluation, ending: str) -> dict[str, float | None]:
    return {
        f"f1_binary{ending}": f1(two, "random", ESTIMATOR),
        f"f1_leave_runs_out{ending}": f1(two, "other runs", ESTIMATOR),
        f"f1_leave_one_workload_out{ending}": f1(two, "other workloads", ESTIMATOR),
        f"macro_f1_three{ending}": f1(three, "random", ESTIMATOR),
        f"macro_f1_three_leave_one_workload_out{ending}": f1(three, "other workloads", ESTIMATOR),
        f"f1_best_baseline{ending}": max(f1(two, "random", name) for name in RIVALS),
        f"f1_best_baseline_leave_one_workload_out{ending}": max(f1(two, "other workloads", name) for name in RIVALS),
    }


def f1(found: Evaluation, split: str, estimator: str) -> float:
    """The F1 of an estimator by a split: the mean over its parts."""
    return next(score.f1 for score in found.scores if (score.split, score.estimator) == (split, estimator))


def _print(what: str, found: Evaluation) -> None:
    """A table of F1, with that of all parts together in brackets."""
    splits = list(dict.fromkeys(score.split for score in found.scores))
    print(f"\n{what}, bins {', '.join(f'{each:g}' for each in found.bins)}: {found.windows} windows, in each class")
    print("  " + "  ".join(f"{100 * share:.1f} %" for share in found.shares))
    print(f"{'':14}" + "".join(f"{split:>20}" for split in splits))
    for name in dict.fromkeys(score.estimator for score in found.scores):
        scores = [score for score in found.scores if score.estimator == name]
        print(f"{name:14}" + "".join(f"{f'{score.f1:.3f} ({score.overall:.3f})':>20}" for score in scores), flush=True)
