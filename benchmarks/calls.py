"""Calls and inputs: what unmodified programs, real scripts and real data get from a store, to the letter.

make bench-calls        every figure, as root; the last line is one JSON object
.venv/bin/python benchmarks/calls.py fills scripts programs random series xfstests
"""

from collections.abc import Mapping

from _harness import measure_parts, measured_by

PARTS: dict[str, tuple[str, tuple[str, ...]]] = {
    "fills": ("_fills", ("fills_tried", "fills_exact")),
    "scripts": ("_sbatch_scripts", ("sbatch_scripts", "sbatch_differences")),
    "programs": ("_prefix_programs", ("prefix_programs", "prefix_programs_failed")),
    "random": ("_random_calls", ("random_calls", "random_call_differences")),
    "series": ("_metric_series", ("series_per_run",)),
    "xfstests": ("_xfstests", ("xfstests_run", "xfstests_unexplained")),
}
"""The module of each part, and the figures that it owes."""


def measured(name: str) -> Mapping[str, float | None]:
    """The figures of one part."""
    return measured_by(PARTS[name][0])


if __name__ == "__main__":
    measure_parts("calls", PARTS, measured)
