"""The kinds of changes, each with the role that it needs and the fields of its form."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from weir.room.changes import limit, quota, sharing, targets
from weir.room.changes.offers import Proposal
from weir.room.sources import Sources
from weir.room.visitors import Role


@dataclass(frozen=True)
class Change:
    """A kind of change.

    Attributes:
        role: The lowest role that may make it.
        propose: Makes a proposal of the parameters of an address.
    """

    role: Role
    propose: Callable[[Sources, Mapping[str, str]], Proposal]


CHANGES: Mapping[str, Change] = {
    "policy": Change(Role.OPERATOR, sharing.propose),
    "limit": Change(Role.OPERATOR, limit.propose),
    "quota": Change(Role.ADMINISTRATOR, quota.propose),
    "drain": Change(Role.ADMINISTRATOR, targets.propose_drain),
    "open": Change(Role.ADMINISTRATOR, targets.propose_open),
    "speed": Change(Role.ADMINISTRATOR, targets.propose_speed),
}
"""The kinds by their names in addresses."""
