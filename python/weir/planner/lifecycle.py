"""The steps of deployments of Weir, as the planner runs them: `weir.provisioning.lifecycle` over a folder."""

import os
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from weir.errors import WeirError
from weir.planner.errors import PlannerError
from weir.planner.step import Context
from weir.provisioning.deployments import Deployment

if TYPE_CHECKING:
    from weir.deployment.fanout import Reach
    from weir.provisioning.lifecycle.record import JobFolder
    from weir.provisioning.outcomes.outcome import Outcome
    from weir.store.identity import Identity
    from weir.store.notices import Notice

_NO_ACCESS = re.compile(r"permission denied|\bit is uid \d+'s\b", re.IGNORECASE)
"""A refusal by the file system. It is about the rights of one user, and tells nothing of the node."""
_AT_FAULT = re.compile(r"\bserver (\d+)\b|\btarget (\d+)\.\d+\b")
"""The server that an error of a store's start names."""


class NodesError(PlannerError):
    """A failure of nodes.

    Attributes:
        nodes: Their names.
    """

    def __init__(self, error: WeirError, nodes: tuple[str, ...]) -> None:
        """Name the nodes of an error.

        Args:
            nodes: Nodes at fault.
        """
        super().__init__(error.message, hint=error.hint, code="failed")
        self.nodes = nodes


def setup(deployment: Deployment, folder: Path, context: Context) -> None:
    """Start the storage.

    Args:
        context: The job, and the way to the nodes.

    Raises:
        NodesError: Servers of some nodes cannot be started.
        ProvisioningError: The deployment cannot be started.
        StoreError: The store does not come up.
    """
    from weir.provisioning.lifecycle.setup import setup as start
    from weir.provisioning.lifecycle.validation import validate
    from weir.store.errors import StoreError

    validate(deployment)
    job = _job(folder)
    job.create(deployment)
    try:
        start(job, _tell, reach=_reach(deployment, context))
    except StoreError as error:
        nodes = _at_fault(error.message, deployment)
        if not nodes:
            raise
        raise NodesError(error, nodes) from error


def stage_in(deployment: Deployment, folder: Path, context: Context) -> None:
    """Copy the job's input into its storage.

    Raises:
        StagingError: A transfer failed.
    """
    from weir.provisioning.lifecycle import movement

    movement.stage_in(_job(folder), identity=_identity(deployment, context))


def environment(deployment: Deployment, folder: Path, context: Context) -> dict[str, str]:
    """Make the credential and the variables of the job's environment.

    Returns:
        Variables by their names; nothing of this process's own environment is among them.

    Raises:
        ProvisioningError: The store is not up.
    """
    from weir.provisioning.lifecycle import measurement
    from weir.provisioning.lifecycle.environment import environment as made
    from weir.provisioning.lifecycle.record import Phase, changed

    job = _job(folder)
    variables = made(job, _identity(deployment, context), present={})
    if context.question is not None:
        measurement.ask(job, context.question)
        variables |= measurement.begin(job, variables)
    with job.locked():
        state = job.state()
        if state.phase.is_before(Phase.RUNNING):
            # From here on there may be results, which no end loses without a word.
            job.write(changed(state, phase=Phase.RUNNING))
    return variables


def stage_out(deployment: Deployment, folder: Path, context: Context) -> "Outcome | None":
    """Copy the job's output out of its storage.

    Returns:
        The outcome of the run, which has ended; None where an earlier step told it.

    Raises:
        StagingError: A transfer failed; the results are kept.
    """
    from weir.provisioning.lifecycle import movement

    measured = _measured(deployment, folder, context)
    movement.stage_out(_job(folder), identity=_identity(deployment, context))
    return measured


def teardown(deployment: Deployment, folder: Path, context: Context) -> "Outcome | None":
    """End the storage and remove its folder.

    Args:
        context: Whether output may be lost.

    Returns:
        The outcome of the run; None where an earlier step told it, or where the job did not run.

    Raises:
        ProvisioningError: Output would be lost.
        StoreError: The store cannot be unmounted or stopped.
    """
    from weir.provisioning.lifecycle.record import Phase
    from weir.provisioning.lifecycle.teardown import forget
    from weir.provisioning.lifecycle.teardown import teardown as end

    job = _job(folder)
    if not job.exists():
        return None
    measured = _measured(deployment, folder, context)
    if end(job, discard=context.discard).phase is Phase.ENDED:
        forget(job)
    return measured


def _measured(deployment: Deployment, folder: Path, context: Context) -> "Outcome | None":
    from weir.provisioning.lifecycle import measurement

    # The scheduler alone knows how the program ended.
    return measurement.end(_job(folder), context.job or deployment.name, None)


def _job(folder: Path) -> "JobFolder":
    from weir.provisioning.lifecycle.record import JobFolder

    return JobFolder(folder)


def _identity(deployment: Deployment, context: Context) -> "Identity":
    from weir.store.identity import Identity

    return Identity.of_process(context.job or deployment.name).narrowed(nodes=context.nodes)


def _reach(deployment: Deployment, context: Context) -> "Reach | None":
    own = os.uname().nodename
    names = {server.node for server in deployment.servers}
    is_here = names <= {own, own.partition(".")[0], "localhost"}
    if context.reach == "local" or (context.reach == "auto" and is_here):
        return None
    from weir.deployment.fanout import Reach

    return Reach("ssh", shutil.which("weir") or "weir")


def _at_fault(message: str, deployment: Deployment) -> tuple[str, ...]:
    found = _AT_FAULT.search(message)
    if found is None or _NO_ACCESS.search(message):
        return ()
    number = int(found[1] or found[2])
    return (deployment.servers[number].node,) if number < len(deployment.servers) else ()


def _tell(notice: "Notice") -> None:
    print(notice.words, notice.hint)
