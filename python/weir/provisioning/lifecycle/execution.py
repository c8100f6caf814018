"""A job without a scheduler: its storage is started, its input staged in, its program run, its results staged out."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from weir.errors import WeirError
from weir.provisioning.deployments import Deployment, Server
from weir.provisioning.errors import ProvisioningError
from weir.provisioning.lifecycle import measurement
from weir.provisioning.lifecycle.environment import environment
from weir.provisioning.lifecycle.interruption import InterruptedJob, Interruption
from weir.provisioning.lifecycle.movement import Shown, stage_in, stage_out
from weir.provisioning.lifecycle.program import is_running, run_program
from weir.provisioning.lifecycle.record import JobFolder, Phase, State, changed
from weir.provisioning.lifecycle.setup import setup
from weir.provisioning.lifecycle.suspension import needs_store, suspend
from weir.provisioning.lifecycle.teardown import forget, teardown
from weir.provisioning.lifecycle.validation import validate
from weir.provisioning.outcomes import archive
from weir.provisioning.outcomes.outcome import Question
from weir.store.errors import SettingsError, StoreError
from weir.store.notices import Listener, Notice

REPLANS = 3
"""Plans after the first one, by default, where a plan has become infeasible."""

Plan = Callable[[Sequence[Server]], Deployment]
"""Makes a plan: called with the servers that could not be started for earlier ones."""


@dataclass(frozen=True)
class Tellers:
    """The takers of what a job tells."""

    listener: Listener
    shown: Shown | None = None


def jobs_folder(home: Path) -> Path:
    """Name the folder of all jobs.

    Args:
        home: Home of the user's store, beside which the folder lies.

    Returns:
        The folder, which need not exist.
    """
    return home.with_name(f"{home.name}-jobs")


def begin(
    root: Path,
    plan: Plan,
    command: Sequence[str],
    tellers: Tellers,
    interruption: Interruption,
    *,
    replans: int = REPLANS,
    spares: Sequence[Server] = (),
    working_directory: Path | None = None,
    question: Callable[[], Question | None] = lambda: None,
) -> JobFolder:
    """Plan a job's storage and start it; a plan that cannot be started is made again.

    Args:
        root: Folder of all jobs.
        plan: Makes the plans.
        command: The program and its arguments.
        tellers: Takers of notices and progress.
        interruption: Signals of this process; one that comes meanwhile is only noted, for `go_on`.
        replans: Plans after the first one.
        spares: Servers that may take the place of bad ones.
        working_directory: Folder that the program runs in; None is this process's.
        question: Tells, behind each plan, what the outcome is to be compared with; None measures nothing.

    Returns:
        Folder of the job, whose store is up.

    Raises:
        ProvisioningError: No plan could be started, or a job of that name is there already; nothing is left running.
        StoreError: No plan could be started; nothing is left running.
    """
    bad: list[Server] = []
    place = str((working_directory or Path()).absolute())
    with interruption.noted():
        while True:
            deployment = plan(bad)
            folder = _made(root, deployment)
            folder.write(changed(folder.state(), command=tuple(command), working_directory=place))
            if (asked := question()) is not None:
                measurement.ask(folder, asked)
            try:
                with _timed(tellers, "the storage is up"):
                    setup(folder, tellers.listener, spares=spares)
                return folder
            except SettingsError:
                # The next plan would have the same settings.
                _end(folder)
                raise
            except (ProvisioningError, StoreError) as error:
                bad += folder.state().left_out
                _end(folder)
                if replans <= 0 or interruption.number:
                    raise
                replans -= 1
                words = f"{deployment.name} cannot be started ({error.message}); it is planned again"
                tellers.listener(Notice(words))
            except BaseException:
                _end(folder)
                raise


def _made(root: Path, deployment: Deployment) -> JobFolder:
    validate(deployment)
    folder = JobFolder(root / deployment.name)
    if folder.exists():
        raise ProvisioningError(
            f"there is a job {deployment.name} already, which is {folder.state().phase}",
            hint=f"`weir job resume {deployment.name}` continues it; or choose another `name`",
        )
    folder.create(deployment)
    return folder


def go_on(folder: JobFolder, tellers: Tellers, interruption: Interruption, *, reruns: bool = False) -> int:
    """Do the steps of a job that are left: stage in, run, stage out, tear down.

    Whatever ends them early, nothing of the job runs on, and results that were not staged out are kept.

    Args:
        tellers: Takers of notices and progress.
        interruption: Signals of this process.
        reruns: Whether a program that was ended early runs again; else its results are staged out as they are.

    Returns:
        Exit code of the job's program; 0 where it was ended early and its results are staged out now.

    Raises:
        ProvisioningError: The job was ended early, by a signal or a failure; the message says where its results are,
            and how to go on.
    """
    if is_running(folder.state()):
        raise ProvisioningError(
            f"the program of {folder.root.name} still runs (process {folder.state().process.split()[0]})",
            hint="wait for its end, or end it",
        )
    try:
        return _steps(folder, tellers, interruption, reruns=reruns)
    except InterruptedJob:
        raise _kept(folder, tellers, interruption, "it was ended early") from None
    except (WeirError, OSError) as error:
        raise _kept(folder, tellers, interruption, _words(error)) from error


def _steps(folder: JobFolder, tellers: Tellers, interruption: Interruption, *, reruns: bool) -> int:
    if interruption.number:
        raise InterruptedJob
    with folder.locked():
        # From here on, the end of the last sharer leaves the store to this job.
        state = folder.state()
        if state.suspended:
            state = folder.write(changed(state, suspended=False))
    if state.phase is Phase.RUNNING and not reruns:
        # Its program was ended early, by a signal or with the machine.
        with folder.locked():
            state = folder.write(changed(folder.state(), phase=Phase.RAN))
    if state.phase.is_before(Phase.RAN):
        setup(folder, tellers.listener)
        into, _ = _trees(folder)
        with _timed(tellers, f"{into} is staged in", is_told=bool(into)):
            stage_in(folder, shown=tellers.shown)
        with _timed(tellers, "the program has ended"):
            variables = environment(folder)
            state = run_program(folder, {**variables, **measurement.begin(folder, variables)}, interruption)
        if interruption.number:
            raise InterruptedJob
        _keep_outcome(folder, tellers, state)
    if state.phase.is_before(Phase.STAGED_OUT):
        if needs_store(folder):
            # Servers that died under the job are started again for its results.
            setup(folder, tellers.listener)
        _, out = _trees(folder)
        with _timed(tellers, f"{out} is staged out", is_told=bool(out)):
            stage_out(folder, shown=tellers.shown)
    with _timed(tellers, "the storage has ended"):
        state = teardown(folder)
    for absent in state.absent:
        tellers.listener(Notice(f"the program failed, and has not made {absent}", hint="nothing of it was staged out"))
    if state.phase is Phase.ENDED:
        forget(folder)
    return state.exit_code or 0


def _keep_outcome(folder: JobFolder, tellers: Tellers, state: State) -> None:
    """Keep what the run had from its storage; a job goes on where that fails."""
    outcome = measurement.end(folder, folder.deployment().name, state.exit_code)
    if outcome is None:
        return
    try:
        archive.keep(archive.file_of(folder.root.parent), outcome)
    except (WeirError, OSError) as error:
        tellers.listener(Notice(f"the run is not remembered: {_words(error)}"))


def _trees(folder: JobFolder) -> tuple[str, str]:
    """The trees that are staged in and out, in words."""
    deployment = folder.deployment()
    into = (each.source for each in deployment.stage_in)
    return ", ".join(into), ", ".join(each.source for each in deployment.stage_out)


@contextmanager
def _timed(tellers: Tellers, words: str, *, is_told: bool = True) -> Iterator[None]:
    """Tell of a step, and of its time, once it is done."""
    begin = time.monotonic()
    yield
    if is_told:
        tellers.listener(Notice(f"{words}: {time.monotonic() - begin:.1f} s"))


def _kept(folder: JobFolder, tellers: Tellers, interruption: Interruption, reason: str) -> ProvisioningError:
    """Stop everything, and say where the results are."""
    name = folder.root.name
    with interruption.noted():
        try:
            state = suspend(folder, shown=tellers.shown)
        except (WeirError, OSError) as error:
            return ProvisioningError(
                f"the job {name} did not end: {reason}; and its storage is left running, because {_words(error)}",
                hint=f"`weir job resume {name}` goes on",
            )
        if state.phase is Phase.ENDED:
            forget(folder)
            return ProvisioningError(
                f"the job {name} did not end: {reason}", hint="it left no results, and nothing runs"
            )
    places = sorted(set(state.kept.values()) - {""}) or [str(folder.root)]
    return ProvisioningError(
        f"the job {name} did not end: {reason}; its results are kept in {', '.join(places)}",
        hint=f"`weir job resume {name}` stages them out, and `weir job end {name} --discard` removes them",
    )


def _words(error: WeirError | OSError) -> str:
    if isinstance(error, WeirError):
        return error.message
    place = f"{error.filename}: " if error.filename else ""
    return f"{place}{error.strerror or error}"


def _end(folder: JobFolder) -> None:
    """Remove what was begun for a plan that cannot be started."""
    teardown(folder)
    forget(folder)
