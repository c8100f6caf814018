"""The end of commands that run until they are told to end."""

import math
import signal
import threading
import time
from collections.abc import Callable
from types import FrameType


def end_of_signals(seconds: float | None = None) -> Callable[[], bool]:
    """Watch for SIGINT and SIGTERM from now on.

    Args:
        seconds: Time from now after which the process ends as well; None for no such time.

    Returns:
        A function that tells whether the process was told to end, or its time is over.
    """
    limit = math.inf if seconds is None else time.monotonic() + seconds
    told = threading.Event()

    def tell(_number: int, _frame: FrameType | None) -> None:
        told.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, tell)
    return lambda: told.is_set() or time.monotonic() >= limit
