"""Bounded waits of tests, as `weir_testing::wait_until` is for Rust."""

import time
from collections.abc import Callable

PATIENCE_SECONDS = 600.0
"""The bound on all that a test waits for. A quiet machine takes no tenth of it, so only a hang meets it."""
PAUSE_SECONDS = 0.02


def wait_until(what: str, condition: Callable[[], bool]) -> None:
    """Wait until a condition holds.

    Args:
        what: The condition in words, for the message of a test that waits too long.
        condition: It is asked again and again.
    """
    end = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < end, f"waited too long until {what}"
        time.sleep(PAUSE_SECONDS)
