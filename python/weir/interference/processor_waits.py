"""Time for which processes wait for a processor: the machine's own noise in the times of operations.

The kernel counts it for each thread (`/proc/PID/schedstat`, the second number; Documentation/scheduler/sched-stats).
An operation takes as much longer as its program waited, and as the server waited meanwhile.
"""

import os
import threading
import time
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

_SAMPLE_SECONDS = 0.02
"""Time between two looks at the processes."""
_FIELDS = 3


def waited_seconds(statistics: bytes) -> float:
    """Read the time for which a thread waited for a processor.

    Args:
        statistics: Content of a file `schedstat`.

    Raises:
        ValueError: It is no such content.
    """
    fields = statistics.split()
    if len(fields) != _FIELDS:
        raise ValueError(f"{statistics!r} is not a thread's schedstat")
    return int(fields[1]) / 1e9


class OwnWaits:
    """The time for which this thread waited for a processor so far."""

    def __init__(self) -> None:
        """Open the kernel's count; a kernel without one counts nothing."""
        self._file: int | None = None
        with suppress(OSError):
            self._file = os.open("/proc/thread-self/schedstat", os.O_RDONLY | os.O_CLOEXEC)

    def seconds(self) -> float:
        """Read the count.

        Returns:
            Seconds; 0 where the kernel does not count.
        """
        return 0.0 if self._file is None else waited_seconds(os.pread(self._file, 128, 0))


class ProcessWaits:
    """The time for which other processes waited for a processor, by the clock.

    A server does the work of requests on its first thread, so that thread counts.
    """

    def __init__(self, samples: Sequence[Sequence[tuple[float, float]]] = ()) -> None:
        """Take samples.

        Args:
            samples: Unix time and seconds waited so far, in order, for each process.
        """
        self._times = [[time for time, _ in each] for each in samples]
        self._waited = [[waited for _, waited in each] for each in samples]

    def between(self, begin: float, end: float) -> float:
        """The time waited between two moments, of the process that waited longest.

        Args:
            begin: Unix time in seconds.
            end: Unix time in seconds.

        Returns:
            Seconds, at most those between the moments; between samples it grows evenly.
        """
        found = (self._until(number, end) - self._until(number, begin) for number in range(len(self._times)))
        return min(max(found, default=0.0), max(end - begin, 0.0))

    def _until(self, number: int, moment: float) -> float:
        times, waited = self._times[number], self._waited[number]
        place = bisect_right(times, moment)
        if place in (0, len(times)):
            return waited[place - 1] if place else (waited[0] if waited else 0.0)
        part = (moment - times[place - 1]) / (times[place] - times[place - 1])
        return waited[place - 1] + part * (waited[place] - waited[place - 1])


class Sampling:
    """Looks at processes every few milliseconds, on a thread of its own."""

    def __init__(self, pids: Sequence[int]) -> None:
        """Choose processes.

        Args:
            pids: Numbers of processes of this machine.
        """
        self._files = [Path(f"/proc/{pid}/schedstat") for pid in pids]
        self._samples: list[list[tuple[float, float]]] = [[] for _ in pids]
        self._is_over = threading.Event()

    @contextmanager
    def running(self) -> Iterator["Sampling"]:
        """Sample for the length of a block."""
        thread = threading.Thread(target=self._sample, name="weir-processor-waits", daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self._is_over.set()
            thread.join()

    def waits(self) -> ProcessWaits:
        """The samples so far."""
        return ProcessWaits(self._samples)

    def _sample(self) -> None:
        while not self._is_over.is_set():
            for file, samples in zip(self._files, self._samples, strict=True):
                # A server that ended waits no more, and a kernel without the count has no file.
                with suppress(OSError, ValueError):
                    waited = waited_seconds(file.read_bytes())
                    samples.append((time.time(), waited))
            self._is_over.wait(_SAMPLE_SECONDS)
