"""Things that the user of a store should know, and that end nothing."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Notice:
    """One thing to know."""

    words: str
    hint: str = ""
    """What to do about it; a notice that has a hint is a warning."""


Listener = Callable[[Notice], None]
"""The taker of notices, which is told each when it is due: what comes after it may fail."""
