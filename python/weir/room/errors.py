"""The errors of the control room."""

from weir.errors import WeirError


class RoomError(WeirError):
    """A control room that cannot be opened, or a question that it cannot answer."""


class ForbiddenError(RoomError):
    """A question or a change to which the visitor has no right."""
