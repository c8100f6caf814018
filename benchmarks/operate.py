"""Operating a store over several machines: its speeds that administrators feel, and the numbers that they read.

make bench-operate      every figure; the last line is one JSON object
.venv/bin/python benchmarks/operate.py decision codec renames partitions
"""

from collections.abc import Mapping

from _harness import measure_parts, measured_by

PARTS: dict[str, tuple[str, tuple[str, ...]]] = {
    "decision": ("_operate_decisions", ("decision_ns", "decision_vs_binary_heaps", "exchanges_to_fair_max")),
    "rounds": ("_operate_decisions", ("uneven_rounds_of_100", "uneven_rounds_on_homes_of_100")),
    "partitions": ("_operate_partitions", ("partition_schedules", "partition_violations")),
    "renames": ("_operate_rename", ("tmp_rename_fullest_over_mean",)),
    "codec": (
        "_operate_codec",
        ("told_error_violations", "told_error_points", "decimate_encode_vs_copy", "decimate_decode_100_vs_copy"),
    ),
    "first-hour": ("_operate_first_hour", ("documented_commands_failed", "demo_minutes")),
}
"""The module of each part, and the figures that it owes."""

FUNCTIONS = {name: name for name in PARTS} | {"decision": "decisions", "first-hour": "first_hour"}
"""The function of each part that measures in a fresh directory."""


def measured(name: str) -> Mapping[str, float | None]:
    """The figures of one part."""
    return measured_by(PARTS[name][0], FUNCTIONS[name])


if __name__ == "__main__":
    measure_parts("operate", PARTS, measured)
