"""Storage whose job has ended at Slurm, while nobody ended the storage.

Slurm ends a job's processes of the plugin when the job is cancelled, and on a busy machine now and then the one of the
teardown too, which was begun by the same cancellation (slurmscriptd of 22.05 handles the two messages in any order).
It gives up after three failed teardowns as well. So the planner asks Slurm for the jobs of its deployments itself.
"""

import asyncio
import contextlib
import logging
import shutil
from dataclasses import dataclass

from weir.errors import WeirError
from weir.planner.ledger import Key, Ledger, now
from weir.planner.lives import Lives
from weir.planner.records import Record, asked_for, check_output
from weir.planner.steps import Steps

_LOG = logging.getLogger("weir.planner")
_LOOK_SECONDS = 60.0
_ASK_SECONDS = 30.0
_ANSWER_BYTES_MAX = 64 << 20
_ENDED = frozenset(
    (
        *("BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED"),
        *("NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED", "REVOKED", "TIMEOUT"),
    )
)
"""States of jobs that are over (squeue, JOB STATE CODES). A job whose storage is being emptied is STAGE_OUT."""


@dataclass(frozen=True)
class _Job:
    """A job as Slurm tells it."""

    state: str
    has_run: bool
    """Whether it was given nodes."""


class Orphans:
    """The deployments whose jobs are over."""

    def __init__(self, ledger: Ledger, lives: Lives, steps: Steps, grace_seconds: float) -> None:
        """Take the parts.

        Args:
            ledger: The deployments.
            lives: The tasks that lead deployments on.
            steps: The steps.
            grace_seconds: Time that Slurm has for the teardown of a job that is over.
        """
        self._ledger = ledger
        self._lives = lives
        self._steps = steps
        self._grace_seconds = grace_seconds
        self._seen: dict[Key, float] = {}
        """Time at which a deployment's job was seen to be over first."""
        self._failure = ""

    async def watch(self) -> None:
        """Look for such storage again and again, until it is cancelled."""
        while True:
            await asyncio.sleep(min(_LOOK_SECONDS, self._grace_seconds / 2))
            try:
                await self._look()
            except (OSError, ValueError) as error:
                self._tell(f"squeue cannot be asked: {error}")

    async def _look(self) -> None:
        """End the storage of jobs that have been over for longer than the grace time. Output that is not out stays."""
        records = [each for each in self._ledger.all() if _is_of_slurm(each) and each.goal != "teardown"]
        if not records:
            self._seen.clear()
            return
        jobs = await self._jobs({each.uid for each in records})
        if jobs is None:
            return
        over = {each.key: each for each in records if _is_over(jobs.get((each.uid, each.job)))}
        self._seen = {key: self._seen.get(key, now()) for key in over}
        for key, record in over.items():
            if now() - self._seen[key] < self._grace_seconds:
                continue
            job = jobs.get((record.uid, record.job))
            await self._tear_down(key, discards=job is not None and not job.has_run)
            # A teardown that fails is tried again after another time of grace.
            self._seen[key] = now()

    async def _tear_down(self, key: Key, *, discards: bool) -> None:
        def wanted(record: Record) -> Record:
            check_output(record, str(self._steps.folder(record)), discard=discards)
            return asked_for(record, "teardown", now=now())

        try:
            await self._ledger.change(key, wanted)
        except WeirError as error:
            _LOG.info("%s of user %d stays though its job is over: %s", key[1], key[0], error.message)
            return
        _LOG.warning("%s of user %d is ended: its job is over, and Slurm did not end it", key[1], key[0])
        self._lives.wake(key)

    async def _jobs(self, uids: set[int]) -> dict[tuple[int, str], _Job] | None:
        """The jobs of users that Slurm still knows; None where it does not answer."""
        program = shutil.which("squeue")
        if program is None:
            self._tell("there is no squeue")
            return None
        process = await asyncio.create_subprocess_exec(
            program, "--noheader", "--states=all", "--format=%A %U %T %N",
            f"--user={','.join(map(str, sorted(uids)))}",
            stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL,
            cwd="/", limit=_ANSWER_BYTES_MAX,
        )  # fmt: skip
        assert process.stdout is not None
        try:
            async with asyncio.timeout(_ASK_SECONDS):
                text = await process.stdout.read(_ANSWER_BYTES_MAX)
                if await process.wait() != 0:
                    self._tell("squeue fails")
                    return None
        except TimeoutError:
            self._tell(f"squeue does not answer within {_ASK_SECONDS:.0f} s")
            return None
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
        self._failure = ""
        found: dict[tuple[int, str], _Job] = {}
        for line in text.decode(errors="replace").splitlines():
            number, uid, state, *nodes = line.split()
            found[int(uid), number] = _Job(state, has_run=bool(nodes))
        return found

    def _tell(self, why: str) -> None:
        """Log once why Slurm was not asked."""
        if self._failure != why:
            self._failure = why
            _LOG.warning("%s: storage of jobs that are over ends when Slurm ends it", why)


def _is_of_slurm(record: Record) -> bool:
    """Whether Slurm's plugin made a deployment, which names it so (packaging/slurm/burst_buffer.lua)."""
    return record.is_live and record.job.isascii() and record.job.isdigit() and record.name == f"slurm-{record.job}"


def _is_over(job: _Job | None) -> bool:
    return job is None or job.state in _ENDED
