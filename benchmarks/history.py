"""The history of a store: what recording costs, and how near replays come to the truth.

make bench-history      both parts; the last line is one JSON object
.venv/bin/python benchmarks/history.py cost replay
"""

from collections.abc import Mapping

from _harness import measure_parts, measured_by

PARTS = {
    "cost": (
        "_history_cost.py",
        (
            "recorder_server_time_ratio",
            "recorder_server_time_without_ratio",
            "recorder_own_time_ratio",
            "history_bytes_35_days",
            "history_bytes_35_days_of_a_job",
        ),
    ),
    "replay": (
        "_history_replay.py",
        (
            "replay_error_max",
            "replay_error_median",
            "replay_error_same_policy_max",
            "replay_change_max",
            "replay_repeat_error_max",
        ),
    ),
}


def measure(part: str) -> Mapping[str, float | None]:
    """The figures of one part."""
    return measured_by(f"_history_{part}")


if __name__ == "__main__":
    measure_parts("history", PARTS, measure)
