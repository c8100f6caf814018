"""Turns of users at one thing that does one piece of work at a time, and slots that users hold as long as they like.

The event loop, and a process that reads scripts, are such things. The user whose work has taken least time goes first
(start-time fair queueing; Goyal, Vin and Cheng, SIGCOMM 1996), so a user waits for one piece of work of each other one,
however many pieces the others have. A user who asked for nothing saves no time up.
"""

import asyncio
import contextlib
import time
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Coroutine, Generator
from typing import Any, Generic, NamedTuple, TypeVar

_USERS_MAX = 1024
"""Users whose time is remembered. Beyond this number, users who are ahead of nobody are forgotten."""
Result = TypeVar("Result")


class Peer(NamedTuple):
    """The user at the other end of a connection."""

    uid: int
    is_privileged: bool = False
    """Whether the user may act for others. Root and the scheduler's user have each turn before ordinary users."""


class Turns:
    """The turns at one thing."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        """Begin with nobody at work.

        Args:
            clock: Reads the time in seconds.
        """
        self._clock = clock
        self._is_taken = False
        self._waiting: dict[Peer, deque[asyncio.Future[None]]] = {}
        self._due: dict[Peer, float] = {}
        """Virtual time of each user's next turn, in seconds of work."""
        self._now = 0.0
        """Virtual time of the last turn that began."""

    @contextlib.asynccontextmanager
    async def turn(self, peer: Peer) -> AsyncIterator[None]:
        """Wait for the turn of a user, and charge the user with the time of the block.

        Yields:
            Nothing.
        """
        begin = await self._taken(peer)
        try:
            yield
        finally:
            self._end(peer, begin)

    async def charged(self, peer: Peer, work: Coroutine[Any, Any, Result]) -> Result:
        """Do work whose every step on the event loop is a turn of a user. Between two steps the work has no turn."""
        return await _Steps(self, peer, work)

    async def _taken(self, peer: Peer) -> float:
        """Take a turn; returns the time of its begin."""
        self._due[peer] = max(self._due.get(peer, 0.0), self._now)
        if self._is_taken:
            own = asyncio.get_running_loop().create_future()
            self._waiting.setdefault(peer, deque()).append(own)
            try:
                await own
            except asyncio.CancelledError:
                if own.done() and not own.cancelled():
                    # The turn came in the same moment, and passes on.
                    self._end(peer, self._clock())
                else:
                    self._forget(peer, own)
                raise
        else:
            self._begin(peer)
        return self._clock()

    def _begin(self, peer: Peer) -> None:
        self._is_taken = True
        self._now = max(self._now, self._due[peer])

    def _end(self, peer: Peer, begin: float) -> None:
        if not peer.is_privileged:
            # Their time would put ordinary users who come later behind those who wait already.
            self._due[peer] += self._clock() - begin
        if self._waiting:
            self._pass_on()
        else:
            # A step takes no time for the tasks that run in the same turn of the loop. They wait for the next one, so
            # that the loop looks at its sockets between two steps.
            asyncio.get_running_loop().call_soon(self._pass_on)
        if len(self._due) > _USERS_MAX:
            self._due = {each: due for each, due in self._due.items() if due >= self._now or each in self._waiting}

    def _pass_on(self) -> None:
        self._is_taken = False
        while self._waiting and not self._is_taken:
            following = min(self._waiting, key=lambda each: (not each.is_privileged, self._due[each]))
            own = self._waiting[following][0]
            self._forget(following, own)
            # The task of one that is cancelled has not run since.
            if not own.cancelled():
                self._begin(following)
                own.set_result(None)

    def _forget(self, peer: Peer, own: asyncio.Future[None]) -> None:
        queue = self._waiting.get(peer, deque())
        if own in queue:
            queue.remove(own)
        if not queue:
            self._waiting.pop(peer, None)


class Slots:
    """Slots for work that may take for ever, because its user can stop it."""

    def __init__(self, total: int, per_user: int) -> None:
        """Begin with free slots.

        Args:
            total: Slots in all.
            per_user: Most slots of one user.
        """
        self._total = total
        self._per_user = per_user
        self._held: Counter[int] = Counter()
        self._waiting: dict[int, deque[asyncio.Future[None]]] = {}

    @contextlib.asynccontextmanager
    async def slot(self, uid: int) -> AsyncIterator[None]:
        """Hold a slot in the block. A user takes one more only if more are free than the user has.

        So one user, and any two, leave slots to others, who wait for nobody's work.

        Yields:
            Nothing.
        """
        own = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(uid, deque()).append(own)
        self._hand_out()
        try:
            await own
            yield
        finally:
            if own.done() and not own.cancelled():
                self._held[uid] -= 1
            self._hand_out()

    def _hand_out(self) -> None:
        """Give free slots to the waiting users who have fewest."""
        while True:
            free = self._total - self._held.total()
            for queue in self._waiting.values():
                while queue and queue[0].cancelled():
                    queue.popleft()
            self._waiting = {uid: queue for uid, queue in self._waiting.items() if queue}
            uid = min(self._waiting, key=lambda each: self._held[each], default=None)
            if uid is None or self._held[uid] >= min(self._per_user, free):
                break
            self._held[uid] += 1
            self._waiting[uid].popleft().set_result(None)
        self._held += Counter()


class _Steps(Generic[Result]):
    """A coroutine that takes a turn before each of its steps."""

    def __init__(self, turns: Turns, peer: Peer, work: Coroutine[Any, Any, Result]) -> None:
        self._turns = turns
        self._peer = peer
        self._work = work

    def __await__(self) -> Generator[Any, None, Result]:
        thrown: BaseException | None = None
        while True:
            begin = None
            try:
                begin = yield from self._turns._taken(self._peer).__await__()
            except asyncio.CancelledError as error:
                # Work that is cancelled cleans up without a turn.
                thrown = error
            except GeneratorExit:
                self._work.close()
                raise
            try:
                waited = self._work.send(None) if thrown is None else self._work.throw(thrown)
            except StopIteration as end:
                result: Result = end.value
                return result
            finally:
                if begin is not None:
                    self._turns._end(self._peer, begin)
            thrown = None
            try:
                yield waited
            except GeneratorExit:
                self._work.close()
                raise
            except BaseException as error:
                thrown = error
