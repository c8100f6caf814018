"""The errors of the guard."""

from weir.errors import WeirError


class GuardError(WeirError):
    """Bounds, a journal or a store that the guard cannot use."""
