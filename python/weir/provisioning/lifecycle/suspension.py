"""The early end of a job's storage: nothing of it runs on, and no result is lost."""

from weir.provisioning.lifecycle.movement import Shown, is_in_memory, save
from weir.provisioning.lifecycle.record import JobFolder, Phase, State
from weir.provisioning.lifecycle.teardown import halt, teardown, unsaved


def suspend(folder: JobFolder, *, shown: Shown | None = None) -> State:
    """Stop a job's store so that its results stay: on its devices, or saved from memory into the job's folder.

    A job without results that have to be kept is torn down. A store that other jobs share runs on until the last of
    them has been torn down.

    Args:
        shown: Called with the progress of what is saved.

    Returns:
        The state; `ENDED` where there was nothing to keep.

    Raises:
        StagingError: Results in memory cannot be saved; the store is left running, because they would be lost.
        StoreError: The store cannot be stopped.
    """
    deployment, state = folder.deployment(), folder.state()
    if state.phase is Phase.ENDED or not unsaved(deployment, state):
        return teardown(folder)
    if deployment.joins:
        # The store is another job's, and its own results keep it up.
        return state
    if is_in_memory(deployment, state):
        state = save(folder, shown=shown)
    with folder.locked():
        return halt(folder)


def needs_store(folder: JobFolder) -> bool:
    """Decide whether a suspended job's results can be staged out only with its store up.

    Returns:
        Whether results lie in the store alone.
    """
    deployment, state = folder.deployment(), folder.state()
    return len(state.kept) + state.staged_out < len(deployment.stage_out)
