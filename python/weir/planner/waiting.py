"""Jobs that wait for storage within their windows: which of them a plan may serve now, and when its turn is.

Each change of the storage may serve any of them, and a plan takes milliseconds, so a user with a thousand of them could
keep the helpers busy. A job for which nothing changed, or that is larger than all that is free, is not planned. The
others are planned one at a time, those of a user in the order in which they began to wait. As much time passes between
two plans as the one before took, so waiting jobs take at most half of one helper.
"""

import asyncio
import contextlib
import hashlib
import time
from collections import OrderedDict, defaultdict
from collections.abc import AsyncIterator

import msgspec

from weir.planner.ledger import Key
from weir.planner.records import Record
from weir.planner.site import Site, Snapshot

_VAIN_MAX = 20_000
"""Most kinds of jobs of which a vain plan is remembered. One that is forgotten is planned once more."""
_PAUSE_SECONDS_MAX = 1.0
"""Longest pause behind a plan, so that a slow one does not hold up all others."""


class Waiting:
    """The plans of waiting jobs that were in vain, and the turn of those that may not be."""

    def __init__(self, site: Site) -> None:
        """Take the site.

        Args:
            site: The storage of the site.
        """
        self._site = site
        self._turn = asyncio.Lock()
        self._user_turns: defaultdict[int, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._vain: OrderedDict[str, str] = OrderedDict()
        """The digest of the storage for which a plan was in vain, by that of the job."""
        self._digests: dict[Key, str] = {}

    def is_in_vain(self, record: Record) -> bool:
        """Tell without a plan that no storage serves a job now.

        Returns:
            Whether a plan for such a job was in vain on this storage, or no class of devices has the room.
        """
        snapshot = self._snapshot(record)
        digest = self._digest(record)
        if self._vain.get(digest) == snapshot.digest:
            return True
        if record.deployment.size_bytes <= snapshot.room_bytes:
            return False
        self._note(digest, snapshot)
        return True

    def note(self, record: Record) -> None:
        """Remember that a plan was in vain on the storage of this moment."""
        self._note(self._digest(record), self._snapshot(record))

    def forget(self, key: Key) -> None:
        """Forget a job that does not wait any more.

        Args:
            key: User and name.
        """
        self._digests.pop(key, None)

    @contextlib.asynccontextmanager
    async def turn(self, uid: int, seconds: float) -> AsyncIterator[bool]:
        """Wait for the turn to plan, and leave the helpers some time behind it.

        Args:
            uid: The user of the job. Users take turns, however many jobs they have.
            seconds: Longest wait.

        Yields:
            Whether it is the job's turn; False where the time is over.
        """
        async with contextlib.AsyncExitStack() as held:
            try:
                async with asyncio.timeout(seconds):
                    await held.enter_async_context(self._user_turns[uid])
                    await held.enter_async_context(self._turn)
            except TimeoutError:
                yield False
                return
            begin = time.monotonic()
            yield True
            await asyncio.sleep(min(time.monotonic() - begin, _PAUSE_SECONDS_MAX))

    def _snapshot(self, record: Record) -> Snapshot:
        return self._site.snapshot(record.uid, nodes=record.nodes, left_out=tuple(sorted(record.left_out)))

    def _note(self, digest: str, snapshot: Snapshot) -> None:
        self._vain[digest] = snapshot.digest
        self._vain.move_to_end(digest)
        if len(self._vain) > _VAIN_MAX:
            self._vain.popitem(last=False)

    def _digest(self, record: Record) -> str:
        """Digest of all that a plan depends on beside the storage; jobs of an array have one."""
        found = self._digests.get(record.key)
        if found is None:
            parts = (record.uid, record.asked, record.directives, record.identity, record.nodes, record.left_out)
            found = hashlib.blake2b(msgspec.json.encode(parts), digest_size=16).hexdigest()
            self._digests[record.key] = found
        return found
