"""The outcome of a deployment: what one run of a job had from its storage, and whether the run says anything."""

import hashlib
from typing import Literal

import msgspec

from weir.provisioning.behaviour.identity import Identity
from weir.provisioning.jobs.job import Job
from weir.provisioning.objectives.sslos import Guarantees, System

Kind = Literal["read", "write", "metadata"]
KINDS: tuple[Kind, ...] = ("read", "write", "metadata")
SECONDS_MIN = 0.1
"""Time in calls of one kind below which a run says nothing of the kind's rate: the processors of a busy machine delay a
process by some 10 ms, which would be a tenth of it."""
COVERED_MIN = 0.5
"""Part of the bytes that the servers counted for the job from which on its traces tell of the rates of the whole job.
Static programs, those that drop LD_PRELOAD, and output that a shell redirects leave none."""
ALONE_MAX = 0.05
"""Time that the store gave to other jobs while this one waited, over the job's own time in calls, up to which the job
counts as alone."""


class Question(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The job as its plan knew it, which its outcome is compared with."""

    job: str
    """Key of the job."""
    identity: Identity


class Neighbouring(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A job that used the same store meanwhile."""

    behaviour_class: str
    """Class of the job; empty where nothing tells."""
    processes: int = 1
    waited_seconds: float = 0.0
    """Device time that the job received while this one had requests queued."""


class Calls(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The calls of one kind of a run."""

    operations: int = 0
    bytes: int = 0
    seconds: float = 0.0
    """Time during which a process was in such calls."""


class Outcome(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The service that one run of a job received from its storage."""

    version: Literal[1] = 1
    """Version of this document."""
    begun: float
    """Begin of the program, in seconds since 1970."""
    job: str
    """Key of the job: the same for all its runs."""
    behaviour_class: str
    """Class that the plan took the job for; empty for none."""
    sslo: str
    """Objective of the plan."""
    system: System
    owned: bool = True
    """Whether the storage was made for the job, and not joined."""
    planned: Identity
    """The job as the plan knew it, from its log."""
    done: Identity
    """The job as the run did it: bytes by the servers' accounts, and operations by the traces."""
    predicted: Guarantees
    """Rates that the plan expected for the job's calls, with what had been learned then."""
    calls: dict[Kind, Calls] = {}
    """The calls by kind, as the job's processes counted them; empty where no trace tells."""
    covered: float = 0.0
    """Part of the bytes that the servers counted which the traces have, from 0 to 1."""
    exit_code: int | None = 0
    """Exit code of the program; None where its scheduler alone knows."""
    share_owed: float | None = None
    """Part of the device time that the policy owed the job while it was active; None where it owes none."""
    share_received: float | None = None
    wait_seconds: float = 0.0
    """Time that the job's requests waited for their turn, all together."""
    wait_seconds_p99: float = 0.0
    """99th percentile of the times that requests waited, on the worst server."""
    device_seconds: float = 0.0
    """Time that devices worked for the job."""
    neighbours: tuple[Neighbouring, ...] = ()
    fault: str = ""
    """The reason why the run could not be measured; empty where it could."""

    @property
    def seconds(self) -> float:
        """Time of the calls of all kinds."""
        return sum(each.seconds for each in self.calls.values())

    @property
    def is_alone(self) -> bool:
        """Whether no other job took noticeable time of the store."""
        return sum(each.waited_seconds for each in self.neighbours) <= ALONE_MAX * self.seconds


def job_key(job: Job) -> str:
    """Make the key of a job from its command, nodes and processes, which stay from run to run.

    Returns:
        A digest of 32 digits.
    """
    parts = (job.command, job.nodes, job.processes)
    return hashlib.blake2b(msgspec.json.encode(parts), digest_size=16).hexdigest()


def silence(outcome: Outcome) -> str:
    """Find the reason why nothing at all can be learned from a run.

    Returns:
        The reason in words; empty where the run may say something.
    """
    if outcome.fault:
        return outcome.fault
    if outcome.exit_code:
        return f"the program failed with {outcome.exit_code}, so its work may be half of it"
    if not outcome.calls:
        return "no trace tells of its calls: a static program, or one that drops LD_PRELOAD"
    if outcome.covered < COVERED_MIN:
        return f"the traces have {outcome.covered:.0%} of the bytes that the servers counted"
    longest = max(each.seconds for each in outcome.calls.values())
    if longest < SECONDS_MIN:
        return f"its calls took {longest:.2g} s, and below {SECONDS_MIN:g} s noise decides"
    return ""


def silence_of(outcome: Outcome, kind: Kind) -> str:
    """Find the reason why nothing can be learned from a run about the rate of one kind of calls.

    Returns:
        The reason in words; empty where the run says something.
    """
    if reason := silence(outcome):
        return reason
    calls = outcome.calls.get(kind, Calls())
    if calls.seconds < SECONDS_MIN:
        return f"its calls took {calls.seconds:.2g} s, and below {SECONDS_MIN:g} s noise decides"
    return ""


def measured_rate(outcome: Outcome, kind: Kind) -> float | None:
    """The rate that a run had for one kind of calls.

    Returns:
        Bytes, or metadata operations, in a second; None where the run says nothing of the rate.
    """
    if silence_of(outcome, kind):
        return None
    calls = outcome.calls[kind]
    done = calls.operations if kind == "metadata" else calls.bytes
    return done / calls.seconds if done > 0 else None
