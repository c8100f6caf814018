"""The start of a job's store: its servers on this machine, or one host after the other by `weir.deployment`."""

import os
import re
import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weir.provisioning.deployments import Deployment, Server
from weir.provisioning.errors import ProvisioningError
from weir.provisioning.lifecycle.record import JobFolder, Phase, State, changed
from weir.provisioning.lifecycle.validation import check_capacity, targets_of, validate
from weir.store.errors import StoreError
from weir.store.home import Home
from weir.store.notices import Listener, Notice
from weir.store.settings import (
    ALLOCATOR,
    BACKEND,
    FIXED_TIME,
    METADATA_TIME,
    POLICY,
    READ_SPEED,
    SCHEDULER,
    WRITE_SPEED,
)

if TYPE_CHECKING:
    from weir.deployment.fanout import Reach
    from weir.store.configuration import Configuration

_AT_FAULT = re.compile(r"\bserver (\d+)\b|\btarget (\d+)\.\d+\b")
"""The server that an error of a store's start names."""
_GIVEN = tuple(
    setting.name for setting in (POLICY, SCHEDULER, ALLOCATOR, READ_SPEED, WRITE_SPEED, FIXED_TIME, METADATA_TIME)
)
"""Settings of a deployment that are settings of a store; its servers decide about the others."""
_LAYOUT = ("stripe_size", "stripe_count")
"""Settings of the default layout."""
_INTERVAL = "lambda_milliseconds"
"""The setting of the interval in which servers tell each other their jobs."""
_TOKEN_BYTES = 16
"""Length of a job's token, which nobody can guess."""
_PORT = 7700
"""First port of the servers on several hosts, as of `weir deploy`."""


def setup(
    folder: JobFolder,
    listener: Listener,
    *,
    spares: Sequence[Server] = (),
    reach: "Reach | None" = None,
    mount: Path | None = None,
) -> State:
    """Start the store of a deployment, or the parts of it that died; a store that is up stays as it is.

    A server that cannot be started is replaced by a spare one. Without a spare it is left out, if the others have room
    for the job.

    Args:
        listener: Called with notices, such as the servers that were left out.
        spares: Servers that may take the place of bad ones.
        reach: The way to the servers' nodes; None starts all servers on this machine.
        mount: Mount point; None is a place in the job's folder.

    Returns:
        The state, from `READY` on.

    Raises:
        ProvisioningError: Too few servers can be started for the job, or the data of a store in memory are lost.
        StoreError: The store does not come up. Nothing of it is left running.
        OSError: The folder cannot be written.
    """
    deployment = folder.deployment()
    with folder.locked():
        state = folder.state()
        if not state.phase.is_before(Phase.ENDING):
            raise ProvisioningError(f"{deployment.name} has ended", hint="run the job under another name")
        if deployment.joins:
            return _join(folder, deployment, state)
        if not state.phase.is_before(Phase.READY) and _is_up(folder.home):
            return state
        state = _after_loss(folder, deployment, state, listener)
        if state.phase is Phase.STARTING:
            _end_begun(folder, state)
        if not state.token:
            # It is known durably before any folder has it.
            state = folder.write(changed(state, token=secrets.token_hex(_TOKEN_BYTES)))
        servers = state.servers or deployment.servers
        if state.phase is Phase.PLANNED:
            state = folder.write(changed(state, phase=Phase.STARTING, home=str(folder.home.root)))
        left_out: list[Server] = []
        try:
            started, point = _start(folder, deployment, servers, list(spares), left_out, listener, reach, mount)
        except (ProvisioningError, StoreError) as error:
            folder.write(changed(state, fault=error.message, left_out=(*state.left_out, *left_out)))
            raise
        phase = Phase.READY if state.phase.is_before(Phase.READY) else state.phase
        place = None if point is None else str(point)
        return folder.write(
            changed(state, phase=phase, servers=started, left_out=(*state.left_out, *left_out), mount=place)
        )


def configuration_of(
    deployment: Deployment, servers: Sequence[Server], token: str
) -> tuple[dict[str, Any], dict[str, str]]:
    """Write the configuration of a deployment's store.

    Args:
        servers: The servers to start.
        token: The job's token.

    Returns:
        The document of a cluster.toml, and the settings above it by their names.

    Raises:
        ProvisioningError: The deployment has a setting that Weir has not.
    """
    tables: list[dict[str, Any]] = []
    for number, server in enumerate(servers):
        capacity = server.target_bytes
        targets: list[dict[str, Any]] = [
            {"backend": "dir", "path": str(_place(deployment, device, number, index, token)), "capacity": capacity}
            for index, device in enumerate(server.devices)
        ]
        memory = [{"backend": "ram", "capacity": capacity} for _ in range(targets_of(deployment, server))]
        tables.append({"target": targets or memory})
    document: dict[str, Any] = {"version": 1, "server": tables}
    given: dict[str, str] = {}
    for name, text in deployment.system.settings.items():
        if name in _GIVEN:
            given[name] = text
        elif name in _LAYOUT:
            document.setdefault("layout", {})[name] = int(text) if text.isdecimal() else text
        elif name == _INTERVAL and text.isdecimal():
            document[name] = int(text)
        elif name != BACKEND.name:
            raise ProvisioningError(
                f"{name} = {text!r:.80} is no setting of Weir for a deployment",
                hint=f"it has {', '.join((*_GIVEN, *_LAYOUT, _INTERVAL))}",
            )
    return document, given


def places_of(deployment: Deployment, servers: Sequence[Server], token: str) -> list[Path]:
    """Name the folders that a store's targets have on devices.

    Args:
        servers: The servers that were started.
        token: The job's token.

    Returns:
        The folders, on this machine or on the servers' nodes.
    """
    return [
        _place(deployment, device, number, index, token)
        for number, server in enumerate(servers)
        for index, device in enumerate(server.devices)
    ]


def _place(deployment: Deployment, device: str, number: int, index: int, token: str) -> Path:
    """A folder of its own for each target, because a device may serve several stores."""
    return Path(device) / f"weir-{deployment.name}-{number}-{index}-{token}"


def _is_up(home: Home) -> bool:
    from weir.deployment import record
    from weir.store import cluster, mounts

    if not home.cluster.is_file():
        return False
    if record.read(home) is not None:
        # The hosts of a store that was deployed are asked by `bring_up`, which starts no server a second time.
        return False
    return not cluster.is_down(home) and not cluster.dead_servers(home) and not mounts.lost(home)


def _after_loss(folder: JobFolder, deployment: Deployment, state: State, listener: Listener) -> State:
    """Go back to the begin where a store in memory has ended with the data that were staged in."""
    from weir.deployment import record
    from weir.store import cluster

    home = folder.home
    in_memory = any(not server.devices for server in state.servers)
    # Processes on other hosts have no record on this one: `bring_up` asks their hosts.
    if not in_memory or state.phase.is_before(Phase.STAGING_IN) or record.read(home) is not None:
        return state
    if home.cluster.is_file() and not cluster.is_down(home) and not cluster.dead_servers(home):
        return state
    if state.phase.is_before(Phase.RUNNING):
        listener(Notice(f"the servers of {deployment.name} have ended with the data in their memory: staging in again"))
        return folder.write(changed(state, phase=Phase.READY, staged_in=0))
    if len(state.kept) + state.staged_out >= len(deployment.stage_out):
        return state
    raise ProvisioningError(
        f"the servers of {deployment.name} have ended, and the results in their memory are lost",
        hint=f"`weir job end {deployment.name} --discard` removes the rest; devices keep results, and memory does not",
    )


def _start(
    folder: JobFolder,
    deployment: Deployment,
    servers: Sequence[Server],
    spares: list[Server],
    left_out: list[Server],
    listener: Listener,
    reach: "Reach | None",
    mount: Path | None,
) -> tuple[tuple[Server, ...], Path | None]:
    """Start the servers; each bad one is replaced or left out, and added to `left_out`."""
    chosen = list(servers)
    while True:
        try:
            check_capacity(deployment, tuple(chosen))
            wanted = _configuration(folder, deployment, chosen)
            point = _bring_up(folder, wanted, listener, mount, chosen, reach)
            return tuple(chosen), point
        except StoreError as error:
            bad = _at_fault(error, len(chosen))
            # Data lie on the servers of a store that was up before: none of them may be left out.
            if bad is None or not folder.state().phase.is_before(Phase.READY) or len(left_out) > len(servers):
                raise
            words = f"the server on {chosen[bad].node} cannot be started: {error.message}"
            left_out.append(chosen[bad])
            _forget(folder)
            if spares:
                replacement = spares.pop(0)
                listener(Notice(f"{words}; {replacement.node} takes its place"))
                chosen[bad] = replacement
            elif len(chosen) > 1:
                listener(Notice(f"{words}; the others continue without it"))
                del chosen[bad]
            else:
                raise


def _at_fault(error: StoreError, servers: int) -> int | None:
    found = _AT_FAULT.search(error.message)
    if found is None:
        return None
    number = int(found[1] or found[2])
    return number if number < servers else None


def _end_begun(folder: JobFolder, state: State) -> None:
    """End what a killed command left of its start: any part may run, the whole store too, and nothing was staged in."""
    from weir.deployment import record
    from weir.store import lifecycle

    home = folder.home
    # The hosts of a store that was deployed are asked by `bring_up`, which goes on with what runs.
    if home.exists() and record.read(home) is None:
        lifecycle.take_down(home, force=True, discard=True, token=state.token)


def _forget(folder: JobFolder) -> None:
    """Remove the begin of a store that did not come up, so that one of another shape can be started."""
    from weir.store import cluster

    home = folder.home
    if home.exists():
        with home.locked():
            cluster.discard(home, folder.state().token)


def _configuration(folder: JobFolder, deployment: Deployment, servers: Sequence[Server]) -> "Configuration":
    import tomli_w

    from weir.store import lifecycle
    from weir.ways import write_whole

    file = folder.root / "cluster.toml"
    document, given = configuration_of(deployment, servers, folder.state().token)
    write_whole(file, tomli_w.dumps(document))
    return lifecycle.plan(folder.home, file, given, lambda _: "deployment")


def _bring_up(
    folder: JobFolder,
    wanted: "Configuration",
    listener: Listener,
    mount: Path | None,
    servers: Sequence[Server],
    reach: "Reach | None",
) -> Path | None:
    from weir.store import lifecycle

    if reach is not None:
        return _deploy(folder, wanted, listener, mount, servers, reach)
    running = lifecycle.bring_up(folder.home, wanted, lifecycle.Mounting(point=mount), listener)
    return running.mount


def _deploy(
    folder: JobFolder,
    wanted: "Configuration",
    listener: Listener,
    mount: Path | None,
    servers: Sequence[Server],
    reach: "Reach",
) -> Path | None:
    from weir.deployment import deployment, record

    home = folder.home
    present = record.read(home)
    if present is not None:
        deployed = deployment.bring_up(home, present, listener, accept_journal_loss=False)
    else:
        hosts = tuple(server.node for server in servers)
        if len(set(hosts)) != len(hosts):
            raise ProvisioningError("a node has more than one server", hint="plan one server for each node")
        point = None if mount is None else str(mount)
        asked = deployment.Wanted(hosts, (), None, _PORT, point, folder.state().token)
        deployed = deployment.deploy(home, asked, reach, wanted, listener, accept_journal_loss=False)
    points = [point for point in deployed.mounts.values() if point]
    return Path(points[0]) if points else None


def _join(folder: JobFolder, deployment: Deployment, state: State) -> State:
    """Use the store of another deployment, which lies beside this one."""
    if not state.phase.is_before(Phase.READY):
        return state
    other = JobFolder(folder.root.parent / deployment.joins)
    if not other.exists() or not other.deployment().shareable:
        raise ProvisioningError(
            f"{deployment.name} is to join {deployment.joins}, which is not there or not shareable",
            hint="plan again: the deployment may have ended since",
        )
    with other.locked():
        joined = other.state()
        if joined.suspended or joined.phase.is_before(Phase.READY) or not joined.phase.is_before(Phase.ENDING):
            words = "was ended early" if joined.suspended else f"is {joined.phase}"
            raise ProvisioningError(f"{deployment.joins} {words}, and cannot be joined", hint="plan again")
        (other.root / "sharers").mkdir(mode=0o700, exist_ok=True)
        mark = other.root / "sharers" / deployment.name
        os.close(os.open(mark, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600))
    validate(deployment)
    return folder.write(changed(state, phase=Phase.READY, home=joined.home, mount=joined.mount))
