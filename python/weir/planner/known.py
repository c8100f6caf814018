"""The known jobs in memory, within bounds of bytes, so that no user fills the memory or drives the others' jobs out."""

from collections import OrderedDict

import msgspec

from weir.planner.records import KnownJob

JOB_BYTES_MAX = 64 << 10
"""A job with a longer document is not remembered: it is parsed and planned again, and nothing else is lost."""
USER_BYTES_MAX = 8 << 20
"""Most bytes of one user: some thousand jobs."""
ALL_BYTES_MAX = 256 << 20


class KnownJobs:
    """Documents of known jobs. Those that were used longest ago make way, first of the user who has most."""

    def __init__(self) -> None:
        """Begin without jobs."""
        self._documents: dict[int, OrderedDict[str, bytes]] = {}
        self._bytes: dict[int, int] = {}

    def find(self, uid: int, key: str) -> KnownJob | None:
        """Look a job up.

        Returns:
            The job; None where it is not in memory.
        """
        of_user = self._documents.get(uid, OrderedDict())
        document = of_user.get(key)
        if document is None:
            return None
        of_user.move_to_end(key)
        return msgspec.json.decode(document, type=KnownJob)

    def keep(self, uid: int, key: str, job: KnownJob) -> bool:
        """Keep a job.

        Returns:
            Whether its document is short enough to be kept, here and in the store.
        """
        document = msgspec.json.encode(job)
        self._drop(uid, key)
        if len(document) > JOB_BYTES_MAX:
            return False
        self._documents.setdefault(uid, OrderedDict())[key] = document
        self._bytes[uid] = self._bytes.get(uid, 0) + len(document)
        while self._bytes[uid] > USER_BYTES_MAX:
            self._drop_oldest(uid)
        while sum(self._bytes.values()) > ALL_BYTES_MAX:
            self._drop_oldest(max(self._bytes, key=self._bytes.__getitem__))
        return True

    def _drop_oldest(self, uid: int) -> None:
        self._drop(uid, next(iter(self._documents[uid])))

    def _drop(self, uid: int, key: str) -> None:
        document = self._documents.get(uid, OrderedDict()).pop(key, None)
        if document is None:
            return
        self._bytes[uid] -= len(document)
        if not self._documents[uid]:
            del self._documents[uid], self._bytes[uid]
