"""Bytes that a hostile client writes and never publishes: how far they went above its quota."""

import json
import subprocess
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parent.parent
TEST_SECONDS = 3600
"""Longest time of a run, with a build, on a busy machine."""
PREFIX = "unpublished: "


def measure(_directory: Path) -> dict[str, Any]:
    """Run the test that holds the table of ways to write without a publication, and take the figure that it prints.

    Returns:
        `unpublished_bytes_over_quota`: the most bytes above the quota that any way had stored at once.

    Raises:
        RuntimeError: A way was not bounded or left bytes behind its session, or the test did not run.
    """
    name = "unpublished::unpublished_bytes_are_bounded_by_the_quota_and_shown_and_end_with_the_session"
    command = ["cargo", "test", "--quiet", "-p", "weir-server", "--test", "all", name, "--", "--nocapture"]
    answer = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=TEST_SECONDS, check=False)
    figures = [line.partition(PREFIX)[2] for line in answer.stdout.splitlines() if PREFIX in line]
    if answer.returncode != 0 or len(figures) != 1:
        raise RuntimeError(f"{' '.join(command)} gave {answer.returncode}:\n{answer.stdout}{answer.stderr}")
    measured: dict[str, Any] = json.loads(figures[0])
    return measured
