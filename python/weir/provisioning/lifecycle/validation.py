"""The check of a deployment before anything is started or written."""

from pathlib import PurePosixPath

from weir.provisioning.deployments import Deployment, Server, Transfer, capacity_bytes
from weir.provisioning.errors import ProvisioningError
from weir.provisioning.lifecycle.names import check_name
from weir.store import values

SERVERS_MAX = 4096
"""Most servers of a deployment: more than any published burst buffer has nodes."""
_TARGETS_MAX = 64
"""Most targets of a server (a limit of Weir)."""


def validate(deployment: Deployment) -> None:
    """Refuse a deployment that Weir cannot start, whatever the machine.

    Raises:
        ProvisioningError: The deployment cannot be started; the error names the fault.
    """
    check_name(deployment.name)
    if deployment.system.kind != "weir":
        raise ProvisioningError(
            f"{deployment.name} is a deployment of {deployment.system.kind}, which Weir does not start",
            hint="`weir plan config` writes the configuration files of other systems",
        )
    _check_semantics(deployment)
    for transfer in deployment.stage_in:
        _check_transfer(deployment, transfer, transfer.source, transfer.destination)
    for transfer in deployment.stage_out:
        _check_transfer(deployment, transfer, transfer.destination, transfer.source, may_be_root=True)
    if deployment.joins:
        check_name(deployment.joins)
        if deployment.servers:
            raise ProvisioningError(
                f"{deployment.name} joins {deployment.joins}, and has servers of its own",
                hint="a job that shares a deployment has none; plan again",
            )
        return
    if not 1 <= len(deployment.servers) <= SERVERS_MAX:
        raise ProvisioningError(
            f"{deployment.name} has {len(deployment.servers)} servers, not 1 to {SERVERS_MAX}",
            hint="plan again; a job that shares a deployment names it in `joins`",
        )
    for server in deployment.servers:
        _check_server(deployment, server)
    check_capacity(deployment, deployment.servers)


def check_capacity(deployment: Deployment, servers: tuple[Server, ...]) -> None:
    """Refuse servers that have too little room for the job, or for the later jobs that a shareable store has room for.

    Args:
        servers: Those of its servers that can be used.

    Raises:
        ProvisioningError: The targets of these servers are smaller than the wanted size.
    """
    room = sum(targets_of(deployment, server) * server.target_bytes for server in servers)
    wanted = max(deployment.size_bytes, capacity_bytes(deployment) if deployment.shareable else 0)
    if room < wanted:
        raise ProvisioningError(
            f"{deployment.name} asks for {wanted} bytes, and its {len(servers)} servers have {room}",
            hint="plan again with more servers, or ask for less",
        )


def targets_of(deployment: Deployment, server: Server) -> int:
    """Count the targets of a server.

    Args:
        server: One of its servers.

    Returns:
        Number of the targets; without devices, they are in memory.
    """
    return len(server.devices) or deployment.system.targets_per_server


def _check_semantics(deployment: Deployment) -> None:
    wanted = deployment.semantics
    unmet = [
        words
        for words, is_unmet in (
            (f"{wanted.replicas} replicas", wanted.replicas != 1),
            ("encryption at rest", wanted.encrypted),
            (f"the representation {wanted.representation}", wanted.representation != "posix"),
        )
        if is_unmet
    ]
    if unmet:
        raise ProvisioningError(
            f"{deployment.name} needs {' and '.join(unmet)}, which a Weir store does not have",
            hint="plan it for another system, or without these semantics",
        )


def _check_server(deployment: Deployment, server: Server) -> None:
    try:
        values.host(server.node)
    except ValueError as error:
        raise ProvisioningError(f"a server of {deployment.name}: {error}", hint="name nodes of the site") from error
    if server.target_bytes < 1:
        raise ProvisioningError(
            f"a target on {server.node} has {server.target_bytes} bytes", hint="`target_bytes` is the capacity of one"
        )
    if not 1 <= targets_of(deployment, server) <= _TARGETS_MAX:
        raise ProvisioningError(
            f"the server on {server.node} has {targets_of(deployment, server)} targets, not 1 to {_TARGETS_MAX}",
            hint="plan more servers, each with fewer devices",
        )
    for device in server.devices:
        if not device.startswith("/") or "\0" in device:
            raise ProvisioningError(
                f"the device {device!r:.80} on {server.node} is no absolute path", hint="name a folder on the node"
            )


def _check_transfer(
    deployment: Deployment, transfer: Transfer, outside: str, inside: str, *, may_be_root: bool = False
) -> None:
    if not outside.startswith("/") or "\0" in outside:
        raise ProvisioningError(
            f"{deployment.name} moves {transfer.source!r:.80} to {transfer.destination!r:.80}: "
            f"{outside!r:.80} is no absolute path",
            hint="paths outside of the store are absolute, and those inside begin at its root without a `/`",
        )
    parts = PurePosixPath(inside).parts
    if inside.startswith("/") or ".." in parts or "\0" in inside or not (parts or may_be_root):
        raise ProvisioningError(
            f"{deployment.name} moves {transfer.source!r:.80} to {transfer.destination!r:.80}: "
            f"{inside!r:.80} is no path inside of the store",
            hint="name a file or folder below the store's root, such as `input`",
        )
