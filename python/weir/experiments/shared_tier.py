"""A shared tier under noise: one Weir target of a limited speed, and programs that write checkpoints onto it.

The paper's noise (table V) with times and sizes divided by the same number, so that bandwidths stay what they are. The
store serves requests in the order they come, as file systems without quality of service do.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from weir.experiments.store import PREFIX, ExperimentError, Store

CAPACITY_MEGABYTES = 60.0
"""Capacity of the shared tier in megabytes a second; the lower one of the two capacities of the forecasts."""
_REQUEST_BYTES = 4 << 20
"""Bytes of a writer's request before they are scaled down: an object of Ceph. The larger it is, the less is left for
readers in between."""
_START_SECONDS = 3.0
"""Time until all programs have started."""
_END_SECONDS = 10.0
"""Longest time until a program has ended after a signal."""
_MEMORY = "3GiB"
_WAIT_SECONDS = 600.0
"""Longest time until a program has ended by itself, beyond the time that it is asked for."""


@dataclass(frozen=True)
class Noise:
    """A program that writes a checkpoint again and again."""

    megabytes: float
    period_seconds: float
    begin_seconds: float = 0.0
    """Time before which nothing is written."""
    weight: float = 1.0
    """Weight of the program on a device that is divided by weights; a store divides by its policy."""


PAPER = (Noise(256, 80), Noise(512, 60), Noise(768, 100))
"""The noise of the paper's table V."""
CADENCE_SECONDS = 25.0
"""Time from one step of the paper's analyses to the next."""
READ_MEGABYTES = 64.0
"""Megabytes that an analysis reads in a step, as in the paper's section II."""


class SharedTier:
    """The store, up inside a `with` block."""

    def __init__(self, *, scale: float, capacity_megabytes: float = CAPACITY_MEGABYTES) -> None:
        """Describe it.

        Args:
            scale: Divisor of the noise's times and sizes.
            capacity_megabytes: Speed of the target in megabytes a second.
        """
        self.scale = scale
        self.capacity_megabytes = capacity_megabytes
        self.store = Store(policy="fifo", speed=f"{capacity_megabytes:g}MB/s", capacity=_MEMORY)

    def __enter__(self) -> "SharedTier":
        """Bring the store up."""
        self.store.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the servers and remove their folder."""
        self.store.__exit__(kind, error, trace)

    @property
    def local(self) -> Path:
        """A folder on a tier that no other program uses."""
        return self.store.folder

    def url(self, name: str) -> str:
        """Name a folder on the shared tier, for programs that `run` starts."""
        return f"{PREFIX}/{name}"

    def epoch(self) -> float:
        """Choose the begin of all programs.

        Returns:
            A moment (CLOCK_MONOTONIC, seconds) at which every program started now is ready.
        """
        return time.monotonic() + _START_SECONDS

    def run(self, program: Sequence[str], specification: Mapping[str, Any]) -> Any:
        """Run a program of Python on the store.

        Args:
            program: Arguments of the interpreter; the specification follows as JSON.

        Returns:
            The JSON of its last line.

        Raises:
            ExperimentError: The program fails.
        """
        command = [sys.executable, *program, json.dumps(specification)]
        with self._started("analysis", command) as started:
            said, _ = started.communicate(timeout=_WAIT_SECONDS)
            if started.returncode != 0:
                raise ExperimentError(f"{' '.join(program)} ended with code {started.returncode}")
        return json.loads(said.splitlines()[-1])

    @contextmanager
    def noise(
        self, noises: Sequence[Noise], phases: Sequence[float], *, epoch: float, seconds: float
    ) -> Iterator[None]:
        """Run programs that write checkpoints, no longer than the block.

        Args:
            phases: Begins of the programs as parts of their periods, 0 to 1.
            epoch: Moment from which they write (CLOCK_MONOTONIC, seconds).
            seconds: Time for which they write, not scaled.

        Raises:
            ExperimentError: A program fails.
        """
        with ExitStack() as ends:
            writers = []
            for number, (noise, phase) in enumerate(zip(noises, phases, strict=True)):
                name = f"noise-{number}"
                period = noise.period_seconds / self.scale
                first = epoch + noise.begin_seconds / self.scale + phase * period
                size = noise.megabytes * 1e6 / self.scale
                words = [
                    str(word)
                    for word in (self.url(name), size, _REQUEST_BYTES / self.scale, period, first, epoch + seconds)
                ]
                command = [sys.executable, "-m", "weir.experiments.checkpoints", *words]
                writers.append(ends.enter_context(self._started(name, command)))
            yield
            for writer in writers:
                if (code := writer.wait(timeout=seconds + _WAIT_SECONDS)) != 0:
                    raise ExperimentError(f"a writer of checkpoints ended with code {code}")

    @contextmanager
    def _started(self, job: str, command: Sequence[str]) -> Iterator[subprocess.Popen[str]]:
        """A program on the store, which ends with the block at the latest."""
        # A group of its own: `weir run` is the program's parent, and both are to end.
        process = subprocess.Popen(
            [sys.executable, "-m", "weir.cli", "run", "--prefix", PREFIX, "--job", job, "--", *command],
            env=self.store.environment,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        try:
            yield process
        finally:
            _end(process)


def _end(process: subprocess.Popen[str]) -> None:
    """End a program's group, and wait for it."""
    if process.poll() is None:
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_END_SECONDS)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait(_END_SECONDS)
    if process.stdout is not None:
        process.stdout.close()
