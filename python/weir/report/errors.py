"""The errors of reports."""

from weir.errors import WeirError


class ReportError(WeirError):
    """A report that cannot be made: of which job, the reason, and a hint."""
