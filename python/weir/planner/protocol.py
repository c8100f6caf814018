"""The messages of the planner: one JSON object a line, requests and answers (docs/reference/planner.md)."""

import re
from typing import Any, Literal

import msgspec

from weir.planner.errors import Code, PlannerError
from weir.provisioning.behaviour.identity import Identity
from weir.provisioning.deployments import Deployment, Policy
from weir.provisioning.jobs.directives import Directives
from weir.store import values

VERSION = 1
"""Version of the protocol."""
REQUEST_BYTES_MAX = 1 << 19
"""A longer line is refused: a batch script with its identity takes some kilobytes, and long ones are slow to read."""
ANSWER_BYTES_MAX = 16 << 20
"""No answer is longer: a list has a page at a time."""
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,62}")
"""Names of deployments."""
WAIT_SECONDS_MAX = 600.0
"""Longest time that a request waits for a step; its client asks again."""
LIST_MAX = 1000
"""Most deployments of one answer."""
NODES_MAX = 4096
"""Most nodes that a request names: a deployment keeps them."""
TEXT_MAX = 4096
"""Longest text: that of a path on Linux."""
WORD_MAX = 255
"""Longest name of a node, a program or an identity."""

State = Literal[
    "waiting",
    "planned",
    "starting",
    "started",
    "staging-in",
    "ready",
    "running",
    "staging-out",
    "staged-out",
    "kept",
    "ending",
    "ended",
    "failed",
]
"""States of a deployment, in the order of its life.

`waiting`: a job with a window waits until its policy finds storage. `kept`: the job is done, and its store serves
others or its lease. `failed`: a step failed, and may be asked for again.
"""
Step = Literal["setup", "stage_in", "environment", "stage_out", "teardown"]
"""Steps of a deployment's life."""


class Request(msgspec.Struct, kw_only=True, forbid_unknown_fields=True, tag_field="request"):
    """The fields of every request."""

    id: int | str = 0
    """Copied to the answer."""
    uid: int | None = None
    """User for whom the request is; None for the user who asks. Only root and the scheduler's user may name another."""


class Named(Request, kw_only=True):
    """A request about one deployment."""

    name: str


class Plan(Request, kw_only=True, tag="plan"):
    """Plan the storage of a job; with a name, the plan becomes a deployment in state `planned`."""

    name: str = ""
    script: str = ""
    """Text of the batch script or jobspec; empty where none is known."""
    identity: Identity | None = None
    """The job's identity. Without it and `log`, the job's last one is used."""
    log: str = ""
    """Absolute path of a Darshan log or trace of a past run, which is read with the rights of the user."""
    policy: Policy | None = None
    """Pace of sharing; None for the one of the script's directives."""
    nodes: int | None = None
    """Nodes of the job, as its scheduler knows them; they hold against the script's."""
    job: str = ""
    """Number or name of the job at its scheduler, for people who read lists."""


class Validate(Request, kw_only=True, tag="validate"):
    """Check the directives of a batch script or jobspec without planning.

    Storage that the site can never have is refused; with `uid` and `nodes`, so is a job of which nothing is known.
    """

    script: str
    nodes: int | None = None
    """Nodes of the job, as its scheduler knows them; they hold against the script's."""


class StepRequest(Named, kw_only=True):
    """A step of a deployment's life. It goes on when the client is gone."""

    wait_seconds: float = 0.0
    """Time to wait for its end; the answer tells the state then, and 0 begins the step alone."""


class Setup(StepRequest, kw_only=True, tag="setup"):
    """Start the storage."""

    nodes: tuple[str, ...] = ()
    """Nodes that may serve; empty for all of the resource model. A plan on others is made again."""


class StageIn(StepRequest, kw_only=True, tag="stage_in"):
    """Copy the job's input into the storage."""


class GetEnvironment(StepRequest, kw_only=True, tag="environment"):
    """Make the credential and the variables of the job's environment; the job is `running` then."""


class StageOut(StepRequest, kw_only=True, tag="stage_out"):
    """Copy the job's output out of the storage."""


class Teardown(StepRequest, kw_only=True, tag="teardown"):
    """End the deployment."""

    discard: bool = False
    """Whether output that was not staged out may be lost."""


class End(StepRequest, kw_only=True, tag="end"):
    """End the deployment in whatever state it is; a step under way is broken off."""

    discard: bool = False
    """Whether output that was not staged out may be lost."""


class Show(Named, kw_only=True, tag="show"):
    """Tell all of a deployment."""


class Paths(Named, kw_only=True, tag="paths"):
    """Tell the variables of the job's environment that are known; the deployment's state stays."""


class List(Request, kw_only=True, tag="list"):
    """List deployments by name."""

    all_users: bool = False
    """Deployments of every user are listed: for root and the scheduler's user alone."""
    ended: bool = False
    """Whether ended ones are listed."""
    after: str = ""
    """Value of `next` of the page before."""
    limit: int = LIST_MAX


class Pools(Request, kw_only=True, tag="pools"):
    """Tell the storage of the site, by class of device."""


class Quarantine(Request, kw_only=True, tag="quarantine"):
    """Leave a node out of plans: for root and the scheduler's user alone."""

    node: str
    seconds: float
    """Time from now; 0 takes the node back."""
    reason: str = ""


class Release(Request, kw_only=True, tag="release"):
    """Release a job that Slurm holds because its storage could not be had; its user may not do so at Slurm."""

    job: str
    """Number of the job."""


class Ping(Request, kw_only=True, tag="ping"):
    """Tell the planner's version."""


AnyRequest = (
    Plan
    | Validate
    | Setup
    | StageIn
    | GetEnvironment
    | StageOut
    | Teardown
    | End
    | Show
    | Paths
    | List
    | Pools
    | Quarantine
    | Release
    | Ping
)
"""Every request."""


class Times(msgspec.Struct, frozen=True, kw_only=True):
    """Times of the parts of a plan in the planner, as figure 7 of the paper has them."""

    parse_ms: float = 0.0
    """The log, to an identity; 0 where it was known."""
    plan_ms: float = 0.0
    """Class, service-level objective, resources and configuration; 0 where the last plan still holds."""
    total_ms: float = 0.0


class Planned(msgspec.Struct, frozen=True, kw_only=True):
    """Answer of `plan`."""

    deployment: Deployment
    state: State | Literal[""] = ""
    """State of the deployment; empty for a plan without a name."""
    known: bool
    """Whether the job was known, so that nothing was parsed."""
    times: Times


class Valid(msgspec.Struct, frozen=True, kw_only=True):
    """Answer of `validate`."""

    directives: Directives
    nodes: int | None = None
    processes: int | None = None


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """A deployment in a list, and the answer of each step."""

    name: str
    uid: int
    job: str = ""
    state: State
    step: Step | Literal[""] = ""
    """The step under way; in state `failed` the one that failed."""
    error: str = ""
    """The failure of the last step, with the place of the data where they could not be staged out."""
    hint: str = ""
    changed: float
    """Time of the last change, in seconds since 1970."""
    size_bytes: int = 0
    nodes: tuple[str, ...] = ()
    joins: str = ""
    replans: int = 0
    """Times that the deployment was planned again."""
    lease_until: float | None = None
    """End of the lease of a store that is kept; None while others share it."""


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """A step of a deployment that failed."""

    step: Step
    message: str
    hint: str = ""
    at: float
    """Time in seconds since 1970."""


class Shown(msgspec.Struct, frozen=True, kw_only=True):
    """Answer of `show`."""

    summary: Summary
    deployment: Deployment
    environment: dict[str, str] = {}
    sharers: tuple[str, ...] = ()
    """Names of the deployments that share this one's store."""
    created: float
    left_out: tuple[str, ...] = ()
    """Nodes that failed this deployment."""
    failures: tuple[Failure, ...] = ()
    """The last failures, the first one first; they stay when the step is done well, and when the deployment ends."""


class Variables(msgspec.Struct, frozen=True, kw_only=True):
    """Answer of `environment` and `paths`."""

    state: State
    environment: dict[str, str]


class Listed(msgspec.Struct, frozen=True, kw_only=True):
    """Answer of `list`."""

    deployments: tuple[Summary, ...]
    next: str = ""
    """For `after` of the next page; empty on the last one."""


class Pool(msgspec.Struct, frozen=True, kw_only=True):
    """The storage of one class of device."""

    name: str
    total_bytes: int
    free_bytes: int
    granularity_bytes: int
    """Sizes are multiples of it."""


class PoolList(msgspec.Struct, frozen=True, kw_only=True):
    """Answer of `pools`."""

    pools: tuple[Pool, ...]
    quarantined: dict[str, str] = {}
    """Nodes that are left out, with the reason."""


class Hello(msgspec.Struct, frozen=True, kw_only=True):
    """Answer of `ping`, `quarantine` and `release`."""

    version: int = VERSION
    pid: int


AnyResult = Planned | Valid | Summary | Shown | Variables | Listed | PoolList | Hello
"""Every result; which one follows from the request."""


class Fault(msgspec.Struct, frozen=True, kw_only=True):
    """The reason of a refusal."""

    code: Code
    message: str
    hint: str = ""


class Answer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An answer: `result` or `error`."""

    id: int | str
    result: dict[str, Any] | None = None
    error: Fault | None = None


class _SetupLine(StepRequest, kw_only=True, tag="setup"):
    """A `Setup` whose nodes are counted before they are read: each of many short names takes 0.2 us."""

    nodes: msgspec.Raw = msgspec.Raw(b"[]")


_DECODER = msgspec.json.Decoder(
    Plan
    | Validate
    | _SetupLine
    | StageIn
    | GetEnvironment
    | StageOut
    | Teardown
    | End
    | Show
    | Paths
    | List
    | Pools
    | Quarantine
    | Release
    | Ping
)
_ENCODER = msgspec.json.Encoder()


def decode(line: bytes) -> AnyRequest:
    """Read a request and check what its type does not say.

    Args:
        line: The line, without its end.

    Raises:
        PlannerError: The line is no request.
    """
    if len(line) > REQUEST_BYTES_MAX:
        raise PlannerError(
            f"the request is longer than {REQUEST_BYTES_MAX} bytes", hint="requests name data; they do not carry them"
        )
    try:
        request = _DECODER.decode(line)
        found = _with_nodes(request) if isinstance(request, _SetupLine) else request
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise PlannerError(f"the request cannot be read: {error}", hint="see docs/reference/planner.md") from error
    check(found)
    return found


def _with_nodes(line: _SetupLine) -> Setup:
    nodes = bytes(line.nodes)
    if nodes.count(b",") >= NODES_MAX:
        # No name of a node has a comma.
        raise _too_many_nodes(nodes.count(b",") + 1)
    names = msgspec.json.decode(nodes, type=tuple[str, ...])
    return Setup(id=line.id, uid=line.uid, name=line.name, wait_seconds=line.wait_seconds, nodes=names)


def _too_many_nodes(count: int) -> PlannerError:
    return PlannerError(f"{count} nodes are more than {NODES_MAX}", hint="name those that may serve alone")


def check(request: AnyRequest) -> None:
    """Check the names, times and counts of a request.

    Raises:
        PlannerError: A field is out of its range.
    """
    if isinstance(request.id, str) and len(request.id) > 64:
        raise PlannerError("id is longer than 64 characters")
    if request.uid is not None and not 0 <= request.uid < (1 << 32) - 1:
        raise PlannerError(f"uid {request.uid} is no user")
    if isinstance(request, Named) or (isinstance(request, Plan) and request.name):
        check_name(request.name)
    if isinstance(request, StepRequest) and not 0 <= request.wait_seconds <= WAIT_SECONDS_MAX:
        raise PlannerError(f"wait_seconds is not from 0 to {WAIT_SECONDS_MAX:.0f}")
    if isinstance(request, List) and not 1 <= request.limit <= LIST_MAX:
        raise PlannerError(f"limit is not from 1 to {LIST_MAX}")
    if isinstance(request, Plan | Validate) and not (request.nodes is None or 1 <= request.nodes <= 1 << 32):
        raise PlannerError(f"{request.nodes} is no number of nodes")
    if isinstance(request, Plan):
        _check_plan(request)
    if isinstance(request, Setup):
        _check_nodes(request.nodes)
    if isinstance(request, Release) and re.fullmatch(r"[0-9]{1,10}", request.job) is None:
        raise PlannerError(f"{request.job[:80]!r} is no number of a job", hint="see `squeue --me`")
    if isinstance(request, Quarantine):
        _check_nodes((request.node,))
        if not (0 <= request.seconds < 1e10 and len(request.reason) <= TEXT_MAX):
            raise PlannerError("a quarantine is of a node, for a number of seconds from 0")


def check_name(name: str) -> None:
    """Check the name of a deployment.

    Raises:
        PlannerError: It is no word of letters, digits and `-`.
    """
    if NAME.fullmatch(name) is None:
        raise PlannerError(f"{name[:80]!r} is no name of a deployment", hint="1 to 63 letters, digits and `-`")


def _check_nodes(nodes: tuple[str, ...]) -> None:
    if len(nodes) > NODES_MAX:
        raise _too_many_nodes(len(nodes))
    try:
        for node in nodes:
            values.host(node)
    except ValueError as error:
        raise PlannerError(str(error), hint="name nodes of the site") from error


def _check_plan(request: Plan) -> None:
    identity = request.identity
    if identity is not None and max(map(len, (identity.name, identity.program, identity.interface))) > WORD_MAX:
        raise PlannerError(f"a text of the identity is longer than {WORD_MAX} characters")
    if request.identity is not None and request.log:
        raise PlannerError("a plan begins with an identity or with a log", hint="leave one of them out")
    if request.log and (not request.log.startswith("/") or len(request.log) > TEXT_MAX or "\0" in request.log):
        raise PlannerError(f"{request.log[:80]!r} is no absolute path of a log")
    if len(request.job) > 64:
        raise PlannerError("job is longer than 64 characters")


def encode(answer: Answer) -> bytes:
    """Write an answer.

    Returns:
        A line, including its end.
    """
    return _ENCODER.encode(answer) + b"\n"


def result(identifier: int | str, of: AnyResult) -> Answer:
    """Make the answer of a request that was granted.

    Args:
        identifier: The request's.
    """
    return Answer(id=identifier, result=msgspec.to_builtins(of))


def refusal(identifier: int | str, error: PlannerError) -> Answer:
    """Make the answer of a request that was refused.

    Args:
        identifier: The request's.
    """
    return Answer(
        id=identifier, error=Fault(code=error.code, message=error.message[:TEXT_MAX], hint=error.hint[:TEXT_MAX])
    )
