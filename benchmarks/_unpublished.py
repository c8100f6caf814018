"""Bytes that a hostile client writes and never publishes: how far they went above its quota."""

from pathlib import Path

from _harness import told_by_test

PREFIX = "unpublished: "


def measure(_directory: Path) -> dict[str, float]:
    """Run the test that holds the table of ways to write without a publication, and take the figure that it prints.

    Returns:
        `unpublished_bytes_over_quota`: the most bytes above the quota that any way had stored at once.

    Raises:
        RuntimeError: A way was not bounded or left bytes behind its session, or the test did not run.
    """
    name = "unpublished::unpublished_bytes_are_bounded_by_the_quota_and_shown_and_end_with_the_session"
    return told_by_test(name, PREFIX)
