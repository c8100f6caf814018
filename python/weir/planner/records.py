"""The durable record of a deployment, and the states that follow from it."""

from collections.abc import Mapping
from typing import Literal

import msgspec

from weir.planner.errors import PlannerError
from weir.planner.protocol import Failure, State, Step, Summary
from weir.provisioning.behaviour.identity import Identity
from weir.provisioning.deployments import Deployment
from weir.provisioning.jobs.directives import Directives
from weir.provisioning.jobs.job import Job

ORDER: tuple[Step, ...] = ("setup", "stage_in", "environment", "stage_out", "teardown")
"""Steps in the order of a deployment's life."""
_DURING: Mapping[str, State] = {
    "setup": "starting",
    "stage_in": "staging-in",
    "environment": "ready",
    "stage_out": "staging-out",
    "teardown": "ending",
}
_AFTER: Mapping[str, State] = {
    "": "planned",
    "setup": "started",
    "stage_in": "ready",
    "environment": "running",
    "stage_out": "staged-out",
    "teardown": "ended",
}


class Record(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A deployment as the store keeps it. Its state follows from `done`, `step` and `failed`."""

    version: Literal[1] = 1
    """Version of this document."""
    uid: int
    gid: int
    name: str
    job: str = ""
    """Number or name of the job at its scheduler."""
    deployment: Deployment
    identity: Identity
    asked: Job
    """The job that asked."""
    directives: Directives
    """The wishes of the job's user."""
    created: float
    changed: float
    done: Step | Literal[""] = ""
    """The last step that ended well."""
    step: Step | Literal[""] = ""
    """The step under way, or the one that failed."""
    failed: bool = False
    error: str = ""
    hint: str = ""
    goal: Step | Literal[""] = ""
    """The step up to which the deployment goes on by itself."""
    nodes: tuple[str, ...] = ()
    """Nodes that the scheduler granted; empty where any may serve."""
    left_out: tuple[str, ...] = ()
    """Nodes that failed this deployment."""
    replans: int = 0
    touched: bool = False
    """Whether a step was begun, so that something may have to be torn down."""
    ran: bool = False
    """Whether the job had its environment, so that there may be output."""
    staged_out: bool = False
    environment: dict[str, str] = {}
    window_until: float | None = None
    """End of the time for which the job waits for a store to share; None where it does not wait."""
    kept: bool = False
    """Whether the job is done, and its store stays for others or its lease."""
    lease_until: float | None = None
    """End of the lease of a kept store; None while others share it."""
    failures: tuple[Failure, ...] = ()
    """The last failures, which outlive their step and the deployment's end."""
    let_go: bool = False
    """Whether others may take the storage of the plan, because it was not set up in time; it is planned again then."""

    @property
    def key(self) -> tuple[int, str]:
        """The user and the name, which together are unique."""
        return self.uid, self.name

    @property
    def state(self) -> State:
        """The state of the deployment."""
        if self.done == "teardown":
            return "ended"
        if self.failed:
            return "failed"
        if self.step == "environment" and self.ran:
            return "running"
        if self.step:
            return _DURING[self.step]
        if self.window_until is not None:
            return "waiting"
        return "kept" if self.kept else _AFTER[self.done]

    @property
    def is_live(self) -> bool:
        """Whether the deployment counts: ended ones are history."""
        return self.done != "teardown"

    @property
    def holds_storage(self) -> bool:
        """Whether the deployment has, or is promised, devices of its own."""
        return self.is_live and not self.deployment.joins and self.window_until is None and not self.let_go

    @property
    def holds_in_vain(self) -> bool:
        """Whether the deployment holds storage that could not be set up, and nothing of the job's is on it."""
        return self.holds_storage and self.failed and self.step == "setup" and not self.done and not self.ran

    def is_overdue(self, before: float) -> bool:
        """Tell whether the deployment holds storage that was promised long ago, and nobody has begun to set it up.

        Args:
            before: Time in seconds.

        Returns:
            Whether the last change was before that time.
        """
        return self.holds_storage and not self.touched and not self.is_busy and self.changed < before

    @property
    def is_busy(self) -> bool:
        """Whether the planner continues the deployment without a request."""
        return self.is_live and not self.failed and bool(self.goal)


class KnownJob(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The last identity of a job, and its last plan."""

    version: Literal[1] = 1
    """Version of this document."""
    identity: Identity
    deployment: Deployment
    conditions: str
    """Digest of all that the plan depended on."""
    is_at_hand: bool = True
    """Whether the policy itself found the plan, on storage that was free."""


class Fault(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A node that failed a deployment of a user, or that an administrator leaves out."""

    node: str
    uid: int
    """The user whose deployment it failed; `ADMINISTRATOR` for one that holds for everybody."""
    until: float
    reason: str = ""


GIVEN_UP = "its storage is free for others, and is planned again with the next setup"
"""Part of the hint of a deployment whose setup failed."""
FAILURES_MAX = 8
"""Failures that a deployment keeps."""
_FAILURE_CHARACTERS_MAX = 400
"""Longest text of a kept failure: a thousand ended deployments of a user have eight each."""
ADMINISTRATOR = -1
"""Stands for root and the scheduler's user in the faults of nodes."""


def summary(record: Record) -> Summary:
    """Describe a deployment in a list."""
    return Summary(
        name=record.name,
        uid=record.uid,
        job=record.job,
        state=record.state,
        step=record.step,
        error=record.error,
        hint=record.hint,
        changed=record.changed,
        size_bytes=record.deployment.size_bytes,
        nodes=tuple(server.node for server in record.deployment.servers),
        joins=record.deployment.joins,
        replans=record.replans,
        lease_until=record.lease_until,
    )


def next_step(record: Record) -> Step | None:
    """Find the step that leads on to the goal.

    Returns:
        The step; None where the goal is reached, or nothing is to be done.
    """
    if not record.is_busy:
        return None
    if record.goal in ("stage_out", "teardown", "environment") and _reached(record.done, before=record.goal):
        return record.goal
    if _place(record.done) >= _place(record.goal):
        return None
    return ORDER[_place(record.done) + 1]


def _reached(done: str, *, before: Step) -> bool:
    """Whether a step may follow: ends and outputs follow on any step, a fresh environment on itself."""
    if before == "teardown":
        return True
    if before == "stage_out":
        return done in ("stage_in", "environment")
    return done in ("stage_in", "environment")


def _place(step: str) -> int:
    return ORDER.index(step) if step else -1


def asked_for(record: Record, step: Step, *, now: float, nodes: tuple[str, ...] = ()) -> Record:
    """Set the goal of a deployment.

    Args:
        now: Time in seconds.
        nodes: Nodes that may serve; empty for all, or for those named before.

    Returns:
        The deployment with its goal; the same one where the step is done or under way.

    Raises:
        PlannerError: The deployment's state does not allow the step.
    """
    if not record.is_live:
        if step == "teardown":
            return record
        raise PlannerError(f"deployment {record.name} has ended", hint="plan it again", code="conflict")
    if step != "teardown" and (record.kept or record.goal == "teardown"):
        raise PlannerError(f"deployment {record.name} is ending", hint="plan it again", code="conflict")
    if step == "stage_out" and not (record.staged_out or _reached(record.done, before="stage_out")):
        raise PlannerError(
            f"deployment {record.name} is {record.state}, and has no storage to stage out of",
            hint="`stage_in` comes first",
            code="conflict",
        )
    is_there = _place(record.done) >= _place(step) and step != "environment"
    is_under_way = record.is_busy and _place(record.goal) >= _place(step)
    if is_there or is_under_way:
        return record
    if step == "environment" and record.done == "stage_out":
        raise PlannerError(f"the output of {record.name} was staged out", hint="tear it down", code="conflict")
    if record.is_busy and step not in ("environment", "stage_in", "teardown"):
        raise PlannerError(
            f"deployment {record.name} is {record.state}", hint="ask again when the step has ended", code="conflict"
        )
    cleared = "" if record.failed else record.step
    return msgspec.structs.replace(
        record,
        goal=step,
        step=cleared,
        failed=False,
        error="",
        hint="",
        nodes=nodes or record.nodes,
        changed=now,
    )


def begun(record: Record, step: Step, *, now: float) -> Record:
    """Begin a step.

    Args:
        now: Time in seconds.

    Returns:
        The deployment with the step under way.
    """
    return msgspec.structs.replace(record, step=step, touched=record.touched or step != "teardown", changed=now)


def succeeded(record: Record, step: Step, *, now: float, environment: Mapping[str, str] | None = None) -> Record:
    """End a step well.

    Args:
        now: Time in seconds.
        environment: Variables for the job, of the step `environment`.

    Returns:
        The deployment behind the step.
    """
    made = msgspec.structs.replace(
        record,
        done=step,
        step="",
        goal="" if record.goal == step else record.goal,
        changed=now,
        ran=record.ran or step == "environment",
        staged_out=record.staged_out or step == "stage_out",
        environment=record.environment if environment is None else dict(environment),
    )
    if step == "teardown":
        made = msgspec.structs.replace(made, kept=False, lease_until=None, window_until=None, environment={})
    return made


def broken(record: Record, step: Step, message: str, hint: str, *, now: float) -> Record:
    """End a step that failed.

    Args:
        message: The failure.
        hint: A remedy; empty where none is known.
        now: Time in seconds.

    Returns:
        The failed deployment, which stays until the step is asked for again, or the end.
    """
    failed = with_failure(record, step, message, hint, now=now)
    return msgspec.structs.replace(failed, step=step, failed=True, goal="", error=message, hint=hint, changed=now)


def with_failure(record: Record, step: Step, message: str, hint: str, *, now: float) -> Record:
    """Keep a failure, also of a step that is tried again by itself.

    Args:
        message: The failure.
        hint: A remedy; empty where none is known.
        now: Time in seconds.
    """
    failure = Failure(step=step, message=message[:_FAILURE_CHARACTERS_MAX], hint=hint[:_FAILURE_CHARACTERS_MAX], at=now)
    return msgspec.structs.replace(record, failures=(*record.failures, failure)[-FAILURES_MAX:])


def given_up(record: Record) -> Record:
    """Let others have the storage of a deployment whose setup failed; it is planned again when it is set up again.

    Args:
        record: The deployment, of whose storage nothing is left.

    Returns:
        The deployment, which tells so beside its failure.
    """
    if not record.is_live or record.let_go:
        return record
    hint = "; ".join(part for part in (record.hint, GIVEN_UP) if part) if record.failed else record.hint
    return msgspec.structs.replace(record, let_go=True, hint=hint)


def replanned(record: Record, deployment: Deployment, left_out: tuple[str, ...], *, now: float) -> Record:
    """Put another plan in the place of one that cannot be.

    Args:
        record: The deployment, whose storage is gone.
        deployment: The new plan.
        left_out: Further nodes that failed it.
        now: Time in seconds.

    Returns:
        The deployment, before its first step; its goal stays.
    """
    return msgspec.structs.replace(
        record,
        deployment=deployment,
        done="",
        step="",
        replans=record.replans + (0 if record.let_go else 1),
        let_go=False,
        left_out=tuple(sorted({*record.left_out, *left_out})),
        changed=now,
    )


def check_output(record: Record, folder: str, *, discard: bool) -> None:
    """Refuse an end that would lose output.

    Args:
        folder: The place of its data.
        discard: Whether the output may be lost.

    Raises:
        PlannerError: The job ran, and its output was not staged out.
    """
    if record.ran and record.deployment.stage_out and not record.staged_out and not discard and record.is_live:
        wanted = ", ".join(each.source for each in record.deployment.stage_out[:8])
        raise PlannerError(
            f"the output of {record.name} was not staged out: {wanted} is in the store in {folder}",
            hint="stage it out, or discard it",
            code="conflict",
        )
