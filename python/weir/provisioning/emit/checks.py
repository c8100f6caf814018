"""Checks of names, paths and numbers that stand in configuration files without quotation."""

import re
from collections.abc import Mapping, Sequence

import msgspec

from weir.provisioning.deployments import Deployment
from weir.provisioning.errors import ProvisioningError
from weir.provisioning.objectives.sslos import Semantics
from weir.provisioning.sharing.policies import unmet
from weir.store import values

TEXT_BYTES_MAX = 16 << 20
"""A configuration above this is refused: 4,096 servers with eight targets take some 4 MB."""
SERVERS_MAX = 4096
"""Most servers of a deployment, as of a store's hosts."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,62}", re.ASCII)
_PATH = re.compile(r"/[A-Za-z0-9._+@=:/-]{0,4094}", re.ASCII)
"""Paths without blanks, quotation marks or characters of a shell: most formats have no way to quote them."""


class EmittedFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file of a configuration."""

    name: str
    text: str


def check(deployment: Deployment, kind: str, offered: Semantics) -> None:
    """Refuse a deployment that is not one of a kind of system with servers, or whose semantics the system lacks.

    Args:
        kind: Name of the system.
        offered: The most that the system keeps.

    Raises:
        ProvisioningError: The deployment has no servers of its own, has a name or a number that cannot be, or asks for
            semantics that the system lacks.
    """
    if deployment.joins or not deployment.servers:
        raise ProvisioningError(
            f"{deployment.name} has no servers of its own"
            + (f": it joins {deployment.joins}" if deployment.joins else ""),
            hint="emit the deployment whose servers are shared",
        )
    if not _NAME.fullmatch(deployment.name):
        raise ProvisioningError(
            f"the deployment's name {deployment.name!r} is no word", hint="use letters, digits and `-`, 63 at most"
        )
    if len(deployment.servers) > SERVERS_MAX:
        raise ProvisioningError(f"{deployment.name} has more than {SERVERS_MAX} servers", hint="use fewer servers")
    for server in deployment.servers:
        host(server.node, f"a server of {deployment.name}")
        for device in server.devices:
            path(device, f"a device of {server.node}")
        if len(set(server.devices)) < len(server.devices):
            raise ProvisioningError(f"{server.node} has a device twice", hint="name each device once")
        if server.target_bytes < 1:
            raise ProvisioningError(f"targets of {server.target_bytes} bytes on {server.node} cannot be")
    if missing := unmet(deployment.semantics, offered):
        raise ProvisioningError(f"{kind} does not keep {', '.join(missing)}", hint="plan the job for another system")


def host(text: str, place: str) -> str:
    """Check the name of a host.

    Args:
        text: The name.
        place: Place of the name, for the error.

    Raises:
        ProvisioningError: The name is none of a host.
    """
    try:
        return values.host(text)
    except ValueError as error:
        raise ProvisioningError(f"{place}: {error}", hint="name nodes of the site") from error


def path(text: str, place: str) -> str:
    """Check an absolute path.

    Args:
        text: The path.
        place: Place of the path, for the error.

    Raises:
        ProvisioningError: The path is not absolute, leads through `.` or `..`, or has a character that the formats
            cannot quote.
    """
    if not _PATH.fullmatch(text) or {".", ".."} & set(text.split("/")):
        raise ProvisioningError(
            f"{place}: {text[:80]!r} is no plain absolute path",
            hint="use letters, digits and ._+@=:- in paths that begin with /",
        )
    return text


def number(text: str, place: str, least: int, most: int) -> int:
    """Read a whole number.

    Args:
        text: The number, in decimal digits.
        place: Place of the number, for the error.
        least: Least allowed value.
        most: Greatest allowed value.

    Raises:
        ProvisioningError: The text is no such number.
    """
    if not re.fullmatch(r"[0-9]{1,20}", text) or not least <= int(text) <= most:
        raise ProvisioningError(f"{place} is {text[:80]!r}", hint=f"give a number from {least} to {most}")
    return int(text)


def known(settings: Mapping[str, str], names: Sequence[str], kind: str) -> None:
    """Refuse settings that a system does not have.

    Args:
        settings: Settings by their names.
        names: The names that can be emitted.
        kind: Name of the system.

    Raises:
        ProvisioningError: A name is not among them.
    """
    from difflib import get_close_matches

    for name in settings:
        if name not in names:
            near = get_close_matches(name, names, n=1)
            raise ProvisioningError(
                f"{kind} has no setting {name[:80]!r} that can be emitted",
                hint=f"did you mean {near[0]}?" if near else f"these can: {', '.join(sorted(names))}",
            )


def bounded(text: str, place: str) -> str:
    """Refuse a text that is too long for a configuration.

    Args:
        place: Name of the file, for the error.

    Raises:
        ProvisioningError: The text is too long.
    """
    if len(text) > TEXT_BYTES_MAX:
        raise ProvisioningError(f"{place} is larger than {TEXT_BYTES_MAX} bytes", hint="is it a configuration?")
    return text


def only(files: Sequence[EmittedFile], names: Sequence[str], optional: Sequence[str] = ()) -> dict[str, str]:
    """Take the texts of files by their names.

    Args:
        names: Names that have to be there.
        optional: Further names.

    Raises:
        ProvisioningError: A file is missing, is there twice, or is none of these.
    """
    texts = {file.name: bounded(file.text, file.name) for file in files}
    strange = texts.keys() - {*names, *optional}
    missing = set(names) - texts.keys()
    if strange or missing or len(texts) < len(files):
        raise ProvisioningError(
            f"the files are {', '.join(sorted(file.name for file in files)) or 'none'}",
            hint=f"they should be {', '.join(names)}",
        )
    return texts
