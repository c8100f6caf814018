"""Plans of jobs: from what the planner knows where it can, else by its helpers."""

import asyncio
import hashlib
import time
from dataclasses import dataclass

import msgspec

from weir.planner.errors import PlannerError
from weir.planner.helpers import Helpers
from weir.planner.ledger import Ledger
from weir.planner.protocol import TEXT_MAX, WORD_MAX, Times
from weir.planner.records import KnownJob, Record
from weir.planner.site import Site, Snapshot
from weir.planner.turns import Peer
from weir.planner.users import User
from weir.provisioning.behaviour.identity import Identity, assumed
from weir.provisioning.deployments import Deployment, Policy
from weir.provisioning.jobs.directives import Directives
from weir.provisioning.jobs.job import Job
from weir.provisioning.outcomes.outcome import Outcome

_PATHS_CHARACTERS_MAX = 64 << 10
"""Most characters of all paths that a job has copied: every deployment keeps them."""


@dataclass(frozen=True)
class Asked:
    """A job that asks for storage."""

    user: User
    job: Job
    directives: Directives
    identity: Identity | None = None
    log: str = ""

    @property
    def window_seconds(self) -> float:
        """Time for which the job may wait for storage."""
        is_patient = self.directives.policy == "utilization"
        return self.directives.window_seconds or 0.0 if is_patient else 0.0

    def is_assumed(self, known: KnownJob | None) -> bool:
        """Tell whether nothing but the size of its storage is known of the job.

        Args:
            known: The last run of the job; None without one.

        Returns:
            Whether its identity is assumed.
        """
        return known is None and self.identity is None and not (self.log or self.directives.trace)

    @property
    def key(self) -> str:
        """Key of the job among those of the user: its command, size and past run."""
        parts = (self.job.command, self.job.nodes, self.job.processes, self.directives.trace)
        return hashlib.blake2b(msgspec.json.encode(parts), digest_size=16).hexdigest()


@dataclass(frozen=True)
class Made:
    """A plan, and the way to it."""

    identity: Identity
    deployment: Deployment
    snapshot: Snapshot
    known: bool
    times: Times
    waits: bool = False
    """Whether the job waits for storage within its window, and the plan only shows that there may be some."""


class Plans:
    """The plans of one planner."""

    def __init__(self, ledger: Ledger, site: Site, helpers: Helpers) -> None:
        """Take the parts.

        Args:
            ledger: The known jobs.
            site: The storage of the site.
            helpers: The helper processes.
        """
        self._ledger = ledger
        self._site = site
        self._helpers = helpers
        self._turns: dict[int, asyncio.Lock] = {}

    def turn(self, uid: int) -> asyncio.Lock:
        """Find the turn of a user: one plan of each is made at a time, so that users take turns at the helpers.

        Returns:
            The lock that a caller of `again` holds.
        """
        return self._turns.setdefault(uid, asyncio.Lock())

    async def read(self, peer: Peer, user: User, script: str) -> tuple[Job, Directives]:
        """Find the job and the directives of a script.

        Args:
            peer: The user who asks.
            script: Text of a batch script or jobspec; empty for a job of which nothing is known.

        Raises:
            PlannerError: The script cannot be used; the error names the line.
        """
        if not script:
            return Job(), Directives()
        return _bounded(*await self._helpers.read(peer, user, script))

    async def check_possible(self, asked: Asked, *, is_whole: bool) -> None:
        """Refuse a job whose storage can never be had, within milliseconds: nothing is planned, and no log read.

        Args:
            is_whole: Whether user and nodes of the job are known, by which planners know jobs.

        Raises:
            PlannerError: The site has no such storage, or nothing is known of the job.
        """
        self._site.check_possible(asked.directives)
        is_sized = asked.directives.size_bytes is not None or asked.directives.trace
        if is_whole and not is_sized and await self._ledger.known(asked.user.uid, asked.key) is None:
            raise _nothing_known()

    async def make(self, asked: Asked, name: str = "") -> Made:
        """Plan the storage of a job.

        Args:
            name: Name of the deployment; empty for one that is made of the job.

        Raises:
            PlannerError: Nothing is known of the job, its log cannot be used, or no storage fits.
        """
        begin = time.perf_counter()
        known = None
        if asked.identity is None and not asked.log:
            known = await self._ledger.known(asked.user.uid, asked.key)
        identity, parse_seconds = await self._identity(asked, known)
        outcomes = await self._ledger.outcomes(asked.user.uid)
        snapshot = self._site.snapshot(asked.user.uid)
        conditions = self._conditions(snapshot, asked, identity, outcomes)
        plan_seconds = 0.0
        may_wait = bool(name) and asked.window_seconds > 0
        if known is not None and known.conditions == conditions:
            deployment, is_at_hand = known.deployment, known.is_at_hand
        else:
            planned = time.perf_counter()
            async with self.turn(asked.user.uid):
                # The site may have changed until it was this plan's turn.
                snapshot = self._site.snapshot(asked.user.uid)
                conditions = self._conditions(snapshot, asked, identity, outcomes)
                deployment, is_at_hand = await self._planned_or_waiting(asked, identity, snapshot, may_wait=may_wait)
            plan_seconds = time.perf_counter() - planned
            made = KnownJob(identity=identity, deployment=deployment, conditions=conditions, is_at_hand=is_at_hand)
            # What was assumed of a job from its size would outlive the size.
            if (is_at_hand or not may_wait) and not asked.is_assumed(known):
                self._ledger.remember(asked.user.uid, asked.key, made)
        if name:
            named = msgspec.structs.replace(deployment, name=name)
            deployment = self._site.within_share((asked.user.uid, name), named)
        times = Times(
            parse_ms=parse_seconds * 1e3, plan_ms=plan_seconds * 1e3, total_ms=(time.perf_counter() - begin) * 1e3
        )
        waits = may_wait and not is_at_hand
        return Made(identity, deployment, snapshot, known is not None, times, waits)

    async def _planned_or_waiting(
        self, asked: Asked, identity: Identity, snapshot: Snapshot, *, may_wait: bool
    ) -> tuple[Deployment, bool]:
        """A plan, or, for a job that may wait, one that the site could serve if nobody else were there."""
        try:
            return await self._plan(asked.user.uid, asked.job, asked.directives, identity, snapshot)
        except PlannerError as error:
            if error.code != "infeasible" or not may_wait:
                raise
        empty = self._site.snapshot(asked.user.uid, empty=True)
        deployment, _ = await self._plan(asked.user.uid, asked.job, asked.directives, identity, empty)
        return deployment, False

    async def again(
        self, record: Record, *, left_out: tuple[str, ...] = (), policy: Policy | None = None
    ) -> tuple[Deployment, bool]:
        """Plan the storage of a deployment again, in the turn of its user.

        Args:
            left_out: Further nodes that may not serve.
            policy: Pace of sharing; None for the one that was asked for.

        Returns:
            The new plan, and whether the policy itself found it on storage that is free now.

        Raises:
            PlannerError: No storage fits.
        """
        nodes_out = tuple(sorted({*record.left_out, *left_out}))
        snapshot = self._site.snapshot(record.uid, nodes=record.nodes, left_out=nodes_out)
        directives = record.directives
        if policy is not None:
            directives = msgspec.structs.replace(directives, policy=policy)
        deployment, is_at_hand = await self._plan(record.uid, record.asked, directives, record.identity, snapshot)
        deployment = self._site.within_share(record.key, msgspec.structs.replace(deployment, name=record.name))
        self._site.check_share(record.key, deployment)
        return deployment, is_at_hand

    async def _identity(self, asked: Asked, known: KnownJob | None) -> tuple[Identity, float]:
        if asked.identity is not None:
            return asked.identity, 0.0
        if known is not None:
            return known.identity, 0.0
        log = asked.log or asked.directives.trace
        if not log:
            if asked.directives.size_bytes is None:
                raise _nothing_known()
            return assumed(asked.directives.size_bytes, asked.job), 0.0
        begin = time.perf_counter()
        identity, _ = await self._helpers.identify(asked.user, log, asked.job)
        # The user made the log, and deployments keep the name.
        short = msgspec.structs.replace(identity, program=identity.program[:WORD_MAX])
        return short, time.perf_counter() - begin

    async def _plan(
        self, uid: int, job: Job, directives: Directives, identity: Identity, snapshot: Snapshot
    ) -> tuple[Deployment, bool]:
        outcomes = await self._ledger.outcomes(uid)
        deployment, is_at_hand = await self._helpers.plan(snapshot, identity, job, directives, outcomes)
        self._site.check(deployment, snapshot)
        return deployment, is_at_hand

    def _conditions(self, snapshot: Snapshot, asked: Asked, identity: Identity, outcomes: tuple[Outcome, ...]) -> str:
        """Digest of all that a plan depends on; outcomes only come, so the number and the last one tell them."""
        known = (len(outcomes), outcomes[-1].begun if outcomes else 0.0)
        parts = (snapshot.digest, self._helpers.tables.digest, asked.job, asked.directives, identity, known)
        return hashlib.blake2b(msgspec.json.encode(parts), digest_size=16).hexdigest()


def _nothing_known() -> PlannerError:
    return PlannerError(
        "nothing is known of this job",
        hint="ask for a size, such as `#WEIR size=200GB`, or name the Darshan log or trace of a past run, such as "
        "`#WEIR trace=/logs/run.darshan`",
        code="missing",
    )


def _bounded(job: Job, directives: Directives) -> tuple[Job, Directives]:
    """Keep of a job's document what plans are made of, within bounds."""
    paths = (each.source + each.destination for each in (*directives.stage_in, *directives.stage_out))
    if sum(map(len, paths)) > _PATHS_CHARACTERS_MAX:
        raise PlannerError(
            f"the paths of stage_in and stage_out have more than {_PATHS_CHARACTERS_MAX} characters",
            hint="stage a folder in place of its files",
        )
    command = job.command
    if sum(map(len, command)) > TEXT_MAX:
        # It only tells jobs apart.
        command = (hashlib.blake2b(msgspec.json.encode(command), digest_size=16).hexdigest(),)
    # The directives hold all that the hints said.
    return msgspec.structs.replace(job, command=command, hints={}), directives
