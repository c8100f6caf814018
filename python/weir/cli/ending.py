"""The end of commands that run until they are told to end."""

import signal
import threading
from collections.abc import Callable
from types import FrameType


def end_of_signals() -> Callable[[], bool]:
    """Watch for SIGINT and SIGTERM from now on.

    Returns:
        A function that tells whether the process was told to end.
    """
    told = threading.Event()

    def tell(_number: int, _frame: FrameType | None) -> None:
        told.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, tell)
    return told.is_set
