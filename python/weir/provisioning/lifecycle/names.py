"""Names of deployments and jobs."""

import re

from weir.provisioning.errors import ProvisioningError

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,63}")


def check_name(name: str) -> None:
    """Refuse a name that could be no folder of its own.

    Args:
        name: Name of a deployment.

    Raises:
        ProvisioningError: It is not a word of letters, digits and `-`.
    """
    if not _NAME.fullmatch(name):
        raise ProvisioningError(f"{name!r:.80} is no name of a deployment", hint="use letters, digits and `-`")
