"""Emission by the name of a system, and the check that the emitted texts read back to the same values."""

from collections.abc import Callable
from typing import Literal, TypeVar

from weir.provisioning.deployments import Deployment
from weir.provisioning.emit import beeond, lustre, orangefs, weir_store
from weir.provisioning.emit.checks import EmittedFile
from weir.provisioning.errors import ProvisioningError

Target = Literal["weir", "orangefs", "beeond", "lustre"]
TARGETS: tuple[Target, ...] = ("weir", "orangefs", "beeond", "lustre")
"""The systems whose configuration can be emitted."""
_Values = TypeVar("_Values")


def emit(deployment: Deployment, target: Target, *, mount: str, folder: str) -> tuple[EmittedFile, ...]:
    """Write the configuration of a system, and read it back.

    Args:
        mount: Mount point on every node; on Lustre the directory that is striped.
        folder: Folder of the files on every node, of which BeeOND is told.

    Raises:
        ProvisioningError: The system cannot be deployed so.
    """
    makers: dict[Target, Callable[[], tuple[EmittedFile, ...]]] = {
        "weir": lambda: _checked(weir_store.of(deployment, mount=mount), weir_store.files, weir_store.read),
        "orangefs": lambda: _checked(orangefs.of(deployment), orangefs.files, orangefs.read),
        "beeond": lambda: _checked(beeond.of(deployment, mount=mount, folder=folder), beeond.files, beeond.read),
        "lustre": lambda: _checked(lustre.of(deployment, directory=mount), lustre.files, lustre.read),
    }
    return makers[target]()


def _checked(
    values: _Values,
    files: Callable[[_Values], tuple[EmittedFile, ...]],
    read: Callable[[tuple[EmittedFile, ...]], _Values],
) -> tuple[EmittedFile, ...]:
    """The files of the values, which read back to the same."""
    emitted = files(values)
    if read(emitted) != values:
        raise ProvisioningError("the emitted files read back to other values", hint="please report this as a bug")
    return emitted
