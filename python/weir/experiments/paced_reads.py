"""An analysis' I/O: reads as many bytes of one file at each step, at a fixed pace, and measures the bandwidth.

python -m weir.experiments.paced_reads SPECIFICATION, with the fields of `Reading` as JSON; `weir run` starts it.
"""

import json
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from weir.experiments.checkpoints import CONNECTIONS


@dataclass(frozen=True, kw_only=True)
class Reading:
    """The work of the program."""

    path: str
    """A file, which is written first."""
    step_bytes: int
    request_bytes: int
    period_seconds: float
    epoch: float
    """Begin of the first step (CLOCK_MONOTONIC, seconds)."""
    steps: int


def read(what: Reading) -> list[float]:
    """Read at the pace.

    Returns:
        Bandwidth of each step, in bytes a second.
    """
    file = os.open(what.path, os.O_RDWR | os.O_CREAT, 0o644)
    for offset in range(0, what.step_bytes, what.request_bytes):
        os.pwrite(file, os.urandom(min(what.request_bytes, what.step_bytes - offset)), offset)

    def part(number: int) -> None:
        for offset in range(number * what.request_bytes, what.step_bytes, CONNECTIONS * what.request_bytes):
            os.pread(file, min(what.request_bytes, what.step_bytes - offset), offset)

    bandwidths = []
    with ThreadPoolExecutor(CONNECTIONS) as threads:
        for number in range(what.steps):
            time.sleep(max(what.epoch + number * what.period_seconds - time.monotonic(), 0))
            begun = time.monotonic()
            list(threads.map(part, range(CONNECTIONS)))
            bandwidths.append(what.step_bytes / (time.monotonic() - begun))
    return bandwidths


if __name__ == "__main__":
    print(json.dumps(read(Reading(**json.loads(sys.argv[1])))))
