"""The end of a job's storage. No result that was to be staged out is removed without a word of its owner."""

import contextlib
import shutil
from pathlib import Path

from weir.provisioning.deployments import Deployment
from weir.provisioning.errors import ProvisioningError
from weir.provisioning.lifecycle.record import JobFolder, Phase, State, changed
from weir.provisioning.lifecycle.setup import places_of
from weir.store.files import remove_folder
from weir.store.home import Home


def teardown(folder: JobFolder, *, discard: bool = False) -> State:
    """Unmount the job's store, stop its servers and remove its files; a second call changes nothing.

    A store that other jobs share goes on until the last of them has been torn down.

    Args:
        discard: Whether results that were not staged out are removed, too.

    Returns:
        The state: `ENDED`, or `ENDING` where other jobs still share the store.

    Raises:
        ProvisioningError: Results were not staged out, and `discard` is not given.
        StoreError: The store cannot be unmounted or stopped, or files of it cannot be removed: it has not ended.
    """
    deployment = folder.deployment()
    with folder.locked():
        state = folder.state()
        if state.phase is Phase.ENDED:
            return state
        left = unsaved(deployment, state)
        if left and not discard:
            raise ProvisioningError(
                f"{deployment.name} has results that were not staged out: {', '.join(left)}",
                hint=f"`weir job resume {deployment.name}` goes on, and `weir job end {deployment.name} --discard` "
                "removes them",
            )
        state = folder.write(changed(state, phase=Phase.ENDING))
        folder.credential.unlink(missing_ok=True)
        if deployment.joins:
            _leave(folder, deployment)
        elif _sharers(folder):
            return state
        else:
            _remove(folder, deployment, state)
        state = folder.write(changed(state, phase=Phase.ENDED, mount=None, kept={}))
    if deployment.joins:
        _end_joined(JobFolder(folder.root.parent / deployment.joins))
    return state


def forget(folder: JobFolder) -> None:
    """Remove the folder of a job that has ended.

    Raises:
        ProvisioningError: The job's storage has not ended.
    """
    with folder.locked():
        if folder.state().phase is not Phase.ENDED:
            raise ProvisioningError(f"{folder.root} has not ended", hint="tear it down first")
        shutil.rmtree(folder.root)


def unsaved(deployment: Deployment, state: State) -> list[str]:
    """Find the results that lie in the job's store, or in its folder, alone.

    Returns:
        Paths inside of the store. A job that never ran has no results.
    """
    if state.phase.is_before(Phase.RUNNING) or not state.phase.is_before(Phase.STAGED_OUT):
        return []
    return [transfer.source for transfer in deployment.stage_out[state.staged_out :]]


def _remove(folder: JobFolder, deployment: Deployment, state: State) -> None:
    is_here = stop(folder.home, discard=True, token=state.token)
    # The devices belong to the site, and only the folders that the job's servers made are removed. Those on other hosts
    # went there. Here the store has removed its own already, unless its description is damaged.
    places = places_of(deployment, state.servers, state.token) if is_here and state.token else []
    for leftover in (*places, folder.home.root, folder.kept):
        remove_folder(leftover)


def stop(home: Home, *, discard: bool, token: str = "") -> bool:
    """Unmount a store and stop its servers, on this machine or on several hosts.

    Args:
        home: Home of the store, which need not exist.
        discard: Whether the store's files are removed, too.
        token: The job's token: with `discard`, its folders on this machine go, too. Other hosts
            know it themselves.

    Returns:
        Whether the store was on this machine alone.

    Raises:
        StoreError: The store cannot be unmounted or stopped, or a host could not remove its files.
    """
    from weir.deployment import deployment, record
    from weir.store import lifecycle

    described = record.read(home)
    if described is None:
        if home.exists():
            lifecycle.take_down(home, force=True, discard=discard, token=token)
        return True
    if discard:
        # Each host's part goes for good, with its keys.
        deployment.uninstall(home, described)
    else:
        deployment.take_down(home, described, force=True, discard=False)
    return False


def halt(folder: JobFolder) -> State:
    """Stop the store of a job that was ended early, and keep its files. While other jobs share the store, it runs on.

    Args:
        folder: Folder of the job, which this process has locked.

    Returns:
        The state, which is suspended.

    Raises:
        StoreError: The store cannot be stopped.
    """
    state = folder.state()
    if _sharers(folder):
        return folder.write(changed(state, suspended=True))
    stop(folder.home, discard=False)
    return folder.write(changed(state, mount=None, suspended=True))


def _sharers(folder: JobFolder) -> list[Path]:
    marks = folder.root / "sharers"
    return sorted(marks.iterdir()) if marks.is_dir() else []


def _leave(folder: JobFolder, deployment: Deployment) -> None:
    mark = folder.root.parent / deployment.joins / "sharers" / deployment.name
    mark.unlink(missing_ok=True)


def _end_joined(other: JobFolder) -> None:
    """Take the shared store down where its own job has ended, and this one was its last sharer."""
    if not other.exists() or _sharers(other):
        return
    # The owner's own teardown goes on; another sharer may do so at the same time.
    with contextlib.suppress(FileNotFoundError):
        state = other.state()
        if state.phase is Phase.ENDING:
            teardown(other)
        elif state.suspended:
            with other.locked():
                # The owner may have begun to go on.
                if other.state().suspended:
                    halt(other)
