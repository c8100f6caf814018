"""Storage whose job has ended at Slurm, while nobody ended the storage.

Slurm ends a job's processes of the plugin when the job is cancelled, and on a busy machine now and then the one of the
teardown too, which was begun by the same cancellation (slurmscriptd of 22.05 handles the two messages in any order).
It gives up after three failed teardowns as well. So the planner asks Slurm for the jobs of its deployments itself.
"""

import asyncio
import logging

from weir.errors import WeirError
from weir.planner.errors import PlannerError
from weir.planner.ledger import Key, Ledger, now
from weir.planner.lives import Lives
from weir.planner.records import Record, asked_for, check_output
from weir.planner.squeue import jobs_of
from weir.planner.steps import Steps

_LOG = logging.getLogger("weir.planner")
_LOOK_SECONDS = 60.0


class Orphans:
    """The deployments whose jobs are over."""

    def __init__(self, ledger: Ledger, lives: Lives, steps: Steps, grace_seconds: float) -> None:
        """Take the parts.

        Args:
            lives: The tasks that lead deployments on.
            grace_seconds: Time that Slurm has for the teardown of a job that is over.
        """
        self._ledger = ledger
        self._lives = lives
        self._steps = steps
        self._grace_seconds = grace_seconds
        self._seen: dict[Key, float] = {}
        """Time at which a deployment's job was seen to be over first."""

    async def watch(self) -> None:
        """Look for such storage again and again, until it is cancelled."""
        failure = ""
        while True:
            await asyncio.sleep(min(_LOOK_SECONDS, self._grace_seconds / 2))
            try:
                await self.look()
                failure = ""
            except PlannerError as error:
                if error.message != failure:
                    failure = error.message
                    _LOG.warning("%s: storage of jobs that are over ends when Slurm ends it", failure)

    async def look(self) -> None:
        """End the storage of jobs that have been over for longer than the grace time. Output that is not out stays.

        Raises:
            PlannerError: Slurm does not answer, and nothing is ended.
        """
        records = [each for each in self._ledger.all() if _is_of_slurm(each) and each.goal != "teardown"]
        if not records:
            self._seen.clear()
            return
        jobs = await jobs_of({each.uid for each in records})
        over = {}
        for record in records:
            job = jobs.get((record.uid, record.job))
            if job is None or job.is_over:
                # A job that Slurm has forgotten may have run.
                over[record.key] = job is not None and not job.has_run
        self._seen = {key: self._seen.get(key, now()) for key in over}
        for key, discards in over.items():
            if now() - self._seen[key] < self._grace_seconds:
                continue
            await self._tear_down(key, discards=discards)
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


def _is_of_slurm(record: Record) -> bool:
    """Whether Slurm's plugin made a deployment, which names it so (packaging/slurm/burst_buffer.lua)."""
    return record.is_live and record.job.isascii() and record.job.isdigit() and record.name == f"slurm-{record.job}"
