"""Notices for the user of a store. A notice ends nothing."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Notice:
    """One notice."""

    words: str
    hint: str = ""
    """A remedy; a notice that has a hint is a warning."""


Listener = Callable[[Notice], None]
"""A taker of notices. It is called with each notice at once, because a later step may fail."""
