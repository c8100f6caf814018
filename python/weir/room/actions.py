"""Changes that a visitor may make: what each would change, and a confirmation that holds once."""

import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from weir.room.errors import ForbiddenError, RoomError
from weir.room.panels import Mark, Page, Panel, Text, table_of
from weir.room.sources import Sources
from weir.room.visitors import Role, Visitor
from weir.store.answers import Sharing
from weir.store.configuration import check_sharing
from weir.store.control import Server, ask_all
from weir.store.errors import StoreError
from weir.store.sharing import set_everywhere

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


def propose_policy(sources: Sources, policy: str) -> Proposal:
    """Propose another policy for all servers.

    Raises:
        RoomError: No server answers.
        StoreError: There is no such policy, or no store is up.
    """
    name, _ = check_sharing(policy, None)
    before = _sharings(sources)
    if not before:
        raise RoomError("no server answers, so no policy can be changed", hint="`weir up` starts the servers again")
    rows: list[tuple[Text, ...]] = [
        (str(number), f"{was.policy} by {was.scheduler}", Mark(name, "odd")) for number, was in before.items()
    ]
    present = sources.present()
    at_work = [] if present.interval is None else [each.job for each in present.interval.jobs if each.job.active]
    words = (
        f"It holds at once, for {len(at_work)} jobs at work now, and over restarts. The page What if tells what jobs of"
        " a past stretch would have had under it."
    )
    panel = Panel("servers", "What changes", words, table_of(("server", "policy now", "then"), rows))

    def carry_out() -> Page:
        if _sharings(sources) != before:
            raise RoomError("the policy changed since you looked", hint="look at the change again")
        return _changed(sources, name)

    was = ", ".join(sorted({sharing.policy for sharing in before.values()}))
    return Proposal(Page(f"Change the policy to {name}", (panel,)), f"policy {was} -> {name}", carry_out)


def _changed(sources: Sources, policy: str) -> Page:
    silent: list[Mark] = []

    def note(server: Server, error: StoreError) -> None:
        silent.append(Mark(f"{error.message}; server {server.number} follows when it is back", "bad"))

    changed = set_everywhere(sources.find(), (policy, None), note)
    rows: list[tuple[Text, ...]] = [
        (
            str(each.server.number),
            f"{each.was.policy} by {each.was.scheduler}",
            Mark(f"{each.now.policy} by {each.now.scheduler}", "good"),
        )
        for each in changed
    ]
    panel = Panel("servers", "What changed", table=table_of(("server", "was", "is"), rows), none="nothing changed")
    return Page("The policy is changed", (panel,), (), tuple(silent))


def _sharings(sources: Sources) -> dict[int, Sharing]:
    servers = sources.find()
    answers = zip(servers, ask_all(servers, Server.sharing), strict=True)
    return {server.number: answer for server, answer in answers if not isinstance(answer, StoreError)}
