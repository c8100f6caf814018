"""Files with one deployment schema."""

from pathlib import Path

import msgspec

from weir.provisioning.deployments import Deployment
from weir.provisioning.errors import ProvisioningError

SCHEMA_BYTES_MAX = 16 << 20
"""A schema above this is refused: 4,096 servers with eight devices take some 2 MB."""


def read_schema(path: Path) -> Deployment:
    """Read a deployment schema.

    Args:
        path: The file.

    Returns:
        The deployment.

    Raises:
        ProvisioningError: The file cannot be read, is too large, or is no such document.
    """
    try:
        with path.open("rb") as file:
            content = file.read(SCHEMA_BYTES_MAX + 1)
    except OSError as error:
        raise ProvisioningError(f"{path}: {error.strerror}", hint="is the path right?") from error
    if len(content) > SCHEMA_BYTES_MAX:
        raise ProvisioningError(f"{path} is larger than {SCHEMA_BYTES_MAX} bytes", hint="is it a deployment schema?")
    try:
        return msgspec.json.decode(content, type=Deployment)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ProvisioningError(
            f"{path} is no deployment schema: {error}",
            hint="`weir plan schema LOG` prints one; see docs/reference/schemas/deployment.schema.json",
        ) from error
