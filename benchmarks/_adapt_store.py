"""A shared tier under noise: one Weir target of a limited speed, and programs that write checkpoints onto it.

The paper's noise (table V) with times and sizes divided by the same number, so that bandwidths stay what they are. The
store serves requests in the order they come, as file systems without quality of service do.
"""

import json
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

from _noise import Noise
from _running import ROOT, WAIT_SECONDS
from weir.experiments.store import PREFIX, WEIR, Store

CAPACITY_MEGABYTES = 60.0
"""A second, of the shared tier; the lower one of the two that forecasts are judged at."""
CONNECTIONS = 2
"""Requests that a writer, and the analysis, have under way at once: the device is shared evenly."""
_REQUEST_BYTES = 256 << 10
_START_SECONDS = 3.0
"""Until all programs have started."""
_MEMORY = "3GiB"

_WRITER = f"""
import os, sys, threading, time
path, size, period, first, end = sys.argv[1], *map(float, sys.argv[2:])
size, part = int(size), {_REQUEST_BYTES}
file = os.open(path, os.O_WRONLY | os.O_CREAT, 0o644)
data = os.urandom(part)
barrier = threading.Barrier({CONNECTIONS})
def write(number):
    when = first
    while when < end:
        time.sleep(max(when - time.monotonic(), 0))
        barrier.wait()
        for offset in range(number * part, size, {CONNECTIONS} * part):
            os.pwrite(file, data[: size - offset], offset)
        when += period
threads = [threading.Thread(target=write, args=(number,)) for number in range({CONNECTIONS})]
for thread in threads: thread.start()
for thread in threads: thread.join()
"""


class SharedTier:
    """The store, up inside a `with` block."""

    def __init__(self, *, scale: float, capacity_megabytes: float = CAPACITY_MEGABYTES) -> None:
        """Describe it: times and sizes of the noise are divided by `scale`."""
        self.scale = scale
        self.capacity_megabytes = capacity_megabytes
        self.store = Store(policy="fifo", speed=f"{capacity_megabytes:g}MB/s", options=("--capacity", _MEMORY))

    def __enter__(self) -> "SharedTier":
        self.store.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.store.__exit__(kind, error, trace)

    @property
    def local(self) -> Path:
        """A folder on a tier that nobody else uses."""
        return self.store.folder

    def url(self, name: str) -> str:
        """A folder on the shared tier, for programs that `run` starts."""
        return f"{PREFIX}/{name}"

    def epoch(self) -> float:
        """A moment (CLOCK_MONOTONIC, seconds) at which every program started now is ready."""
        return time.monotonic() + _START_SECONDS

    def run(self, program: str, specification: Mapping[str, Any]) -> Any:
        """Run `benchmarks/PROGRAM.py` on the store, and return the JSON of its last line."""
        command = [sys.executable, str(ROOT / f"benchmarks/{program}.py"), json.dumps(specification)]
        done = subprocess.run(
            self._on_store(program, command),
            env=self.store.environment,
            stdout=subprocess.PIPE,
            text=True,
            timeout=WAIT_SECONDS,
        )
        if done.returncode != 0:
            raise SystemExit(f"{program} ended with code {done.returncode}")
        return json.loads(done.stdout.splitlines()[-1])

    @contextmanager
    def noise(
        self, noises: Sequence[Noise], phases: Sequence[float], *, epoch: float, seconds: float
    ) -> Iterator[None]:
        """Programs that write from `epoch` on, for the scaled `seconds` and no longer than the block.

        `phases` say where in its period each begins, 0 to 1.
        """
        writers = []
        try:
            for number, (noise, phase) in enumerate(zip(noises, phases, strict=True)):
                period = noise.period_seconds / self.scale
                first = epoch + noise.begin_seconds / self.scale + phase * period
                size = noise.megabytes * 1e6 / self.scale
                words = [str(word) for word in (self.url(f"noise-{number}"), size, period, first, epoch + seconds)]
                command = self._on_store(f"noise-{number}", [sys.executable, "-c", _WRITER, *words])
                writers.append(subprocess.Popen(command, env=self.store.environment))
            yield
            for writer in writers:
                if (code := writer.wait(timeout=WAIT_SECONDS)) != 0:
                    raise SystemExit(f"a writer ended with code {code}")
        finally:
            for writer in writers:
                if writer.poll() is None:
                    writer.terminate()
                    writer.wait()

    def _on_store(self, job: str, command: Sequence[str]) -> list[str]:
        return [*WEIR, "run", "--prefix", PREFIX, "--job", job, "--", *command]
