"""The errors of provisioning."""

from weir.errors import WeirError


class ProvisioningError(WeirError):
    """A document, table or plan that cannot be used."""
