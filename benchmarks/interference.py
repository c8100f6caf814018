"""How well slowdowns are predicted, what that costs, and what acting on them is worth.

make bench-interference     every figure; the last line is one JSON object
.venv/bin/python benchmarks/interference.py collect splits labels matrix authors

A figure is null where its part did not run.
"""

from collections.abc import Mapping

from _harness import measure_parts, measured_by

PARTS: dict[str, tuple[str, tuple[str, ...]]] = {
    "collect": ("_interference_collect", ("windows",)),
    "splits": (
        "_interference_splits",
        ("f1_binary", "macro_f1_three", "f1_leave_one_workload_out", "f1_best_baseline"),
    ),
    "labels": ("_interference_labels", ()),
    "busy": ("_interference_busy", ("quiet_labels_right_busy",)),
    "matrix": ("_interference_matrix", ()),
    "authors": ("_interference_authors", ()),
    "unseen": ("_interference_unseen", ("f1_unseen_workload_authors",)),
    "simulated": ("_interference_simulated", ("simulated_windows", "f1_kept_random_with_simulated")),
    "predict": ("_interference_predict", ("predict_ms",)),
    "overhead": ("_interference_overhead", ("collection_overhead_percent",)),
    "guard": ("_interference_guard", ("guard_slowdown_ratio",)),
}
"""The module of each part, whose `measure` takes a fresh directory, and the figures that it owes. The parts run in
this order."""


def measured(name: str) -> Mapping[str, float | None]:
    """The figures of one part."""
    return measured_by(PARTS[name][0])


if __name__ == "__main__":
    measure_parts("interference", PARTS, measured)
