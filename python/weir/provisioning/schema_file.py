"""Files with one deployment schema."""

from pathlib import Path

from weir.provisioning import documents
from weir.provisioning.deployments import Deployment


def read_schema(path: Path) -> Deployment:
    """Read a deployment schema.

    Returns:
        The deployment, which is not validated.

    Raises:
        ProvisioningError: The file cannot be read, is too large, or is no such document.
    """
    hint = "`weir plan schema LOG` prints one; see docs/reference/schemas/deployment.schema.json"
    return documents.read(path, Deployment, "deployment schema", hint)
