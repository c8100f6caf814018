"""The schedule of searches that are slow and whose results change slowly."""

from collections.abc import Iterator
from contextlib import contextmanager
from time import thread_time

from weir.prediction.bandwidth.history import Steps

_PART = 1 / 16
"""Part of the steps seen after which a search is due: so the work of a run grows with its length only."""
_SHARE_SECONDS = 20.0
"""Least pause in times of the last search, so that steps that follow each other at once are not delayed."""


class Refit:
    """Remembers the last search."""

    def __init__(self) -> None:
        """The first search is due at once."""
        self._at: float | None = None
        self._took_seconds = 0.0

    def is_due(self, steps: Steps) -> bool:
        """Whether a search is due; it then counts as done."""
        newest = float(steps.times[-1])
        wait_seconds = (_PART * len(steps.times) - 0.5) * steps.spacing_seconds
        wait_seconds = max(wait_seconds, _SHARE_SECONDS * self._took_seconds)
        if self._at is not None and newest < self._at + wait_seconds:
            return False
        self._at = newest
        return True

    @contextmanager
    def timed(self) -> Iterator[None]:
        """Measure the time of a search within the block."""
        begun = thread_time()
        try:
            yield
        finally:
            self._took_seconds = thread_time() - begun
