"""The lives of deployments: each goes on by itself, step by step, until its goal, and begins again where it was."""

import asyncio
import contextlib
import logging

import msgspec

from weir.errors import WeirError
from weir.planner.errors import DatabaseError, PlannerError
from weir.planner.ledger import Key, Ledger, now
from weir.planner.plans import Plans
from weir.planner.protocol import Step
from weir.planner.records import (
    Fault,
    Record,
    begun,
    broken,
    given_up,
    next_step,
    replanned,
    succeeded,
    with_failure,
)
from weir.planner.settings import Settings
from weir.planner.site import Site
from weir.planner.step import Outcome
from weir.planner.steps import Steps
from weir.planner.waiting import Waiting
from weir.provisioning.deployments import Deployment, Policy

_LOG = logging.getLogger("weir.planner")
_RETRY_SECONDS = 3.0
"""Time until a deployment whose change could not be written is led on."""
_TRIES = 8
"""Times that a plan is made again because another one took its storage meanwhile."""
_LOOK_SECONDS = 60.0
"""Longest sleep before a deadline is looked at again: the clock of the machine may be set."""


def _log_failure(record: Record, step: Step, message: str) -> None:
    job = f" (job {record.job})" if record.job else ""
    _LOG.warning("%s%s of user %d failed in %s: %s", record.name, job, record.uid, step, message)


class Lives:
    """The tasks that lead deployments on. A deployment has at most one."""

    def __init__(self, ledger: Ledger, plans: Plans, site: Site, steps: Steps, settings: Settings) -> None:
        """Take the parts.

        Args:
            site: The storage of the site.
            settings: Bounds of replans and quarantines.
        """
        self._ledger = ledger
        self._plans = plans
        self._site = site
        self._steps = steps
        self._settings = settings
        self._tasks: dict[Key, asyncio.Task[None]] = {}
        self._waiting = Waiting(site)

    def resume(self) -> None:
        """Go on with every deployment where the last planner left it."""
        # Those that wait go on in the order in which they came.
        for record in sorted(self._ledger.all(), key=lambda each: each.created):
            self.wake(record.key)
            self._let_go(record.key)

    def wake(self, key: Key) -> None:
        """Lead a deployment on, if something is to be done.

        Args:
            key: User and name.
        """
        record = self._ledger.find(key)
        is_due = record is not None and (record.is_busy or (record.is_live and record.window_until is not None))
        if is_due and key not in self._tasks:
            task = asyncio.ensure_future(self._lead(key))
            self._tasks[key] = task
            task.add_done_callback(lambda done: self._ended(key, done))

    async def end(self) -> None:
        """Leave all deployments as they are."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _ended(self, key: Key, task: asyncio.Task[None]) -> None:
        del self._tasks[key]
        self._waiting.forget(key)
        if task.cancelled():
            return
        if task.exception() is None:
            # A goal that was set in the last moment.
            self.wake(key)
            self._let_go(key)
            return
        # The database did not take the change: the step is done again, which does what is left.
        _LOG.warning("%s of user %d waits for the database: %s", key[1], key[0], task.exception())
        asyncio.get_running_loop().call_later(_RETRY_SECONDS, self.wake, key)

    def _let_go(self, key: Key) -> None:
        """Let others have the storage of a deployment whose setup failed: nothing of the job's is on it."""
        record = self._ledger.find(key)
        if record is not None and record.holds_in_vain and key not in self._tasks:
            task = asyncio.ensure_future(self._give_up(record))
            self._tasks[key] = task
            task.add_done_callback(lambda done: self._gave_up(key, done))

    async def _give_up(self, record: Record) -> None:
        outcome = await self._steps.run(record, "teardown", discard=True)
        if outcome.message:
            raise PlannerError(outcome.message, hint=outcome.hint, code="failed")
        # It may have been asked for meanwhile: its storage is gone then all the same.
        await self._ledger.change(record.key, given_up)

    def _gave_up(self, key: Key, task: asyncio.Task[None]) -> None:
        del self._tasks[key]
        if task.cancelled():
            return
        if task.exception() is not None:
            _LOG.warning("%s of user %d keeps its storage: %s", key[1], key[0], task.exception())
            asyncio.get_running_loop().call_later(_LOOK_SECONDS, self._let_go, key)
        self.wake(key)

    async def _lead(self, key: Key) -> None:
        while (record := self._ledger.find(key)) is not None and record.is_live:
            # A change from here on ends the wait for one, also where it comes before the wait begins.
            seen = self._ledger.version
            try:
                if record.window_until is not None and record.goal != "teardown":
                    await self._wait_for_store(record, record.window_until, seen)
                    continue
                step = next_step(record)
                if step is None:
                    return
                if step == "teardown":
                    await self._tear_down(record, seen)
                elif step != "setup" or await self._is_ready(record, seen):
                    await self._take(record, step)
            except DatabaseError:
                raise
            except WeirError as error:
                await self._fail(record, error.message, error.hint)
                return
            except Exception as error:
                # A fault of the planner's own fails this deployment where people see it, and no other one.
                _LOG.exception("the planner failed at %s of user %d", record.name, record.uid)
                await self._fail(record, f"the planner failed: {type(error).__name__}", "its log tells why")
                return

    async def _fail(self, record: Record, message: str, hint: str) -> None:
        step = next_step(record) or "setup"
        _log_failure(record, step, message)
        await self._ledger.change(record.key, lambda each: broken(_settled(each), step, message, hint, now=now()))

    async def _take(self, record: Record, step: Step) -> None:
        """Run a step and note its end."""
        record = await self._ledger.change(record.key, lambda each: begun(each, step, now=now()))
        outcome = await self._steps.run(record, step)
        await self._keep(record, outcome)
        if not outcome.message:
            await self._ledger.change(
                record.key,
                lambda each: succeeded(
                    each, step, now=now(), environment=outcome.environment if step == "environment" else None
                ),
            )
            return
        _log_failure(record, step, outcome.message)
        current = self._ledger.find(record.key)
        if current is not None and current.goal == "teardown":
            # The step was broken off, or would not matter any more.
            await self._ledger.change(record.key, lambda each: msgspec.structs.replace(each, step=""))
        elif not await self._is_mended(record, step, outcome):
            await self._ledger.change(
                record.key, lambda each: broken(each, step, outcome.message, outcome.hint, now=now())
            )

    async def _keep(self, record: Record, outcome: Outcome) -> None:
        """Keep what a run had from its storage; a deployment goes on where that fails."""
        if outcome.measured is None:
            return
        try:
            await self._ledger.keep_outcome(record.uid, outcome.measured)
        except PlannerError as error:
            _LOG.warning("the run of %s of user %d is not remembered: %s", record.name, record.uid, error.message)

    async def _is_mended(self, record: Record, step: Step, outcome: Outcome) -> bool:
        """Plan again without the nodes at fault, before the job has used the storage."""
        own = {server.node for server in record.deployment.servers}
        bad = tuple(sorted(own & set(outcome.nodes)))
        for node in bad:
            until = now() + self._settings.quarantine_seconds
            await self._ledger.blame(Fault(node=node, uid=record.uid, until=until, reason=outcome.message[:400]))
            _LOG.warning("%s is left out of plans of user %d: %s", node, record.uid, outcome.message)
        if not bad or step not in ("setup", "stage_in") or record.replans >= self._settings.replans_max:
            return False
        await self._ledger.change(
            record.key, lambda each: with_failure(each, step, outcome.message, outcome.hint, now=now())
        )
        # The rest of the old plan goes; a node that does not answer is left to its quarantine.
        await self._steps.run(record, "teardown", discard=True)
        try:
            await self._replan(record, left_out=bad)
        except DatabaseError:
            raise
        except WeirError as error:
            message = f"{outcome.message}; without {', '.join(bad)}: {error.message}"
            raise PlannerError(message, hint=outcome.hint or error.hint, code="infeasible") from error
        return True

    async def _replan(self, record: Record, *, left_out: tuple[str, ...] = ()) -> None:
        for _ in range(_TRIES):
            async with self._plans.turn(record.uid):
                holdings = self._ledger.holdings
                deployment, _ = await self._plans.again(record, left_out=left_out)

            def take(each: Record, holdings: int = holdings, deployment: Deployment = deployment) -> Record:
                # Whoever took storage meanwhile changed the number, and may have taken this one.
                is_free = self._ledger.holdings == holdings
                return replanned(each, deployment, left_out, now=now()) if is_free else each

            if (await self._ledger.change(record.key, take)).deployment is deployment:
                return
        raise PlannerError("other jobs took the storage of each plan", hint="ask again in a moment", code="busy")

    async def _is_ready(self, record: Record, seen: int) -> bool:
        """Check that the plan can still be; else plan again, or wait for the store that is joined."""
        joined = record.deployment.joins
        if joined:
            other = self._ledger.find((record.uid, joined))
            if other is not None and other.is_live and not other.failed:
                if other.done:
                    return True
                if other.is_busy or other.window_until is not None:
                    await self._ledger.wait(_LOOK_SECONDS, seen)
                    return False
            lost = f"the deployment {joined} that {record.name} joins is gone"
        else:
            lost = self._lost(record)
            if not lost:
                return True
        if record.replans >= self._settings.replans_max and not record.let_go:
            raise PlannerError(
                f"{lost}, and it was planned again {record.replans} times",
                hint="see `weir plan resources`",
                code="infeasible",
            )
        await self._replan(record)
        return False

    def _lost(self, record: Record) -> str:
        """The reason why a plan cannot be any more; empty where it can."""
        if record.step == "setup":
            # The storage is half there, and its own step tells what is wrong.
            return ""
        if record.let_go:
            return f"the storage of {record.name} was free for others meanwhile"
        snapshot = self._site.snapshot(record.uid, nodes=record.nodes, left_out=record.left_out)
        usable = {node.name for node in snapshot.resources.nodes if node.usable}
        gone = sorted({server.node for server in record.deployment.servers} - usable)
        return f"node {gone[0]} of {record.name} cannot be used now" if gone else ""

    async def _wait_for_store(self, record: Record, until: float, seen: int) -> None:
        """Take storage as soon as the policy finds some; at the end of the window take what `interference` finds."""
        is_over = until <= now()
        if is_over or not self._waiting.is_in_vain(record):
            # The last plan, at the end of the window, waits for no other waiting job.
            turn = contextlib.nullcontext(True) if is_over else self._waiting.turn(record.uid, until - now())
            async with turn as is_on_turn, self._plans.turn(record.uid):
                # Others had their turns first, and so may have a request about this one.
                if not is_on_turn or self._ledger.find(record.key) is not record:
                    return
                if (is_over or not self._waiting.is_in_vain(record)) and await self._has_found(record, until):
                    return
        await self._ledger.wait(min(until - now(), _LOOK_SECONDS), seen)

    async def _has_found(self, record: Record, until: float) -> bool:
        """Plan a job that waits, once for each change of the holdings, however many came while others had their turns.

        Returns:
            Whether the job is done with waiting, or has to be looked at again.
        """
        is_over = until <= now()
        holdings = self._ledger.holdings
        policy: Policy = "interference" if is_over else "utilization"
        try:
            deployment, is_at_hand = await self._plans.again(record, policy=policy)
        except PlannerError as error:
            if is_over:
                raise
            is_at_hand = error.code != "infeasible"
            deployment = None
        if deployment is None or (not is_at_hand and not is_over):
            if not is_at_hand and self._ledger.holdings == holdings:
                self._waiting.note(record)
            return False
        changed = {"deployment": deployment, "window_until": None, "changed": now()}

        def take(each: Record) -> Record:
            # Whoever took the storage meanwhile changed the number, and the plan is made again.
            is_free = self._ledger.holdings == holdings and each.window_until is not None
            return msgspec.structs.replace(each, **changed) if is_free else each

        await self._ledger.change(record.key, take)
        return True

    async def _tear_down(self, record: Record, seen: int) -> None:
        """End a deployment; a shared store stays for its sharers, and then for its lease."""
        record = await self._ledger.change(record.key, self._kept)
        if record.step != "teardown":
            left = _LOOK_SECONDS if record.lease_until is None else record.lease_until - now()
            await self._ledger.wait(min(left, _LOOK_SECONDS), seen)
            return
        if not record.touched:
            await self._ledger.change(record.key, lambda each: succeeded(each, "teardown", now=now()))
            return
        # The request was checked against lost output before the goal was set.
        outcome = await self._steps.run(record, "teardown", discard=True)
        await self._keep(record, outcome)
        await self._ledger.change(
            record.key,
            lambda each: (
                broken(each, "teardown", outcome.message, outcome.hint, now=now())
                if outcome.message
                else succeeded(each, "teardown", now=now())
            ),
        )

    def _kept(self, record: Record) -> Record:
        """Decide about the end of a store: for others, for its lease, or now. Nothing joins in between."""
        if record.step == "teardown" or record.deployment.joins or record.done == "":
            return begun(record, "teardown", now=now())
        if self._ledger.sharers(record):
            return _keeping(record, None)
        lease = record.deployment.lease_seconds if record.deployment.shareable else 0.0
        if lease <= 0 or (record.lease_until is not None and record.lease_until <= now()):
            return begun(record, "teardown", now=now())
        return record if record.lease_until is not None else _keeping(record, now() + lease)


def _keeping(record: Record, until: float | None) -> Record:
    if record.kept and record.lease_until == until:
        return record
    return msgspec.structs.replace(record, kept=True, step="", lease_until=until, changed=now())


def _settled(record: Record) -> Record:
    return msgspec.structs.replace(record, window_until=None)
