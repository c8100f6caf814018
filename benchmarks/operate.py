"""Operating a store over several machines: its speeds that administrators feel, and the numbers that they read.

make bench-operate      every figure; the last line is one JSON object
.venv/bin/python benchmarks/operate.py decision codec renames partitions
"""

import sys
import tempfile
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

from _harness import finish

Measure = Callable[[Path], dict[str, float]]

PARTS: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "decision": (
        "_operate_decisions",
        "decisions",
        ("decision_ns", "decision_vs_binary_heaps", "exchanges_to_fair_max"),
    ),
    "rounds": ("_operate_decisions", "rounds", ("uneven_rounds_of_100",)),
    "partitions": ("_operate_partitions", "partitions", ("partition_schedules", "partition_violations")),
    "renames": ("_operate_rename", "renames", ("tmp_rename_fullest_over_mean",)),
    "codec": (
        "_operate_codec",
        "codec",
        ("told_error_violations", "told_error_points", "decimate_encode_vs_copy", "decimate_decode_100_vs_copy"),
    ),
    "first-hour": ("_operate_first_hour", "first_hour", ("documented_commands_failed", "demo_minutes")),
}
"""The module of each part, the function in it that measures in a fresh directory, and the figures that it owes."""


def measured(name: str) -> dict[str, float]:
    """The figures of one part. A module is imported when its part runs, so a part needs the packages of no other."""
    module, function, owed = PARTS[name]
    measure: Measure = getattr(import_module(module), function)
    with tempfile.TemporaryDirectory(prefix=f"weir-{name}-") as directory:
        figures = measure(Path(directory))
    missing = [figure for figure in owed if figure not in figures]
    if missing:
        sys.exit(f"error: {module} did not measure {', '.join(missing)}")
    return figures


def main() -> None:
    """Measure the parts that the arguments name, or all."""
    unknown = set(sys.argv[1:]) - PARTS.keys()
    if unknown:
        sys.exit(f"error: no part is named {', '.join(sorted(unknown))}\nhint: the parts are {', '.join(PARTS)}")
    figures: dict[str, float] = {}
    for name in sys.argv[1:] or list(PARTS):
        figures |= measured(name)
    finish("operate", figures)


if __name__ == "__main__":
    main()
