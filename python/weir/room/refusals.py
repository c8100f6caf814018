"""Changes that the room refuses: they stand in its log, and in the audit of the store."""

import logging
import time
from dataclasses import dataclass, field

from weir.room.visitors import Visitor
from weir.store import auditing
from weir.store.audits import ToldEntry
from weir.store.claims import acting_for
from weir.store.home import Home

_LOG = logging.getLogger("weir.room")
PAUSE_SECONDS = 60.0
"""Time in which refusals that are alike are told once, so that nobody fills the audit with them."""
OF_USER_MAX = 32
"""Most refusals of one user that are told in that time."""
KNOWN_MAX = 256
"""Most refusals that are known; with more of them in the time, the audit gets no further ones."""


@dataclass
class Refusals:
    """The refusals of a room.

    Attributes:
        home: Home of the store that is told.
    """

    home: Home
    _known: dict[tuple[str, str, str], float] = field(default_factory=dict)
    """Moment at which each refusal was told: its user, what was refused, and why."""

    def note(self, visitor: Visitor | None, change: str, reason: str) -> None:
        """Note a refusal.

        Args:
            visitor: Who asked; None is somebody without a session.
            change: The kind of the change.
        """
        user = "nobody" if visitor is None else visitor.user
        if self._is_news((user, change, reason)):
            _LOG.warning("%s: refused %s: %s", user, change, reason)
            with acting_for("weir room", user):
                auditing.tell(self.home, ToldEntry("room refusal", change, refused=reason))

    def _is_news(self, refusal: tuple[str, str, str]) -> bool:
        now = time.monotonic()
        self._known = {each: at for each, at in self._known.items() if now - at < PAUSE_SECONDS}
        of_user = sum(1 for user, _, _ in self._known if user == refusal[0])
        if refusal in self._known or of_user >= OF_USER_MAX or len(self._known) >= KNOWN_MAX:
            return False
        self._known[refusal] = now
        return True
