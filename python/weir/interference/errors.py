"""The errors of predictions of interference."""

from weir.errors import WeirError


class InterferenceError(WeirError):
    """Windows, a data set or a model that cannot be used."""
