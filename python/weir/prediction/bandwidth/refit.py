"""When what is slow to find and slow to change is looked for again."""

from collections.abc import Iterator
from contextlib import contextmanager
from time import thread_time

from weir.prediction.bandwidth.history import Steps

_PART = 1 / 16
"""After this part of the steps seen: the work of a whole run then grows with its length only."""
_SHARE_SECONDS = 20.0
"""And after so many times as long as it took, so that steps that follow each other at once are not held up."""


class Refit:
    """Remembers when it was last due."""

    def __init__(self) -> None:
        """Is due at once."""
        self._at: float | None = None
        self._took_seconds = 0.0

    def is_due(self, steps: Steps) -> bool:
        """Whether to look again; that then counts as done."""
        newest = float(steps.times[-1])
        wait_seconds = (_PART * len(steps.times) - 0.5) * steps.spacing_seconds
        wait_seconds = max(wait_seconds, _SHARE_SECONDS * self._took_seconds)
        if self._at is not None and newest < self._at + wait_seconds:
            return False
        self._at = newest
        return True

    @contextmanager
    def timed(self) -> Iterator[None]:
        """What is done within is what looking again takes."""
        begun = thread_time()
        try:
            yield
        finally:
            self._took_seconds = thread_time() - begun
