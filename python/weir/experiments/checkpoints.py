"""A simulation's I/O: writes a checkpoint of one file again and again.

python -m weir.experiments.checkpoints PATH BYTES REQUEST_BYTES PERIOD_SECONDS FIRST END, the last two on
CLOCK_MONOTONIC; `weir run` starts it.
"""

import os
import sys
import threading
import time

CONNECTIONS = 2
"""Requests that a writer, and the analysis, have under way at once: the device is shared evenly."""
_WAIT_SECONDS = 60.0
"""Longest wait for the other connection: one that has failed ends both."""


def main(path: str, size: int, request: int, period_seconds: float, first: float, end: float) -> None:
    """Write until `end`."""
    file = os.open(path, os.O_WRONLY | os.O_CREAT, 0o644)
    data = os.urandom(request)
    together = threading.Barrier(CONNECTIONS)
    failed = []

    def write(number: int) -> None:
        when = first
        try:
            while when < end:
                time.sleep(max(when - time.monotonic(), 0))
                together.wait(_WAIT_SECONDS)
                for offset in range(number * request, size, CONNECTIONS * request):
                    os.pwrite(file, data[: size - offset], offset)
                when += period_seconds
        except (OSError, threading.BrokenBarrierError) as error:
            failed.append(error)
            together.abort()

    threads = [threading.Thread(target=write, args=(number,)) for number in range(CONNECTIONS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        sys.exit(f"{path}: {failed[0]!r}")


if __name__ == "__main__":
    path, *numbers = sys.argv[1:]
    size, request, period_seconds, first, end = map(float, numbers)
    main(path, int(size), int(request), period_seconds, first, end)
