"""The schedule of searches that are slow and whose results change slowly."""

from collections.abc import Iterator
from contextlib import contextmanager
from time import thread_time

from weir.prediction.bandwidth.history import Steps

_PART = 1 / 16
"""Part of the steps seen after which a search is due: so the searches of a run grow only with its length."""
_SHARE_SECONDS = 20.0
"""Least pause in times of the last search, so that steps that follow each other at once are not delayed."""


class Refit:
    """The times of the searches."""

    def __init__(self) -> None:
        """Begin without a search: the first one is due at once."""
        self._at: float | None = None
        self._took_seconds = 0.0

    def is_due(self, steps: Steps) -> bool:
        """Decide whether a search is due; it then counts as done.

        Args:
            steps: The last steps.

        Returns:
            Whether it is due.
        """
        newest = float(steps.times[-1])
        wait_seconds = (_PART * len(steps.times) - 0.5) * steps.spacing_seconds
        wait_seconds = max(wait_seconds, _SHARE_SECONDS * self._took_seconds)
        if self._at is not None and newest < self._at + wait_seconds:
            return False
        self._at = newest
        return True

    @contextmanager
    def timed(self) -> Iterator[None]:
        """Measure the time of a search, for the length of a block.

        Yields:
            Nothing.
        """
        begun = thread_time()
        try:
            yield
        finally:
            self._took_seconds = thread_time() - begun
