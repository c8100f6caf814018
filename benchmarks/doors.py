"""Doors of a store: what a sealed channel costs, and what a stranger, a lost folder or a flood gets.

make bench-doors        every figure, as root; the last line is one JSON object
.venv/bin/python benchmarks/doors.py adversary channel folders attributes unpublished planner
"""

from collections.abc import Mapping

from _harness import measure_parts, measured_by

PARTS: dict[str, tuple[str, tuple[str, ...]]] = {
    "adversary": ("_doors_adversary", ("doors", "doors_refused_right")),
    "channel": ("_doors_channel", ("sealed_write_ratio", "sealed_read_4k_ratio")),
    "folders": ("_doors_folders", ("unmounted_disk_refused", "lost_journal_refused")),
    "attributes": ("_attribute_flood", ("attribute_flood_memory_mib", "attribute_flood_stat_ms_max")),
    "unpublished": ("_unpublished", ("unpublished_bytes_over_quota",)),
    "planner": ("_planner_flood", ("planner_flood_validate_ms_p99", "planner_quiet_validate_ms_p99")),
}
"""The module of each part, and the figures that it owes."""


def measured(name: str) -> Mapping[str, float | None]:
    """The figures of one part."""
    return measured_by(PARTS[name][0])


if __name__ == "__main__":
    measure_parts("doors", PARTS, measured)
