"""The jobs that Slurm knows, as its `squeue` tells them."""

import asyncio
import contextlib
import shutil
from collections.abc import Iterable
from dataclasses import dataclass

from weir.planner.errors import PlannerError

_ASK_SECONDS = 30.0
_ENDED = frozenset(
    (
        *("BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED"),
        *("NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED", "REVOKED", "TIMEOUT"),
    )
)
"""States of jobs that are over (squeue, JOB STATE CODES). A job whose storage is being emptied is STAGE_OUT."""


@dataclass(frozen=True)
class SlurmJob:
    """A job as Slurm tells it."""

    state: str
    has_run: bool
    """Whether it was given nodes."""

    @property
    def is_over(self) -> bool:
        """Whether it will not run any more."""
        return self.state in _ENDED


async def jobs_of(uids: Iterable[int]) -> dict[tuple[int, str], SlurmJob]:
    """Ask for all jobs of users, also for those that have ended lately.

    Args:
        uids: The users.

    Returns:
        The jobs by user and number.

    Raises:
        PlannerError: Slurm does not answer, or not wholly.
    """
    program = shutil.which("squeue")
    if program is None:
        raise PlannerError("there is no squeue", hint="put it on the planner's path")
    words = ("--noheader", "--states=all", "--format=%A %U %T %N", f"--user={','.join(map(str, sorted(uids)))}")
    try:
        process = await asyncio.create_subprocess_exec(
            program, *words, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL, cwd="/",
        )  # fmt: skip
    except OSError as error:
        raise PlannerError(f"squeue cannot be started: {error.strerror or error}") from error
    try:
        async with asyncio.timeout(_ASK_SECONDS):
            text, _ = await process.communicate()
    except TimeoutError as error:
        raise PlannerError(f"squeue does not answer within {_ASK_SECONDS:.0f} s") from error
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
    if process.returncode != 0:
        raise PlannerError(f"squeue ends with exit code {process.returncode}", hint="see `scontrol ping`")
    return _read(text.decode(errors="replace"))


def _read(text: str) -> dict[tuple[int, str], SlurmJob]:
    found: dict[tuple[int, str], SlurmJob] = {}
    try:
        for line in text.splitlines():
            number, uid, state, *nodes = line.split()
            found[int(uid), number] = SlurmJob(state, has_run=bool(nodes))
    except ValueError as error:
        raise PlannerError(f"the answer of squeue cannot be read: {error}") from error
    return found
