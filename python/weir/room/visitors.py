"""Visitors of the room: their roles, and whose jobs they may see by name."""

from dataclasses import dataclass
from enum import IntEnum

HIDDEN = "another job"
"""The name of a job that a visitor may not see."""


class Role(IntEnum):
    """What a visitor may do; each role may do what those below it may."""

    VIEWER = 1
    OPERATOR = 2
    ADMINISTRATOR = 3


@dataclass(frozen=True, slots=True)
class Visitor:
    """Who looks at a page.

    Attributes:
        user: Name of the user.
        role: The role.
        sees_all: Whether jobs of other users have names.
    """

    user: str
    role: Role
    sees_all: bool

    def sees(self, user: str) -> bool:
        """Whether this visitor may see the names of a user's jobs."""
        return self.sees_all or user == self.user

    def name_of(self, job: str, user: str) -> str:
        """The name of a job as this visitor may see it."""
        return job if self.sees(user) else HIDDEN

    def user_of(self, user: str) -> str:
        """The name of a user as this visitor may see it."""
        return user if self.sees(user) else "-"
