"""How well slowdowns are predicted, what that costs, and what acting on them is worth.

make bench-interference     every figure; the last line is one JSON object
.venv/bin/python benchmarks/interference.py collect splits labels matrix authors

A figure of `FIGURES` is null where its part did not run.
"""

import sys
import tempfile
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path

from _harness import finish

Figures = dict[str, float | None]
Measure = Callable[[Path], Mapping[str, float | None]]

FIGURES = (
    "windows",
    "f1_binary",
    "macro_f1_three",
    "f1_leave_one_workload_out",
    "f1_best_baseline",
    "predict_ms",
    "collection_overhead_percent",
    "guard_slowdown_ratio",
)
"""Figures that the last line always has."""

PARTS: dict[str, tuple[str, tuple[str, ...]]] = {
    "collect": ("_interference_collect", ("windows",)),
    "splits": (
        "_interference_splits",
        ("f1_binary", "macro_f1_three", "f1_leave_one_workload_out", "f1_best_baseline"),
    ),
    "labels": ("_interference_labels", ()),
    "matrix": ("_interference_matrix", ()),
    "authors": ("_interference_authors", ()),
    "simulated": ("_interference_simulated", ("simulated_windows", "f1_kept_random_with_simulated")),
    "predict": ("_interference_predict", ("predict_ms",)),
    "overhead": ("_interference_overhead", ("collection_overhead_percent",)),
    "guard": ("_interference_guard", ("guard_slowdown_ratio",)),
}
"""The module of each part, whose `measure` takes a fresh directory, and the figures that it owes. The parts run in
this order."""


def measured(name: str) -> Mapping[str, float | None]:
    """The figures of one part. A module is imported when its part runs, so a part needs the packages of no other."""
    module, owed = PARTS[name]
    measure: Measure = import_module(module).measure
    with tempfile.TemporaryDirectory(prefix=f"weir-{name}-") as directory:
        found = measure(Path(directory))
    missing = [figure for figure in owed if figure not in found]
    if missing:
        sys.exit(f"error: {module} did not measure {', '.join(missing)}")
    return found


def main() -> None:
    """Measure the parts that the arguments name, or all."""
    chosen = sys.argv[1:] or list(PARTS)
    unknown = set(chosen) - PARTS.keys()
    if unknown:
        sys.exit(f"error: no part is named {', '.join(sorted(unknown))}\nhint: the parts are {', '.join(PARTS)}")
    figures: Figures = dict.fromkeys(FIGURES)
    for name in chosen:
        figures |= measured(name)
    finish("interference", figures)


if __name__ == "__main__":
    main()
