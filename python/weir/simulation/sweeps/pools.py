"""Places where points are evaluated: the threads of this machine, or the workers of a Dask cluster.

A pool takes tasks when it has room for them and gives answers as they come, so a sweep of any size holds a few points
in memory. An answer depends on its task alone, never on the pool.
"""

import threading
import time
from collections.abc import Callable, Generator, Iterable
from concurrent import futures
from itertools import islice
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from weir.simulation.sweeps.errors import SweepError

if TYPE_CHECKING:
    from distributed import Client, Future

_AHEAD = 2
"""Tasks for each thread that are handed out: one under way, one that waits for its end."""
_WAIT_SECONDS = 1.0
"""Time after which a wait for workers looks whether any is left."""
_WORKERS_GONE_SECONDS = 120.0
"""Time without any worker after which a sweep on a cluster gives up: a lost worker's successor starts within it."""
_RESUBMISSIONS_MAX = 3
"""Times that a task is handed out again after the cluster lost it without an error of the task."""


class Task(Protocol):
    """A point to evaluate; it travels to other machines."""

    @property
    def key(self) -> str:
        """Name of the task, unlike any other's."""


T = TypeVar("T", bound=Task)
A = TypeVar("A")
Work = Callable[[T, Callable[[], bool]], A]
"""Evaluation of a task: a function of a module. The second argument tells whether the answer is still wanted; a work
that hears no may answer anything."""


class Pool(Protocol):
    """A place where tasks are evaluated."""

    def answers(self, work: Work[T, A], tasks: Iterable[T]) -> Generator[tuple[T, A], None, None]:
        """Evaluate tasks.

        Yields:
            Each task with its answer, in the order in which they end.
        """


class Threads:
    """The threads of this process: the simulator runs without the interpreter's lock."""

    def __init__(self, count: int) -> None:
        """Describe the pool.

        Args:
            count: Number of threads.
        """
        self.count = count

    def answers(self, work: Work[T, A], tasks: Iterable[T]) -> Generator[tuple[T, A], None, None]:
        """Evaluate tasks; see `Pool.answers`.

        Args:
            work: The evaluation; its errors are raised here.

        Yields:
            Each task with its answer, in the order in which they end.
        """
        ended = threading.Event()
        waiting = iter(tasks)
        under_way: dict[futures.Future[A], T] = {}
        with futures.ThreadPoolExecutor(self.count) as executor:
            try:
                while True:
                    for task in islice(waiting, self.count * _AHEAD - len(under_way)):
                        under_way[executor.submit(work, task, lambda: not ended.is_set())] = task
                    if not under_way:
                        return
                    done, _ = futures.wait(under_way, return_when=futures.FIRST_COMPLETED)
                    for future in [each for each in under_way if each in done]:
                        yield under_way.pop(future), future.result()
            finally:
                ended.set()
                for future in under_way:
                    future.cancel()


class Dask:
    """The workers of a Dask cluster. A task of a worker that ends goes to another worker."""

    def __init__(self, client: "Client") -> None:
        """Describe the pool.

        Args:
            client: A client of the cluster's scheduler.
        """
        self._client = client
        self._seen_seconds = time.monotonic()

    def answers(self, work: Work[T, A], tasks: Iterable[T]) -> Generator[tuple[T, A], None, None]:
        """Evaluate tasks; see `Pool.answers`.

        Args:
            work: The evaluation; its errors are raised here.

        Yields:
            Each task with its answer, in the order in which they end.

        Raises:
            SweepError: A task ended one worker after the other, or no worker is left.
        """
        waiting = iter(tasks)
        under_way: dict[Future, T] = {}
        losses: dict[str, int] = {}
        try:
            while True:
                room = _AHEAD * max(1, sum(self._client.nthreads().values())) - len(under_way)
                for task in islice(waiting, max(0, room)):
                    under_way[self._handed_out(work, task)] = task
                if not under_way:
                    return
                for future in self._ended(under_way):
                    task = under_way.pop(future)
                    if future.status in ("cancelled", "lost"):
                        losses[task.key] = losses.get(task.key, 0) + 1
                        if losses[task.key] > _RESUBMISSIONS_MAX:
                            raise SweepError(f"the cluster lost {task.key} {losses[task.key]} times")
                        under_way[self._handed_out(work, task)] = task
                        continue
                    yield task, _answer(future, task)
        finally:
            self._client.cancel(list(under_way))

    def _handed_out(self, work: Work[T, A], task: T) -> "Future":
        from uuid import uuid4

        # A key that no other run on this scheduler has: an old answer under the same key would be taken for this one's.
        return self._client.submit(work, task, _always, key=f"{task.key}-{uuid4().hex}", pure=False)

    def _ended(self, under_way: "dict[Future, T]") -> "list[Future]":
        """Futures that have ended; waits for the first of them while there are workers."""
        from distributed import wait

        while True:
            try:
                with self._client.as_current():
                    wait(list(under_way), timeout=_WAIT_SECONDS, return_when="FIRST_COMPLETED")
            except TimeoutError:
                self._check_workers()
            ended = [future for future in under_way if future.status != "pending"]
            if ended:
                return ended

    def _check_workers(self) -> None:
        now = time.monotonic()
        if self._client.status != "running":
            raise SweepError(
                "the connection to the Dask scheduler is lost",
                hint="start it again; the same command then goes on",
            )
        if self._client.nthreads():
            self._seen_seconds = now
        elif now - self._seen_seconds > _WORKERS_GONE_SECONDS:
            raise SweepError(
                f"no worker is left on the Dask cluster for {_WORKERS_GONE_SECONDS:.0f} s",
                hint="start workers; the same command then goes on",
            )


def _always() -> bool:
    """Whether an answer is wanted, on a worker: a task that is not wanted any more is cancelled by the scheduler."""
    return True


def _answer(future: Any, task: Task) -> Any:
    from distributed import KilledWorker

    try:
        return future.result()
    except KilledWorker as error:
        raise SweepError(
            f"{task.key} ended the workers that ran it, one after the other: {error}",
            hint="look at their logs; more memory for each worker may be needed",
        ) from error
