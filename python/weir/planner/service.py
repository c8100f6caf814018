"""The planner's answers: each request, for its user, with its rights checked."""

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Mapping

import msgspec

from weir.planner import protocol, squeue
from weir.planner.errors import PlannerError
from weir.planner.ledger import Key, Ledger, missing, now
from weir.planner.lives import Lives
from weir.planner.plans import Asked, Made, Plans
from weir.planner.protocol import AnyRequest, AnyResult, Step
from weir.planner.records import ADMINISTRATOR, Fault, Record, asked_for, check_output, summary
from weir.planner.settings import Settings
from weir.planner.site import Site
from weir.planner.steps import Steps
from weir.planner.turns import Peer
from weir.planner.users import acting_for, user

_TRIES = 8
"""Times that a plan is made again because another one took its storage meanwhile."""
_PAGE_BYTES = 1 << 18
"""A page of a list ends when it is as long: each connection may have one that its client does not take."""
_STEPS: Mapping[type, Step] = {
    protocol.Setup: "setup",
    protocol.StageIn: "stage_in",
    protocol.GetEnvironment: "environment",
    protocol.StageOut: "stage_out",
    protocol.Teardown: "teardown",
    protocol.End: "teardown",
}


class Service:
    """The requests of one planner."""

    def __init__(
        self, settings: Settings, ledger: Ledger, plans: Plans, site: Site, steps: Steps, lives: Lives
    ) -> None:
        """Take the parts.

        Args:
            settings: The administrator's choices.
            site: The storage of the site.
            steps: The steps that run.
            lives: The tasks that lead deployments on.
        """
        self._settings = settings
        self._ledger = ledger
        self._plans = plans
        self._site = site
        self._steps = steps
        self._lives = lives
        self._releasing = asyncio.Lock()
        self._handlers: Mapping[type, Callable[[Peer, int, AnyRequest], Awaitable[AnyResult]]] = {
            protocol.Plan: self._plan,
            protocol.Validate: self._validate,
            protocol.Show: self._show,
            protocol.Paths: self._paths,
            protocol.List: self._list,
            protocol.Pools: self._pools,
            protocol.Quarantine: self._quarantine,
            protocol.Release: self._release,
            protocol.Ping: self._ping,
            **dict.fromkeys(_STEPS, self._step),
        }

    async def answer(self, peer: Peer, request: AnyRequest) -> AnyResult:
        """Answer a request.

        Args:
            peer: The user at the other end of the connection.
            request: The request, checked by its decoder.

        Raises:
            PlannerError: The request is refused.
        """
        uid = acting_for(peer.uid, request.uid, self._settings.scheduler_user)
        return await self._handlers[type(request)](peer, uid, request)

    async def _plan(self, peer: Peer, uid: int, request: AnyRequest) -> AnyResult:
        assert isinstance(request, protocol.Plan)
        if request.name:
            # A client that was killed while it waited for its storage finds its own, which a second plan could miss.
            self._ledger.check_free((uid, request.name))
        asked = await self._asked(peer, uid, request)
        if not request.name:
            made = await self._plans.make(asked)
            return protocol.Planned(deployment=made.deployment, known=made.known, times=made.times)
        begin = time.perf_counter()
        for _ in range(_TRIES):
            made = await self._plans.make(asked, request.name)
            record = _record(request, asked, made)
            try:
                await self._ledger.add(record, lambda made=made, record=record: self._check(made, record))  # type: ignore[misc]
            except _OvertakenError:
                continue
            self._lives.wake(record.key)
            total = (time.perf_counter() - begin) * 1e3
            times = msgspec.structs.replace(made.times, total_ms=total)
            return protocol.Planned(deployment=record.deployment, state=record.state, known=made.known, times=times)
        raise PlannerError("other jobs took the storage of each plan", hint="ask again in a moment", code="busy")

    async def _asked(self, peer: Peer, uid: int, request: protocol.Plan) -> Asked:
        account = user(uid)
        job, directives = await self._plans.read(peer, account, request.script)
        if request.nodes is not None:
            job = msgspec.structs.replace(job, nodes=request.nodes)
        if not job.command and request.identity is not None:
            job = msgspec.structs.replace(job, command=(request.identity.program,))
        if request.policy is not None:
            directives = msgspec.structs.replace(directives, policy=request.policy)
        return Asked(account, job, directives, identity=request.identity, log=request.log)

    def _check(self, made: Made, record: Record) -> None:
        if self._ledger.holdings != made.snapshot.holdings:
            raise _OvertakenError
        if record.holds_storage:
            self._site.check_share(record.key, record.deployment)

    async def _validate(self, peer: Peer, uid: int, request: AnyRequest) -> AnyResult:
        assert isinstance(request, protocol.Validate)
        account = user(uid)
        job, directives = await self._plans.read(peer, account, request.script)
        if request.nodes is not None:
            job = msgspec.structs.replace(job, nodes=request.nodes)
        is_whole = request.uid is not None and request.nodes is not None
        await self._plans.check_possible(Asked(account, job, directives), is_whole=is_whole)
        return protocol.Valid(directives=directives, nodes=job.nodes, processes=job.processes)

    async def _step(self, peer: Peer, uid: int, request: AnyRequest) -> AnyResult:
        assert isinstance(request, protocol.StepRequest)
        step = _STEPS[type(request)]
        key = uid, request.name
        is_end = isinstance(request, protocol.End)
        discard = isinstance(request, protocol.End | protocol.Teardown) and request.discard
        nodes = request.nodes if isinstance(request, protocol.Setup) else ()

        def wanted(record: Record) -> Record:
            if step == "teardown":
                check_output(record, str(self._steps.folder(record)), discard=discard)
                # A user who ends a store wants no lease of it.
                record = _without_lease(record) if is_end else record
            return asked_for(record, step, now=now(), nodes=nodes)

        record = await self._ledger.change(key, wanted)
        if is_end and record.step not in ("", "teardown"):
            self._steps.break_off(key)
        self._lives.wake(key)
        record = await self._awaited(key, step, request.wait_seconds)
        if record.failed:
            raise PlannerError(record.error, hint=record.hint, code="failed")
        if step == "environment":
            return protocol.Variables(state=record.state, environment=record.environment)
        return summary(record)

    async def _awaited(self, key: Key, step: Step, seconds: float) -> Record:
        """Wait until a step has ended, but no longer than the request does."""
        end = time.monotonic() + seconds
        while True:
            seen = self._ledger.version
            record = self._ledger.find(key)
            if record is None:
                raise missing(key[1])
            left = end - time.monotonic()
            # A store ends with its lease or its last sharer; whoever ended the job does not wait for them.
            stays = record.kept and (record.deployment.lease_seconds > 0 or bool(self._ledger.sharers(record)))
            if left <= 0 or not record.is_busy or (stays and step == "teardown"):
                return record
            await self._ledger.wait(left, seen)

    async def _show(self, peer: Peer, uid: int, request: AnyRequest) -> AnyResult:
        record = self._found(uid, request)
        return protocol.Shown(
            summary=summary(record),
            deployment=record.deployment,
            environment=record.environment,
            sharers=tuple(sorted(each.name for each in self._ledger.sharers(record))),
            created=record.created,
            left_out=record.left_out,
            failures=record.failures,
        )

    async def _paths(self, peer: Peer, uid: int, request: AnyRequest) -> AnyResult:
        record = self._found(uid, request)
        return protocol.Variables(state=record.state, environment=record.environment)

    def _found(self, uid: int, request: AnyRequest) -> Record:
        assert isinstance(request, protocol.Named)
        record = self._ledger.find((uid, request.name))
        if record is None:
            raise missing(request.name)
        return record

    async def _list(self, peer: Peer, uid: int, request: AnyRequest) -> AnyResult:
        assert isinstance(request, protocol.List)
        if request.all_users and not peer.is_privileged:
            raise PlannerError(
                "the deployments of all users are for root and the scheduler's user alone",
                hint="leave all_users out",
                code="denied",
            )
        records = self._ledger.all() if request.all_users else self._ledger.of_user(uid)
        after = _place(request.after)
        wanted = sorted(
            (each for each in records if (request.ended or each.is_live) and each.key > after),
            key=lambda each: each.key,
        )
        page, size = [], 0
        for each in wanted[: request.limit]:
            page.append(summary(each))
            size += len(msgspec.json.encode(page[-1]))
            if size > _PAGE_BYTES:
                break
        following = f"{page[-1].uid}/{page[-1].name}" if len(wanted) > len(page) else ""
        return protocol.Listed(deployments=tuple(page), next=following)

    async def _pools(self, peer: Peer, uid: int, request: AnyRequest) -> AnyResult:
        return self._site.pools()

    async def _quarantine(self, peer: Peer, uid: int, request: AnyRequest) -> AnyResult:
        assert isinstance(request, protocol.Quarantine)
        if not peer.is_privileged:
            raise PlannerError(
                "nodes are left out by root and the scheduler's user alone", hint="ask an administrator", code="denied"
            )
        if request.seconds == 0:
            await self._ledger.pardon(request.node)
        else:
            until = now() + request.seconds
            reason = request.reason or "left out by an administrator"
            await self._ledger.blame(Fault(node=request.node, uid=ADMINISTRATOR, until=until, reason=reason))
        return protocol.Hello(pid=os.getpid())

    async def _release(self, peer: Peer, uid: int, request: AnyRequest) -> AnyResult:
        assert isinstance(request, protocol.Release)
        # One at a time: Slurm's whole queue is read for each.
        async with self._releasing:
            await squeue.release(uid, request.job)
        return protocol.Hello(pid=os.getpid())

    async def _ping(self, peer: Peer, uid: int, request: AnyRequest) -> AnyResult:
        return protocol.Hello(pid=os.getpid())


class _OvertakenError(Exception):
    """Another deployment was added while a plan was made."""


def _record(request: protocol.Plan, asked: Asked, made: Made) -> Record:
    moment = now()
    return Record(
        uid=asked.user.uid,
        gid=asked.user.gid,
        name=request.name,
        job=request.job,
        deployment=made.deployment,
        identity=made.identity,
        asked=asked.job,
        directives=asked.directives,
        created=moment,
        changed=moment,
        window_until=moment + asked.window_seconds if made.waits else None,
    )


def _without_lease(record: Record) -> Record:
    lasting = msgspec.structs.replace(record.deployment, lease_seconds=0.0)
    return msgspec.structs.replace(record, deployment=lasting, lease_until=None)


def _place(after: str) -> Key:
    """The place behind which a page begins."""
    if not after:
        return -1, ""
    uid, slash, name = after.partition("/")
    if not slash or not uid.isascii() or not uid.isdigit() or len(uid) > 10:
        raise PlannerError(f"{after[:80]!r} is no end of a page", hint="give `next` of the page before")
    return int(uid), name
