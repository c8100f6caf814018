"""The jobs that Slurm knows, as its `squeue` tells them, and the release of those that are held for their storage."""

import asyncio
import contextlib
import shutil
from collections.abc import Iterable
from dataclasses import dataclass

import msgspec

from weir.planner.errors import PlannerError

_ASK_SECONDS = 30.0
_ANSWER_BYTES_MAX = 256 << 20
"""Longest answer of a command: a job of `squeue --json` takes some 5 KB."""
_HELD_FOR_STORAGE = "BurstBufferOperation"
"""Reason of a job that a plugin of burst buffers holds."""
_STORAGE_ENDED = "complete"
"""State of a burst buffer that was torn down."""
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
    words = ("--noheader", "--states=all", "--format=%A %U %T %N", f"--user={','.join(map(str, sorted(uids)))}")
    return _read((await _said("squeue", *words)).decode(errors="replace"))


async def release(uid: int, number: str) -> None:
    """Release a job that Slurm holds because its storage could not be had, which its user may not do at Slurm.

    Raises:
        PlannerError: The job is not the user's, or is held for another reason; or Slurm does not answer.
    """
    jobs = _decoded(await _said("squeue", "--json"))
    job = next((each for each in jobs if each.job_id == int(number) and each.user_id == uid), None)
    if job is None:
        raise PlannerError(
            f"there is no job {number} of user {uid} in Slurm's queue", hint="see `squeue --me`", code="missing"
        )
    if job.state_reason != _HELD_FOR_STORAGE:
        # An administrator may hold a job that is held for its storage, too; Slurm then keeps the old words.
        raise PlannerError(
            f"job {number} is not held for its storage: its reason is {job.state_reason or 'none'}",
            hint="see `scontrol show job`; what an administrator holds, an administrator releases",
            code="conflict",
        )
    if job.burst_buffer_state not in ("", _STORAGE_ENDED):
        raise PlannerError(
            f"the storage of job {number} is not ended yet: {job.burst_buffer_state}",
            hint="ask again in a moment",
            code="busy",
        )
    await _said("scontrol", "release", number)


async def _said(program: str, *words: str) -> bytes:
    """The output of a command of Slurm."""
    path = shutil.which(program)
    if path is None:
        raise PlannerError(f"there is no {program}", hint="put it on the planner's path", code="failed")
    try:
        process = await asyncio.create_subprocess_exec(
            path, *words, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL, cwd="/",
        )  # fmt: skip
    except OSError as error:
        raise PlannerError(f"{program} cannot be started: {error.strerror or error}") from error
    assert process.stdout is not None
    try:
        async with asyncio.timeout(_ASK_SECONDS):
            parts, size = [], 0
            while part := await process.stdout.read(1 << 16):
                parts.append(part)
                size += len(part)
                if size > _ANSWER_BYTES_MAX:
                    raise PlannerError(
                        f"{program} says more than {_ANSWER_BYTES_MAX} bytes", hint="ask an administrator"
                    )
            await process.wait()
    except TimeoutError as error:
        raise PlannerError(f"{program} does not answer within {_ASK_SECONDS:.0f} s", code="busy") from error
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
    if process.returncode != 0:
        raise PlannerError(
            f"{program} ends with exit code {process.returncode}", hint="see `scontrol ping`", code="failed"
        )
    return b"".join(parts)


class _Queued(msgspec.Struct):
    """A job of `squeue --json`, as far as it is used."""

    job_id: int = 0
    user_id: int = 0
    state_reason: str = ""
    burst_buffer_state: str = ""


class _Queue(msgspec.Struct):
    """The document of `squeue --json`."""

    jobs: list[_Queued] = []


def _decoded(document: bytes) -> list[_Queued]:
    try:
        return msgspec.json.decode(document, type=_Queue).jobs
    except msgspec.DecodeError as error:
        raise PlannerError(f"the answer of squeue cannot be read: {error}", code="failed") from error


def _read(text: str) -> dict[tuple[int, str], SlurmJob]:
    found: dict[tuple[int, str], SlurmJob] = {}
    try:
        for line in text.splitlines():
            number, uid, state, *nodes = line.split()
            found[int(uid), number] = SlurmJob(state, has_run=bool(nodes))
    except ValueError as error:
        raise PlannerError(f"the answer of squeue cannot be read: {error}") from error
    return found
