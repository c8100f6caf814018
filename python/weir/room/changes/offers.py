"""Proposals that a visitor was shown, and confirmations that hold once."""

import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from weir.room.errors import ForbiddenError, RoomError
from weir.room.panels import Mark, Page, Panel, Text, table_of
from weir.room.visitors import Role, Visitor
from weir.store.control import Server
from weir.store.errors import StoreError

OFFERS_MAX = 1_000
"""Most changes that wait for a confirmation; the oldest is forgotten for a new one."""
OFFER_SECONDS = 600.0
"""Time for which a confirmation holds."""
_NAME_BYTES = 32


@dataclass(frozen=True)
class Proposal:
    """A change that a visitor was shown.

    Attributes:
        page: What would change.
        words: The change in one line, for the log.
        carry_out: Makes the change, and returns what came of it.
    """

    page: Page
    words: str
    carry_out: Callable[[], Page]


def proposal(
    title: str,
    words: str,
    rows: Sequence[tuple[Text, ...]],
    *,
    header: tuple[str, ...] = ("what", "now", "then"),
    warning: str = "",
    shown: object,
    look: Callable[[], object],
    change: Callable[[], Page],
) -> Proposal:
    """Propose a change that is made only while the store is as the visitor was shown it.

    Args:
        words: The change in one line, for the log.
        rows: What changes.
        warning: What the change means, in words for the visitor.
        shown: What the change depends on, as the visitor is shown it.
        look: Finds it again; it is compared.
        change: Makes the change.

    Raises:
        RoomError: `carry_out` finds the store other than it was shown.
    """

    def carry_out() -> Page:
        if look() != shown:
            raise RoomError("the store changed since you looked", hint="look at the change again")
        return change()

    panel = Panel("changes", "What changes", warning, table_of(header, rows))
    return Proposal(Page(title, (panel,)), words, carry_out)


def noting(notes: list[Mark]) -> Callable[[Server, StoreError], None]:
    """Make the note that a server which does not answer follows when it is back."""

    def note(server: Server, error: StoreError) -> None:
        notes.append(Mark(f"{error.message}; server {server.number} follows when it is back", "bad"))

    return note


@dataclass
class Offers:
    """Proposals that wait for a confirmation, each by a name that only the page with the proposal has."""

    _waiting: dict[str, tuple[str, float, Proposal]] = field(default_factory=dict)
    """Owner, moment and proposal by name, the oldest first."""

    def add(self, owner: str, proposal: Proposal) -> str:
        """Keep a proposal.

        Args:
            owner: The session or user who was shown it.

        Returns:
            The name that confirms it.
        """
        while len(self._waiting) >= OFFERS_MAX:
            del self._waiting[next(iter(self._waiting))]
        name = secrets.token_urlsafe(_NAME_BYTES)
        self._waiting[name] = (owner, time.monotonic(), proposal)
        return name

    def take(self, owner: str, name: str) -> Proposal:
        """Take a proposal that is confirmed; its name holds no more.

        Raises:
            ForbiddenError: The name is of no proposal, of another visitor's, or too old.
        """
        found = self._waiting.pop(name, None)
        if found is None or found[0] != owner or time.monotonic() - found[1] > OFFER_SECONDS:
            raise ForbiddenError("this confirmation does not hold", hint="look at the change again")
        return found[2]


def check_right(visitor: Visitor, role: Role) -> None:
    """Refuse where a visitor has too low a role.

    Raises:
        ForbiddenError: The visitor has.
    """
    if visitor.role < role:
        raise ForbiddenError(
            f"a {visitor.role.name.lower()} may not change this",
            hint=f"the site names those who may: `weir room --{role.name.lower()}s GROUP`",
        )
