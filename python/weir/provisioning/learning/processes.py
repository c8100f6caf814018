"""The processors of this machine as a pool, by joblib."""

import os
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from functools import cache
from typing import Any, TypeVar

from weir.simulation.sweeps.pools import Task, Work

T = TypeVar("T", bound=Task)
A = TypeVar("A")
_AHEAD = 2
"""Tasks for each process that are handed out: one under way, one that waits for its end."""

_WATCH_SECONDS = 1.0
"""Time between two looks whether the program is still there."""


class Processes:
    """Processes of this machine. They end with the program, however it ends."""

    def __init__(self, count: int) -> None:
        """Describe the pool.

        Args:
            count: Number of processes.
        """
        self.count = count

    def answers(self, work: Work[T, A], tasks: Iterable[T]) -> Generator[tuple[T, A], None, None]:
        """Evaluate tasks; see `weir.simulation.sweeps.pools.Pool.answers`.

        Args:
            work: The evaluation; its errors are raised here.

        Yields:
            Each task with its answer, in the order in which they end.
        """
        from joblib import Parallel, delayed

        # joblib takes tasks in several threads of its own; a generator may run in one at a time.
        one_by_one = _Guarded(iter(tasks))
        parallel = Parallel(
            n_jobs=self.count, return_as="generator_unordered", pre_dispatch=_AHEAD * self.count, batch_size=1
        )
        yield from parallel(delayed(_answered)(work, task, os.getpid()) for task in one_by_one)


class _Guarded:
    def __init__(self, of: Iterator[Any]) -> None:
        self._of = of
        self._lock = threading.Lock()

    def __iter__(self) -> "Iterator[Any]":
        return self

    def __next__(self) -> Any:
        with self._lock:
            return next(self._of)


def _answered(work: Callable[..., A], task: T, program: int) -> tuple[T, A]:
    _end_with(program)
    return task, work(task, _always)


@cache
def _end_with(program: int) -> None:
    """End this process when the program has ended: joblib's wait five minutes for the next task of a killed one."""

    def watch() -> None:
        while os.getppid() == program:
            time.sleep(_WATCH_SECONDS)
        os._exit(1)

    # One process alone does its tasks in the program itself.
    if os.getpid() != program:
        threading.Thread(target=watch, daemon=True).start()


def _always() -> bool:
    return True
