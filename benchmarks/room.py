"""The control room: how soon its pages are there, what 1,000 jobs cost it that are refreshed each second, what its
history takes, and which findings and refusals tests confirm.

make bench-room      the last line is one JSON object
.venv/bin/python benchmarks/room.py pages cut-off
"""

from collections.abc import Mapping

from _harness import measure_parts, measured_by

PARTS = {
    "pages": (
        "_room_pages",
        (
            *("page_seconds", "refresh_cpu_percent_1000_jobs", "unwatched_cpu_percent_1000_jobs"),
            *("rows_shown", "refreshes_a_second"),
        ),
    ),
    "history": ("_room_kept", ("store_overhead_percent", "history_bytes_per_job_day")),
    "findings": ("_room_findings", ("findings_provoked", "findings_right", "findings")),
    "changes": ("_room_changes", ("actions", "actions_without_right_refused")),
    "cut-off": ("_room_cut_off", ("health_seconds_cut_off_host",)),
}
"""The module of each part, and the figures that it owes."""


def measured(name: str) -> Mapping[str, float | None]:
    """The figures of one part."""
    return measured_by(PARTS[name][0])


if __name__ == "__main__":
    measure_parts("room", PARTS, measured)
