"""The control room: how soon its pages are there, and what 1,000 jobs cost it that are refreshed each second.

make bench-room      the last line is one JSON object
.venv/bin/python benchmarks/room.py pages
"""

from collections.abc import Mapping

from _harness import measure_parts, measured_by

PARTS = {
    "pages": (
        "_room_pages",
        ("page_seconds", "refresh_cpu_percent_1000_jobs", "unwatched_cpu_percent_1000_jobs", "rows_shown"),
    ),
}
"""The module of each part, and the figures that it owes."""


def measured(name: str) -> Mapping[str, float | None]:
    """The figures of one part."""
    return measured_by(PARTS[name][0])


if __name__ == "__main__":
    measure_parts("room", PARTS, measured)
