"""Steps of deployments, as processes of their users."""

import asyncio
import contextlib
import os
import signal
import sys
from pathlib import Path

import msgspec

from weir.planner import step as program
from weir.planner.errors import PlannerError
from weir.planner.protocol import TEXT_MAX, Step
from weir.planner.records import Record
from weir.planner.settings import STEP_SECONDS_MAX, STEPS_MAX, STEPS_PER_USER_MAX, Reach
from weir.planner.step import Context, Order, Outcome
from weir.planner.turns import Slots
from weir.planner.users import process_environment, process_rights, user
from weir.provisioning.outcomes.outcome import Question, job_key

_OUTCOME_BYTES_MAX = 1 << 20
_ENVIRONMENT_CHARACTERS_MAX = 64 << 10
"""Most characters of a job's variables: every deployment keeps them, and they come from a process of its user."""
_END_SECONDS = 10.0
"""Time in which a step that is broken off may end by itself."""


class Steps:
    """The steps that run now."""

    def __init__(self, module: str, folders: Path, reach: Reach) -> None:
        """Describe the steps.

        Args:
            module: Module of the functions.
            folders: The folder of the users' folders; this user's alone, but for passage.
            reach: The way to the servers' nodes.
        """
        self._module = module
        self._folders = folders
        self._reach = reach
        # Copies may take a day, and have slots of their own, so that storage is set up and ended meanwhile.
        self._slots = {is_copy: Slots(STEPS_MAX, STEPS_PER_USER_MAX) for is_copy in (False, True)}
        self._running: dict[tuple[int, str], asyncio.subprocess.Process] = {}
        self._endings: set[asyncio.Task[None]] = set()

    def folder(self, record: Record) -> Path:
        """Name the folder of a deployment.

        Returns:
            The folder, beside those of the user's other deployments.
        """
        return self._folders / str(record.uid) / record.name

    async def run(self, record: Record, step: Step, *, discard: bool = False) -> Outcome:
        """Run a step, as soon as there is room for another process.

        Args:
            discard: Whether an end may lose output.

        Returns:
            The outcome; failures are outcomes too.
        """
        is_copy = step in ("stage_in", "stage_out")
        async with self._slots[is_copy].slot(record.uid):
            try:
                return await self._run(record, step, discard)
            except PlannerError as error:
                return Outcome(message=error.message, hint=error.hint)
            except OSError as error:
                return Outcome(message=f"{step} cannot be started: {error.strerror or error}")

    def break_off(self, key: tuple[int, str]) -> None:
        """End the process of a deployment's step, if there is one.

        Args:
            key: User and name of the deployment.
        """
        process = self._running.get(key)
        if process is not None:
            task = asyncio.ensure_future(_end(process))
            self._endings.add(task)
            task.add_done_callback(self._endings.discard)

    async def end(self) -> None:
        """End all processes. Their steps begin again with the next planner."""
        await asyncio.gather(*(_end(process) for process in self._running.values()))

    async def _run(self, record: Record, step: Step, discard: bool) -> Outcome:
        account = user(record.uid)
        question = Question(job=job_key(record.asked), identity=record.identity)
        context = Context(
            job=record.job, nodes=record.asked.nodes or 1, discard=discard, reach=self._reach, question=question
        )
        self._make_folder(record)
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-m", program.__name__, self._module, step, str(self.folder(record))),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            cwd="/",
            env=process_environment(account),
            umask=0o077,
            start_new_session=True,
            limit=_OUTCOME_BYTES_MAX,
            **process_rights(account),  # type: ignore[arg-type]
        )
        assert process.stdin is not None and process.stdout is not None
        self._running[record.key] = process
        try:
            order = msgspec.json.encode(Order(deployment=record.deployment, context=context)) + b"\n"
            async with asyncio.timeout(STEP_SECONDS_MAX):
                # The pipe stays open: its end tells the step that the planner is gone.
                process.stdin.write(order)
                with contextlib.suppress(ConnectionError):
                    await process.stdin.drain()
                answer = await process.stdout.readline()
                await process.wait()
        except ValueError:
            return Outcome(message=f"the answer of {step} is longer than {_OUTCOME_BYTES_MAX} bytes")
        except TimeoutError:
            return Outcome(message=f"{step} took more than {STEP_SECONDS_MAX:.0f} s", hint="see planner.log")
        finally:
            self._running.pop(record.key, None)
            await asyncio.shield(_end(process))
        try:
            return _bounded(msgspec.json.decode(answer, type=Outcome), step, record)
        except msgspec.MsgspecError:
            code = process.returncode or 0
            how = f"by signal {-code}" if code < 0 else f"with exit code {code}"
            log = self.folder(record) / "planner.log"
            return Outcome(message=f"the process of {step} ended {how} before it was done", hint=f"see {log}")

    def _make_folder(self, record: Record) -> None:
        """Make the user's folder. The step makes the deployment's own with the user's rights."""
        folder = self.folder(record).parent
        with contextlib.suppress(FileExistsError):
            folder.mkdir(mode=0o700)
            if os.geteuid() == 0:
                os.chown(folder, record.uid, record.gid, follow_symlinks=False)


def _bounded(outcome: Outcome, step: Step, record: Record) -> Outcome:
    """Keep no more of an outcome than people read, and a job can take; what the planner knows comes not from a user."""
    if sum(len(name) + len(value) for name, value in outcome.environment.items()) > _ENVIRONMENT_CHARACTERS_MAX:
        return Outcome(message=f"the variables of {step} have more than {_ENVIRONMENT_CHARACTERS_MAX} characters")
    measured = outcome.measured
    if measured is not None:
        deployment = record.deployment
        measured = msgspec.structs.replace(
            measured,
            job=job_key(record.asked),
            behaviour_class=deployment.behaviour_class,
            sslo=deployment.sslo,
            system=deployment.system,
            owned=not deployment.joins,
            planned=record.identity,
            predicted=deployment.expected,
            fault=measured.fault[:TEXT_MAX],
        )
    return msgspec.structs.replace(
        outcome, message=outcome.message[:TEXT_MAX], hint=outcome.hint[:TEXT_MAX], measured=measured
    )


async def _end(process: asyncio.subprocess.Process) -> None:
    """End a process and its children: politely, then not."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        if process.returncode is not None:
            break
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, number)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), _END_SECONDS)
    # The watch of the step reads its end here.
    if process.stdin is not None:
        process.stdin.close()
