"""The cost of the room's history: time of a server, and bytes for a job and a day."""

from pathlib import Path

from _history_cost import DAYS, processors, space


def measure(directory: Path) -> dict[str, float]:
    """Measure both, as `make bench-history` does."""
    return {
        "store_overhead_percent": 100 * processors(directory)["recorder_server_time_ratio"],
        "history_bytes_per_job_day": space()["history_bytes_35_days_of_a_job"] / DAYS,
    }
