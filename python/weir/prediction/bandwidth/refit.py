"""When what is slow to find and slow to change is looked for again."""

from weir.prediction.bandwidth.history import Steps

_PART = 1 / 16
"""After this part of the steps seen: the work of a whole run then grows with its length only."""


class Refit:
    """Remembers when it was last due."""

    def __init__(self) -> None:
        """Is due at once."""
        self._at: float | None = None

    def is_due(self, steps: Steps) -> bool:
        """Whether to look again; that then counts as done."""
        newest = float(steps.times[-1])
        wait_seconds = (_PART * len(steps.times) - 0.5) * steps.spacing_seconds
        if self._at is not None and newest < self._at + wait_seconds:
            return False
        self._at = newest
        return True
