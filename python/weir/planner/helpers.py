"""Helper processes: some of the planner's own for scripts and plans, and one for each user whose logs are read."""

import asyncio
import contextlib
import os
import signal
import sys
import time
from collections import OrderedDict
from collections.abc import AsyncIterator

import msgspec

from weir.planner import work
from weir.planner.errors import PlannerError
from weir.planner.site import Snapshot
from weir.planner.tables import Tables
from weir.planner.turns import Peer, Turns
from weir.planner.users import User, process_environment, process_rights
from weir.planner.work import AnyWork, Done, Identify, Load, MakePlan, Read
from weir.provisioning.behaviour.identity import Identity
from weir.provisioning.deployments import Deployment
from weir.provisioning.jobs.directives import Directives
from weir.provisioning.jobs.job import Job
from weir.provisioning.outcomes.outcome import Outcome

PLANNERS = 2
"""Helpers that plan: a plan takes milliseconds, so two keep up with many clients."""
READERS_MAX = 16
"""Helpers that read logs and long jobspecs, of one user each. The longest idle one makes way for another user's."""
WORK_SECONDS_MAX = 150.0
"""Longest time of one piece of work; the reader of logs has a shorter bound of its own."""
SCRIPT_SECONDS_MAX = 10.0
"""Longest time of a script that all wait for. What is read there takes some hundredths of a second."""
_READER_LINE_BYTES_MAX = 1 << 20
"""Longest answer of a user's helper, which the user could make say anything."""
_FREE_SECONDS_MAX = 60.0
"""Longest wait for a helper of another user to become free."""
_END_SECONDS = 2.0
_NICENESS = 5
"""Plans and logs leave processors to the event loop and the scripts, for which slurmctld waits."""
_RESTART_SECONDS = 1.0
"""Least time between two starts of a helper: each start holds the event loop up, and a user may kill the own helper."""


class HelperEndedError(PlannerError):
    """A helper process ended before it answered."""


class Helper:
    """One helper process, which is started for its first work and again after a fault."""

    def __init__(self, user: User | None, *, seconds_max: float = WORK_SECONDS_MAX, niceness: int = _NICENESS) -> None:
        """Describe a helper.

        Args:
            user: The user whose rights it has; None for the planner's own.
            seconds_max: Longest time of one piece of work.
            niceness: Its priority, as nice(2) has it.
        """
        self._user = user
        self._niceness = niceness
        self._seconds_max = seconds_max
        self._process: asyncio.subprocess.Process | None = None
        self._lock = asyncio.Lock()
        self._started_at = -_RESTART_SECONDS
        self.waiting = 0
        """Pieces of work that the helper has, or that wait for it."""
        self.loaded = ""
        """Digest of the resource model that it has."""

    async def do(self, *works: AnyWork) -> Done:
        """Do pieces of work, one after the other.

        Returns:
            The answer to the last one.

        Raises:
            PlannerError: A piece of work was refused, took too long, or ended the helper.
        """
        self.waiting += 1
        try:
            async with self._lock:
                done = Done()
                for each in works:
                    if isinstance(each, Load) and each.digest == self.loaded:
                        continue
                    done = await self._ask(each)
                    if isinstance(each, Load):
                        self.loaded = each.digest
                return done
        finally:
            self.waiting -= 1

    async def end(self) -> None:
        """End the process."""
        process, self._process, self.loaded = self._process, None, ""
        if process is not None and process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                # The group has the reader of logs in it.
                os.killpg(process.pid, signal.SIGKILL)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(process.wait(), _END_SECONDS)

    async def _ask(self, each: AnyWork) -> Done:
        # A process that ended between two pieces of work is seen at the next one, which a fresh process does.
        may_be_gone = self._process is not None and not self.loaded
        try:
            return await self._ask_once(each)
        except HelperEndedError:
            if not may_be_gone:
                raise
            return await self._ask_once(each)

    async def _ask_once(self, each: AnyWork) -> Done:
        is_answered = False
        try:
            async with asyncio.timeout(self._seconds_max):
                process = await self._started()
                assert process.stdin is not None and process.stdout is not None
                process.stdin.write(msgspec.json.encode(each) + b"\n")
                await process.stdin.drain()
                line = await process.stdout.readline()
                done = msgspec.json.decode(line, type=Done)
                is_answered = True
        except TimeoutError as error:
            raise PlannerError(
                f"the plan took more than {self._seconds_max:.0f} s", hint="is the log very large?", code="failed"
            ) from error
        except (OSError, ValueError, msgspec.MsgspecError) as error:
            raise HelperEndedError(
                "the planner's helper ended before it answered", hint="the planner's log tells why", code="failed"
            ) from error
        finally:
            # An answer that is still to come would be taken for that of the next work.
            if not is_answered:
                await self.end()
        if done.code is not None:
            raise PlannerError(done.message, hint=done.hint, code=done.code)
        return done

    async def _started(self) -> asyncio.subprocess.Process:
        if self._process is None or self._process.returncode is not None:
            self.loaded = ""
            await asyncio.sleep(max(self._started_at + _RESTART_SECONDS - time.monotonic(), 0.0))
            self._started_at = time.monotonic()
            rights = process_rights(self._user) if self._user else {}
            environment = process_environment(self._user) if self._user else None
            self._process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                work.__name__,
                str(self._niceness),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                cwd="/",
                env=environment,
                umask=0o077,
                start_new_session=True,
                limit=_READER_LINE_BYTES_MAX if self._user else work.LINE_BYTES_MAX,
                **rights,  # type: ignore[arg-type]
            )
        return self._process


class _ScriptReader:
    """A helper that reads the scripts of many users, and their turns at it."""

    def __init__(self) -> None:
        self.helper = Helper(None, seconds_max=SCRIPT_SECONDS_MAX, niceness=0)
        self.turns = Turns()


class Helpers:
    """All helpers of a planner."""

    def __init__(self, tables: Tables | None = None) -> None:
        """Describe the helpers; each starts with its first work.

        Args:
            tables: The site's tables; None for those that come with Weir.
        """
        self.tables = tables or Tables()
        """The tables that every plan weighs."""
        self._planners = [Helper(None) for _ in range(PLANNERS)]
        # slurmctld waits for its scripts, and so has a process that no other user's script keeps busy.
        self._scripts = {is_privileged: _ScriptReader() for is_privileged in (False, True)}
        self._readers: OrderedDict[int, Helper] = OrderedDict()
        self._freed = asyncio.Event()

    async def start(self) -> None:
        """Start the helpers of which quick answers are expected."""
        await asyncio.gather(*(each.helper.do(Read(script="#!/bin/sh\n")) for each in self._scripts.values()))

    async def read(self, peer: Peer, user: User, script: str) -> tuple[Job, Directives]:
        """Find the job and the directives of a script or jobspec.

        Args:
            peer: The user who asks, and waits for a turn.
            script: The text.

        Raises:
            PlannerError: The script cannot be used.
        """
        if work.is_quick(script):
            reader = self._scripts[peer.is_privileged]
            async with reader.turns.turn(peer):
                done = await reader.helper.do(Read(script=script))
        else:
            async with self._reader(user) as helper:
                done = await helper.do(Read(script=script))
        assert done.job is not None and done.directives is not None
        return done.job, done.directives

    async def identify(self, user: User, log: str, job: Job) -> tuple[Identity, float]:
        """Read a log with the rights of a user.

        Args:
            log: Absolute path of the log.
            job: The job that is to run.

        Returns:
            The job's identity, and the time in seconds.

        Raises:
            PlannerError: The user may not read the log, or it cannot be used.
        """
        async with self._reader(user) as helper:
            done = await helper.do(Identify(log=log, job=job))
        assert done.identity is not None
        return done.identity, done.seconds

    async def plan(
        self,
        snapshot: Snapshot,
        identity: Identity,
        job: Job,
        directives: Directives,
        outcomes: tuple[Outcome, ...] = (),
    ) -> tuple[Deployment, bool]:
        """Plan the storage of a job.

        Args:
            snapshot: The storage that the user may use.
            identity: The job's behaviour.
            directives: The wishes of its user.
            outcomes: Outcomes of the user's earlier deployments, the latest last.

        Returns:
            The deployment, and whether the policy itself found it on storage that is free now.

        Raises:
            PlannerError: No storage fits.
        """
        helper = min(self._planners, key=lambda each: (each.waiting, each.loaded != snapshot.digest))
        load = Load(digest=snapshot.digest, resources=msgspec.Raw(snapshot.document), tables=self.tables)
        wanted = MakePlan(digest=snapshot.digest, identity=identity, job=job, directives=directives, outcomes=outcomes)
        done = await helper.do(load, wanted)
        assert done.deployment is not None
        return done.deployment, done.is_at_hand

    async def end(self) -> None:
        """End all helpers."""
        for helper in [*self._planners, *(each.helper for each in self._scripts.values()), *self._readers.values()]:
            await helper.end()

    @contextlib.asynccontextmanager
    async def _reader(self, user: User) -> AsyncIterator[Helper]:
        helper = self._readers.get(user.uid) or await self._make_room(user)
        self._readers.move_to_end(user.uid)
        try:
            yield helper
        finally:
            self._freed.set()

    async def _make_room(self, user: User) -> Helper:
        try:
            async with asyncio.timeout(_FREE_SECONDS_MAX):
                while user.uid not in self._readers and len(self._readers) >= READERS_MAX:
                    idle = next((uid for uid, each in self._readers.items() if not each.waiting), None)
                    if idle is not None:
                        await self._readers.pop(idle).end()
                        continue
                    self._freed.clear()
                    await self._freed.wait()
        except TimeoutError as error:
            raise PlannerError(
                "the logs of other users are being read", hint="ask again in a minute", code="busy"
            ) from error
        return self._readers.setdefault(user.uid, Helper(user))
