"""The errors of the history."""

from weir.errors import WeirError


class HistoryError(WeirError):
    """A history that cannot be read or kept, or that does not reach as far as was asked."""


class TakenHistoryError(HistoryError):
    """Another recorder keeps the history."""


class NoHistoryError(HistoryError):
    """There is no history yet."""


class FullDiskError(HistoryError):
    """The history's disk has no room. What was kept before is whole."""
