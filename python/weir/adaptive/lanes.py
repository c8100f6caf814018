"""Threads that read from one tier; no caller waits for a thread that hangs.

A read of a file system cannot be cancelled. A read that is given up keeps its thread until the file system answers.
Other threads take its place up to a limit. Beyond the limit reads wait, until they are given up in turn.
"""

import math
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import TypeVar

HANGING_READS_MAX = 8
"""Most threads of one tier that may hang in reads that were given up."""
_PATIENCE_SECONDS = 10.0
"""Time after which one more thread is tried if all of these threads hang, and then after twice as long each time: a
file system may have recovered although its earlier reads never answer."""
_IDLE_SECONDS = 5.0
"""Time that a thread without work stays."""


Answer = TypeVar("Answer")


class HangError(Exception):
    """An action took too long, and was given up."""


class Read:
    """One action of a lane.

    Attributes:
        action: The action, which raises nothing.
        given_up: Whether no caller waits for the action any more.
    """

    def __init__(self, action: Callable[[], None]) -> None:
        """Wrap an action.

        Args:
            action: The action; it must raise nothing.
        """
        self.action = action
        self.given_up = False


class Lane:
    """The reads of one tier in order, with a bound on reads at once."""

    def __init__(self, name: str, connections: int, *, idle_seconds: float = _IDLE_SECONDS) -> None:
        """Begin without threads.

        Args:
            name: Name of the tier, for the names of the threads.
            connections: Most reads under way at once.
            idle_seconds: Time after which a thread without work ends.
        """
        self._name = name
        self._connections = connections
        self._idle_seconds = idle_seconds
        self._changed = threading.Condition()
        self._waiting: deque[Read] = deque()
        self._active = 0
        self._idle = 0
        self._threads = 0
        self._hanging = 0
        self._forgiven = 0
        self._patience = _PATIENCE_SECONDS
        self._forgive_at = math.inf

    def submit(self, read: Read) -> None:
        """Do a read as soon as a connection is free."""
        with self._changed:
            self._waiting.append(read)
            self._changed.notify()
            self._staff()

    def answer(self, action: Callable[[], Answer], seconds: float) -> Answer:
        """Do an action, and return or raise its outcome.

        Args:
            seconds: Longest wait for the action.

        Returns:
            The result of the action.

        Raises:
            HangError: The action takes longer, and is given up.
        """
        future: Future[Answer] = Future()

        def act() -> None:
            try:
                future.set_result(action())
            except BaseException as error:
                future.set_exception(error)

        read = Read(act)
        self.submit(read)
        try:
            if not wait([future], seconds).done:
                raise HangError
            return future.result()
        finally:
            self.give_up(read)

    def give_up(self, read: Read) -> None:
        """Give up a read: it never begins, or it no longer counts as a connection."""
        with self._changed:
            if read.given_up:
                return
            read.given_up = True
            if read in self._waiting:
                self._waiting.remove(read)
                return
            self._active -= 1
            self._hanging += 1
            self._changed.notify()
            self._staff()

    def _staff(self) -> None:
        wanted = min(len(self._waiting), self._connections - self._active) - self._idle
        room = self._connections + HANGING_READS_MAX + self._forgiven - self._threads
        if wanted > 0 and room <= 0:
            now = time.monotonic()
            if now >= self._forgive_at:
                self._forgiven += 1
                room += 1
                self._patience *= 2
                self._forgive_at = math.inf
            self._forgive_at = min(self._forgive_at, now + self._patience)
        for _ in range(min(wanted, room)):
            self._threads += 1
            self._idle += 1
            # The threads are daemons, since a program must end although a file system hangs.
            threading.Thread(target=self._work, name=f"weir-adaptive-{self._name}", daemon=True).start()

    def _work(self) -> None:
        while True:
            read = self._next()
            if read is None:
                return
            read.action()
            with self._changed:
                self._idle += 1
                if read.given_up:
                    self._hanging -= 1
                    if not self._hanging:
                        self._forgiven, self._patience, self._forgive_at = 0, _PATIENCE_SECONDS, math.inf
                else:
                    # A later call that gives it up then changes nothing.
                    read.given_up = True
                    self._active -= 1
                    self._changed.notify()

    def _next(self) -> Read | None:
        with self._changed:
            while not self._waiting or self._active >= self._connections:
                if not self._changed.wait(self._idle_seconds) and not self._waiting:
                    self._threads -= 1
                    self._idle -= 1
                    return None
            self._idle -= 1
            self._active += 1
            return self._waiting.popleft()
