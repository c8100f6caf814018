"""The transfers of a job: its input into the store, and its results out of it."""

from collections.abc import Callable
from pathlib import Path

from weir.provisioning.deployments import Deployment, Transfer
from weir.provisioning.errors import ProvisioningError
from weir.provisioning.lifecycle.environment import environment, place_of
from weir.provisioning.lifecycle.record import JobFolder, Phase, State, changed
from weir.staging.errors import StagingError
from weir.staging.mover import move
from weir.staging.reports import Progress
from weir.store.identity import Identity
from weir.store.mounts import is_mount_point

Shown = Callable[[str, Progress], None]
"""A taker of the progress of a transfer, by its name."""


def stage_in(folder: JobFolder, *, shown: Shown | None = None, identity: Identity | None = None) -> State:
    """Copy the job's input into its store; transfers that are done are left out, and one that was cut off goes on.

    Args:
        folder: Folder of the job, whose store is up.
        shown: Called with the progress.
        identity: Identity of the job, as for `environment`: the copy has its rights in the store.

    Returns:
        The state, from `STAGED_IN` on. Every byte was read back.

    Raises:
        ProvisioningError: The store is not up.
        StagingError: A transfer failed. The next call continues it.
    """
    deployment = folder.deployment()
    with folder.locked():
        state = folder.state()
        if not state.phase.is_before(Phase.STAGED_IN):
            return state
        if state.phase.is_before(Phase.READY):
            raise ProvisioningError(f"{deployment.name} is {state.phase}, so it has no store", hint="set it up first")
        state = folder.write(changed(state, phase=Phase.STAGING_IN))
        place = place_of(folder)
        for done in range(state.staged_in, len(deployment.stage_in)):
            transfer = deployment.stage_in[done]
            _transfer(folder, state, Path(transfer.source), place / transfer.destination, None, shown, identity)
            state = folder.write(changed(state, staged_in=done + 1))
        return folder.write(changed(state, phase=Phase.STAGED_IN))


def stage_out(folder: JobFolder, *, shown: Shown | None = None, identity: Identity | None = None) -> State:
    """Copy the job's results out of its store; transfers that are done are left out, and one that was cut off goes on.

    A program that failed need not have made all results; those that are not there are noted in the state.

    Args:
        folder: Folder of the job, which has run.
        shown: Called with the progress.
        identity: Identity of the job, as for `environment`: the copy has its rights in the store.

    Returns:
        The state, from `STAGED_OUT` on. Every byte was read back, and is on stable storage.

    Raises:
        ProvisioningError: The job has not run, or the store is not up.
        StagingError: A transfer failed. The results are kept, and the next call continues the transfer.
    """
    deployment = folder.deployment()
    with folder.locked():
        state = folder.state()
        if not state.phase.is_before(Phase.STAGED_OUT):
            return state
        if state.phase.is_before(Phase.STAGED_IN):
            raise ProvisioningError(
                f"{deployment.name} is {state.phase}: there is nothing to stage out", hint="run its program first"
            )
        state = folder.write(changed(state, phase=Phase.STAGING_OUT))
        for done in range(state.staged_out, len(deployment.stage_out)):
            transfer = deployment.stage_out[done]
            source = _source(folder, state, done, transfer)
            absent = state.absent
            try:
                _transfer(
                    folder,
                    state,
                    source,
                    Path(transfer.destination),
                    f"{deployment.name}:{transfer.source}",
                    shown,
                    identity,
                )
            except StagingError as error:
                if not error.is_missing or not state.exit_code:
                    raise
                absent = (*absent, transfer.source)
            state = folder.write(changed(state, staged_out=done + 1, absent=absent))
        return folder.write(changed(state, phase=Phase.STAGED_OUT))


def save(folder: JobFolder, *, shown: Shown | None = None, identity: Identity | None = None) -> State:
    """Copy results out of a store in memory into the job's folder, so that its servers can be stopped.

    A result that is not there is noted too: staging it out will tell so.

    Args:
        shown: Called with the progress.
        identity: Identity of the job, as for `environment`.

    Returns:
        The state, which names the copies.

    Raises:
        StagingError: A copy failed; the store has to stay up.
    """
    deployment = folder.deployment()
    with folder.locked():
        state = folder.state()
        folder.kept.mkdir(mode=0o700, exist_ok=True)
        for number in range(state.staged_out, len(deployment.stage_out)):
            if str(number) in state.kept:
                continue
            kept = folder.kept / str(number)
            inside = place_of(folder) / deployment.stage_out[number].source
            try:
                _transfer(folder, state, inside, kept, None, shown, identity)
            except StagingError as error:
                if not error.is_missing:
                    raise
            state = folder.write(changed(state, kept={**state.kept, str(number): str(kept)}))
        return state


def is_in_memory(deployment: Deployment, state: State) -> bool:
    """Decide whether a store's bytes end with its servers.

    Returns:
        Whether a server has no device.
    """
    return any(not server.devices for server in state.servers or deployment.servers)


def _source(folder: JobFolder, state: State, number: int, transfer: Transfer) -> Path:
    kept = state.kept.get(str(number))
    return place_of(folder) / transfer.source if kept is None else Path(kept)


def _transfer(
    folder: JobFolder,
    state: State,
    source: Path,
    destination: Path,
    origin: str | None,
    shown: Shown | None,
    identity: Identity | None,
) -> None:
    name = f"{source} to {destination}"
    if state.mount is not None and not is_mount_point(Path(state.mount)):
        # The folder below the mount would be taken for an empty store.
        raise ProvisioningError(f"{state.mount} is not mounted", hint="set the job's store up again")
    try:
        move(
            source,
            destination,
            environment=environment(folder, identity),
            # The same results may come from the store first, and then from the place in which they are kept.
            origin=origin,
            owner=None if identity is None else (identity.uid, identity.gid, tuple(identity.groups)),
            progress=None if shown is None else lambda progress: shown(name, progress),
        )
    except StagingError as error:
        folder.write(changed(state, fault=error.message))
        raise
