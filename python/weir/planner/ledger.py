"""All deployments in memory, over a store that has every change before anybody hears of it."""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import msgspec

from weir.planner.errors import DatabaseError, PlannerError
from weir.planner.known import KnownJobs
from weir.planner.records import Fault, KnownJob, Record
from weir.planner.settings import (
    DEPLOYMENTS_MAX,
    DEPLOYMENTS_PER_USER_MAX,
    ENDED_PER_USER_MAX,
    ENDED_SECONDS_MAX,
)
from weir.planner.stores.contract import OUTCOMES_MAX, Store
from weir.provisioning.outcomes.outcome import Outcome

Key = tuple[int, str]
_PENDING_MAX = 1000
"""Known jobs that wait to be written. More are not remembered: they are parsed again, and nothing else is lost."""
Value = TypeVar("Value")


class Ledger:
    """The deployments, known jobs and faults of one planner.

    Reads come from memory and wait for nothing. A change is written first, in the one thread that uses the store, then
    it is seen. Changes follow each other.
    """

    def __init__(self, store: Store) -> None:
        """Take a store over.

        Args:
            store: The store, which nobody else uses.
        """
        self._store = store
        self._thread = ThreadPoolExecutor(1, "weir-planner-store")
        self._records: dict[Key, Record] = {}
        self._by_user: dict[int, set[Key]] = {}
        self._known = KnownJobs()
        self._pending: OrderedDict[tuple[int, str], KnownJob] = OrderedDict()
        self._faults: dict[tuple[str, int], Fault] = {}
        self._outcomes: dict[int, tuple[Outcome, ...]] = {}
        self._lock = asyncio.Lock()
        self._changed = asyncio.Event()
        self._holdings = 0
        self._version = 0
        self._writer: asyncio.Task[None] | None = None

    async def load(self) -> None:
        """Read everything from the store."""
        for record in await self._in_thread(self._store.records):
            self._put(record)
        for fault in await self._in_thread(self._store.faults):
            self._faults[fault.node, fault.uid] = fault

    def find(self, key: Key) -> Record | None:
        """Look a deployment up.

        Args:
            key: User and name.

        Returns:
            The deployment; None where there is none.
        """
        return self._records.get(key)

    def of_user(self, uid: int) -> Iterator[Record]:
        """List the deployments of a user.

        Yields:
            The deployments, in any order.
        """
        return (self._records[key] for key in self._by_user.get(uid, ()))

    def all(self) -> Iterable[Record]:
        """List the deployments of all users.

        Returns:
            The deployments, in any order.
        """
        return self._records.values()

    def sharers(self, record: Record) -> list[Record]:
        """Find the deployments that share a store.

        Args:
            record: The deployment that has the store.

        Returns:
            The others that use it, or will.
        """
        return [each for each in self.of_user(record.uid) if each.is_live and each.deployment.joins == record.name]

    @property
    def holdings(self) -> int:
        """A number that changes with the devices and stores that deployments hold."""
        return self._holdings

    def faults(self, now: float) -> list[Fault]:
        """List the faults of nodes.

        Args:
            now: Time in seconds.

        Returns:
            The faults that are not over.
        """
        return [fault for fault in self._faults.values() if fault.until > now]

    def check_free(self, key: Key) -> None:
        """Check that no live deployment has a name.

        Args:
            key: User and name.

        Raises:
            PlannerError: One has.
        """
        present = self._records.get(key)
        if present is not None and present.is_live:
            raise PlannerError(
                f"there is a deployment {key[1]}", hint="end it, or choose another name", code="conflict"
            )

    async def add(self, record: Record, check: Callable[[], None]) -> None:
        """Add a deployment.

        Args:
            record: The deployment. One of its key that has ended makes way.
            check: Raises where the deployment cannot be any more; called when nothing else changes.

        Raises:
            PlannerError: The name is taken, a limit is reached, or the check fails.
        """

        async def adding() -> None:
            async with self._lock:
                self.check_free(record.key)
                live = sum(each.is_live for each in self.of_user(record.uid))
                if live >= DEPLOYMENTS_PER_USER_MAX or len(self._records) >= 2 * DEPLOYMENTS_MAX:
                    raise PlannerError(
                        f"user {record.uid} has {live} deployments, and the planner {len(self._records)}",
                        hint="end some of them",
                        code="busy",
                    )
                check()
                await self._save(record)
                self._put(record)
                self._tell()

        await asyncio.shield(asyncio.ensure_future(adding()))

    async def change(self, key: Key, by: Callable[[Record], Record]) -> Record:
        """Change a deployment.

        Args:
            key: User and name.
            by: Makes the new deployment of the present one; the same one changes nothing.

        Returns:
            The new deployment.

        Raises:
            PlannerError: There is no such deployment.
            DatabaseError: The change could not be written, and did not happen.
        """

        async def changing() -> Record:
            async with self._lock:
                present = self._records.get(key)
                if present is None:
                    raise missing(key[1])
                made = by(present)
                if made is not present:
                    await self._save(made)
                    self._put(made)
                    self._tell()
                return made

        # A client that goes away must not leave a change half done.
        return await asyncio.shield(asyncio.ensure_future(changing()))

    @property
    def version(self) -> int:
        """A number that changes with everything."""
        return self._version

    async def wait(self, seconds: float, seen: int) -> None:
        """Wait until anything changes.

        Args:
            seconds: Longest wait.
            seen: The version that the caller saw: where it is not the present one, there is no wait.
        """
        if self._version != seen:
            return
        try:
            async with asyncio.timeout(max(seconds, 0.0)):
                await self._changed.wait()
        except TimeoutError:
            return

    async def known(self, uid: int, key: str) -> KnownJob | None:
        """Look a known job up.

        Returns:
            The job; None where it is not known.
        """
        found = self._known.find(uid, key)
        if found is not None:
            return found
        found = await self._in_thread(lambda: self._store.known(uid, key))
        if found is not None:
            self._known.keep(uid, key, found)
        return found

    def remember(self, uid: int, key: str, job: KnownJob) -> None:
        """Keep a known job, unless it is too long; it is written soon, beside other work."""
        if not self._known.keep(uid, key, job):
            return
        if len(self._pending) < _PENDING_MAX:
            self._pending[uid, key] = job
        if self._writer is None or self._writer.done():
            self._writer = asyncio.ensure_future(self._write_known())

    async def outcomes(self, uid: int) -> tuple[Outcome, ...]:
        """List the outcomes of a user's deployments.

        Returns:
            The outcomes, the latest last.
        """
        found = self._outcomes.get(uid)
        if found is None:
            found = self._outcomes[uid] = tuple(await self._in_thread(lambda: self._store.outcomes(uid)))
        return found

    async def keep_outcome(self, uid: int, outcome: Outcome) -> None:
        """Keep the outcome of a deployment.

        Raises:
            PlannerError: It could not be written.
        """
        before = await self.outcomes(uid)
        await self._in_thread(lambda: self._store.keep_outcome(uid, outcome))
        self._outcomes[uid] = (*before, outcome)[-OUTCOMES_MAX:]

    async def blame(self, fault: Fault) -> None:
        """Keep a fault of a node."""
        await self._in_thread(lambda: self._store.blame(fault))
        self._faults[fault.node, fault.uid] = fault
        self._holdings += 1
        self._tell()

    async def pardon(self, node: str) -> None:
        """Forget the faults of a node."""
        await self._in_thread(lambda: self._store.pardon(node))
        self._faults = {key: fault for key, fault in self._faults.items() if fault.node != node}
        self._holdings += 1
        self._tell()

    async def tidy(self, now: float) -> None:
        """Forget ended deployments that are old or many, and faults that are over.

        Args:
            now: Time in seconds.
        """
        async with self._lock:
            old: list[Key] = []
            for keys in self._by_user.values():
                ended = sorted((each for each in map(self._records.__getitem__, keys) if not each.is_live),
                               key=lambda each: -each.changed)  # fmt: skip
                old += [each.key for each in ended[ENDED_PER_USER_MAX:]]
                old += [each.key for each in ended[:ENDED_PER_USER_MAX] if each.changed < now - ENDED_SECONDS_MAX]
            if old:
                await self._in_thread(lambda: self._store.forget(old))
            for key in old:
                del self._records[key]
                self._by_user[key[0]].discard(key)
        for node in {fault.node for fault in self._faults.values() if fault.until <= now}:
            if all(fault.until <= now for fault in self._faults.values() if fault.node == node):
                await self.pardon(node)

    async def let_go(self, before: float) -> None:
        """Let others have the storage of plans that nobody sets up. The deployments stay, and are planned again then.

        Args:
            before: Time in seconds before which the plans were made.
        """
        for record in [each for each in self._records.values() if each.is_overdue(before)]:
            # Its first step may have begun meanwhile.
            await self.change(
                record.key,
                lambda each: msgspec.structs.replace(each, let_go=True) if each.is_overdue(before) else each,
            )

    async def keep_claim(self) -> None:
        """Renew the claim to the store."""
        await self._in_thread(self._store.keep_claim)

    async def close(self) -> None:
        """Write the rest, and give the store back."""
        if self._writer is not None:
            await asyncio.wait([self._writer])
        await self._in_thread(self._store.close)
        self._thread.shutdown()

    async def _write_known(self) -> None:
        while self._pending:
            (uid, key), job = self._pending.popitem(last=False)
            try:
                await self._in_thread(lambda uid=uid, key=key, job=job: self._store.remember(uid, key, job))  # type: ignore[misc]
            except PlannerError:
                # The next plan of this job parses again; a store that is gone is told of by changes.
                return

    def _put(self, record: Record) -> None:
        before = self._records.get(record.key)
        self._records[record.key] = record
        self._by_user.setdefault(record.uid, set()).add(record.key)
        if before is None or _holding(before) != _holding(record):
            self._holdings += 1

    def _tell(self) -> None:
        self._version += 1
        self._changed.set()
        self._changed = asyncio.Event()

    async def _save(self, record: Record) -> None:
        try:
            await self._in_thread(lambda: self._store.save([record]))
        except PlannerError as error:
            raise DatabaseError(error) from error

    async def _in_thread(self, call: Callable[[], Value]) -> Value:
        return await asyncio.get_running_loop().run_in_executor(self._thread, call)


def missing(name: str) -> PlannerError:
    """Make the error about a deployment that is not there."""
    return PlannerError(f"there is no deployment {name}", hint="see `weir deployments list`", code="missing")


def now() -> float:
    """Tell the time.

    Returns:
        Seconds since 1970: deadlines outlive the planner's process.
    """
    return time.time()


def _holding(record: Record) -> tuple[object, ...]:
    """All that other plans see of a deployment."""
    is_open = record.is_live and record.goal != "teardown"
    return record.holds_storage, record.deployment, is_open, record.kept, record.done in ("", "teardown"), record.failed
