"""Workers that share one bounded list of works."""

import threading
from collections import deque
from collections.abc import Callable
from typing import Protocol

from weir.staging.contents import Scratch
from weir.staging.errors import FatalError, StoppedError

WORKS_MAX = 64
"""Most works in the list: a work of small files holds the names of one batch, and a large file two descriptors."""
_WAIT_SECONDS = 0.2
"""Interval in which a waiting caller sees signals and shows the progress."""

Unit = Callable[[Scratch], None]


class Work(Protocol):
    """A file, or several small ones."""

    def take(self) -> Unit | None:
        """Take the next unit.

        Returns:
            The unit; None where all were taken.
        """


class Workers:
    """Threads that take units of works until all are done, or one fails."""

    def __init__(self, count: int, stop: threading.Event, tick: Callable[[], None]) -> None:
        """Start the workers.

        Args:
            count: Number of the workers.
            stop: Event after which no further unit is taken.
            tick: Called by the waiting caller in intervals.
        """
        self._stop = stop
        self._tick = tick
        self._works: deque[Work] = deque()
        self._changed = threading.Condition()
        self._busy = 0
        self._is_over = False
        self._failure: BaseException | None = None
        self._threads = [threading.Thread(target=self._run, daemon=True, name=f"stage-{n}") for n in range(count)]
        for thread in self._threads:
            thread.start()

    def add(self, work: Work) -> None:
        """Add a work behind the others; waits while the list is full.

        Raises:
            BaseException: The failure of a worker.
        """
        with self._changed:
            while len(self._works) >= WORKS_MAX:
                self._pause()
            self._works.append(work)
            self._changed.notify()
        self._tick()

    def continue_first(self, work: Work) -> None:
        """Put a work that goes on in front of the others, from a worker; it was in the list before."""
        with self._changed:
            self._works.appendleft(work)
            self._changed.notify_all()

    def wait(self) -> None:
        """Wait until every work is done.

        Raises:
            BaseException: The failure of a worker.
        """
        with self._changed:
            while self._works or self._busy:
                self._pause()
            self._check()

    def end(self) -> None:
        """End the workers; units that were begun are finished, or stop at their next block."""
        with self._changed:
            self._is_over = True
            self._works.clear()
            self._changed.notify_all()
        for thread in self._threads:
            thread.join()

    def _pause(self) -> None:
        self._check()
        self._changed.wait(_WAIT_SECONDS)
        self._tick()
        self._check()

    def _check(self) -> None:
        if self._failure is not None:
            raise self._failure
        if self._stop.is_set():
            raise StoppedError

    def _run(self) -> None:
        scratch = Scratch(self._stop)
        while (unit := self._take()) is not None:
            try:
                unit(scratch)
            except BaseException as error:
                self._fail(error)
            with self._changed:
                self._busy -= 1
                self._changed.notify_all()

    def _take(self) -> Unit | None:
        with self._changed:
            while True:
                while self._works and not self._is_over:
                    unit = self._works[0].take()
                    if unit is not None:
                        self._busy += 1
                        return unit
                    self._works.popleft()
                    self._changed.notify_all()
                if self._is_over:
                    return None
                self._changed.wait()

    def _fail(self, error: BaseException) -> None:
        with self._changed:
            # The cause is told, and not that the others were stopped by it.
            if self._failure is None or (isinstance(self._failure, StoppedError) and isinstance(error, FatalError)):
                self._failure = error
            self._stop.set()
            self._works.clear()
