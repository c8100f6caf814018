"""`weir run`: a program on a store."""

import os
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from weir.cli.common.errors import FAILED, CommandError, report, warn
from weir.cli.common.options import complete_files, option
from weir.cli.common.parameters import Checked, Number
from weir.cli.common.recorder import check_recorded, note_place, recorder_variables
from weir.cli.common.report_file import REPORT
from weir.cli.run.observing import DEFAULT_FOLDER, Observation, folder_of, observing
from weir.cli.run.placed import Placing
from weir.cli.run.reporting import Reporting
from weir.store import values
from weir.store.errors import StoreError
from weir.store.home import Home, find_cluster
from weir.store.settings import CREDENTIAL, OBSERVE, PLACEMENT, PREFIX, TRACE

_CLAIM = Checked("name", values.claim)
_BY_FLAG = click.core.ParameterSource.COMMANDLINE
_NOT_EXECUTABLE = 126
_NOT_FOUND = 127
"""Exit codes of a shell whose command cannot be executed or is not there (POSIX, 2.8.2)."""
_SIGNALLED = 128
"""Added to the number of the signal that ended a command, as a shell does."""
_SIGNALS = {
    signal.SIGHUP,
    signal.SIGINT,
    signal.SIGQUIT,
    signal.SIGTERM,
    signal.SIGUSR1,
    signal.SIGUSR2,
    signal.SIGCONT,
    signal.SIGWINCH,
}
"""Signals that are handed on to the program."""
_FROM_KERNEL = 0x80
"""`si_code` of a signal that the terminal sent: its whole foreground group has it already (sigaction(2), SI_KERNEL)."""


@click.command(context_settings={"ignore_unknown_options": False, "allow_interspersed_args": False})
@click.option("--nodes", type=click.IntRange(1), help="Compute nodes of the job.  [default: 1]")
@click.option("--user", type=_CLAIM, help="User name that the job is accounted under.  [default: yours]")
@click.option("--group", type=_CLAIM, help="Group name that the job is accounted under.  [default: yours]")
@click.option("--job", type=_CLAIM, help="Name of the job.  [default: the command's, and the process number]")
@click.option("--priority", type=click.IntRange(1), help="Priority of the job.  [default: 1]")
@click.option("--no-preload", is_flag=True, help="Use the mount alone, without the fast path.")
@option(PREFIX)
@option(PLACEMENT)
@option(CREDENTIAL)
@option(TRACE)
@click.option(
    "--trace-if-needed",
    is_flag=True,
    help="With --placement and --trace: record only if the database missed at least 30 % of the files that the"
    " last runs made.",
)
@click.option(
    "--observe",
    envvar=OBSERVE.environment,
    multiple=True,
    type=click.Path(),
    help=f"{OBSERVE.meaning}  [env: {OBSERVE.environment}]",
)
@click.option(
    "--windows",
    type=click.Path(file_okay=False),
    help=f"Folder for the windows of --observe.  [default: {DEFAULT_FOLDER}, without --trace]",
)
@click.option(
    "--window", "window_seconds", type=Number(0.1, 60), default=1.0, help="Length of these windows, in seconds."
)
@click.option(
    "--report",
    metavar="FILE",
    type=REPORT,
    help="Watch the run, and write a page about it: what slowed it, and what to do. FILE is .html, .json or .txt.",
)
@click.argument(
    "command", metavar="-- CMD", nargs=-1, required=True, type=click.UNPROCESSED, shell_complete=complete_files
)
@click.pass_obj
def run(
    home: Home,
    nodes: int | None,
    user: str | None,
    group: str | None,
    job: str | None,
    priority: int | None,
    no_preload: bool,
    prefix: str | None,
    placement: str | None,
    credential: str | None,
    trace: str | None,
    trace_if_needed: bool,
    observe: tuple[str, ...],
    windows: str | None,
    window_seconds: float,
    report: str | None,
    command: tuple[str, ...],
) -> int:
    """Run CMD on the store, as one job; the exit code is CMD's.

    CMD finds the store at $WEIR_MOUNT. The flags set the job's identity for a user who can read the site's key. Other
    users run under the grant in --credential or $WEIR_CREDENTIAL, which flags cannot widen.

    With --placement, CMD's files on Lustre are placed too, and no store has to be up. With --trace, `weir trace show`
    shows afterwards the files that CMD made. With --observe, CMD's operations on files outside the store are counted
    in windows for `weir interference`. Neither of the two needs a store that is up. With --report, a page about the
    run is written, as `weir report` does for jobs of the past.
    """
    if prefix is not None and no_preload:
        raise click.UsageError("--prefix needs the preload library, so it cannot go with --no-preload")
    if placement is not None and no_preload:
        raise click.UsageError("--placement needs the preload library, so it cannot go with --no-preload")
    if no_preload and click.get_current_context().get_parameter_source("trace") is _BY_FLAG:
        raise click.UsageError("--trace needs the preload library, so it cannot go with --no-preload")
    if no_preload and observe:
        raise click.UsageError("--observe needs the preload library, so it cannot go with --no-preload")
    if trace_if_needed and (placement is None or trace is None):
        raise click.UsageError(
            "--trace-if-needed needs --placement, whose runs it looks at, and a directory for --trace"
        )
    placing = None if placement is None else Placing(home, placement)
    if placing is not None and trace_if_needed and not placing.is_trace_due():
        trace = None
    reporting = Reporting(home, None if report is None else Path(report), trace, is_preloaded=not no_preload)
    added = {} if no_preload else recorder_variables(reporting.trace, observe, None if prefix is None else Path(prefix))
    added |= {} if placing is None else placing.variables
    claims = {"nodes": nodes, "user": user, "group": group, "job": job, "priority": priority}
    asked = {name: value for name, value in claims.items() if value is not None}
    is_needless = placement is not None or bool(observe)
    with observing(folder_of(windows, trace, observe), window_seconds, observe, command[0]) as observation:
        added |= observation.variables
        if is_needless and prefix is None and not asked and not _is_store_up(home, mounted=placement is None):
            code = _run(command, _without_store(os.environ) | added, Beside(observation, reporting, placing))
        else:
            environment = _environment(home, prefix, no_preload) | added
            note_place(environment)
            beside = Beside(observation, reporting, placing)
            code = _run_as_job(home, credential, asked, command, environment, beside)
    if placing is not None:
        placing.end(command[0])
    reporting.write(command)
    return code


@dataclass(frozen=True)
class Beside:
    """The observation and the report that accompany the program."""

    observation: Observation
    reporting: Reporting
    placing: Placing | None

    def prepare(self, environment: Mapping[str, str]) -> None:
        """Take note of the program's variables."""
        self.reporting.prepare(environment)
        if self.placing is not None:
            self.placing.prepare(environment)

    def start(self) -> None:
        """Begin, once the program runs."""
        self.observation.start()
        self.reporting.start()

    def end(self) -> None:
        """End, once the program has ended."""
        self.observation.end()
        self.reporting.end()


def _run_as_job(
    home: Home,
    credential: str | None,
    asked: dict[str, str | int],
    command: Sequence[str],
    environment: dict[str, str],
    beside: Beside,
) -> int:
    """Run the program under a grant, or under a credential that is minted for it."""
    from weir.store import step_journal
    from weir.store.launch import minted, run_job

    granted = _granted(home, credential, asked)
    if granted is not None:
        return _run(command, environment | {"WEIR_CREDENTIAL": str(granted)}, beside)
    environment |= step_journal.variables(home, environment)
    with minted(home, run_job(command[0], **asked)) as credential_file:
        return _run(command, environment | {"WEIR_CREDENTIAL": str(credential_file)}, beside)


def _is_store_up(home: Home, *, mounted: bool) -> bool:
    from weir.store.launch import mount_point

    try:
        find_cluster(home)
    except StoreError:
        return False
    return not mounted or mount_point(home) is not None


def _without_store(present: Mapping[str, str]) -> dict[str, str]:
    """The environment of a program that uses no store."""
    from weir.store.launch import library_path

    left_out = ("WEIR_CLUSTER", "WEIR_MOUNT", "WEIR_PREFIX", "WEIR_CREDENTIAL")
    kept = {name: value for name, value in present.items() if name not in left_out}
    return kept | {"LD_PRELOAD": library_path(present)}


def _environment(home: Home, prefix: str | None, no_preload: bool) -> dict[str, str]:
    """The program's environment, without its credential."""
    from weir.store import launch, window_folders

    cluster = find_cluster(home)
    if prefix is None:
        place = launch.mount_point(home)
        if place is None:
            raise CommandError(
                "the store is not mounted",
                hint="mount it with `weir mount`, or run without a mount: `weir run --prefix /weir -- CMD`",
            )
    else:
        place = Path(prefix)
    made = launch.environment(os.environ, cluster, place, is_mounted=prefix is None, is_preloaded=not no_preload)
    if not no_preload and (words := window_folders.problem(made)) is not None:
        warn(words, hint="its owner or root can remove it; WEIR_WINDOWS names another folder, or `off`")
    return made


def _granted(home: Home, chosen: str | None, asked: dict[str, str | int]) -> Path | None:
    """The credential to run under as it is; None where one is to be minted.

    Raises:
        CommandError: The flags ask for another identity than the granted one.
    """
    from weir.store.identity import read_claims
    from weir.store.launch import credential_path

    may_mint = home.owns(find_cluster(home)) and home.read_site_key() is not None
    by_flag = click.get_current_context().get_parameter_source("credential") is _BY_FLAG
    if may_mint and not by_flag and (asked or chosen is None):
        return None
    path = Path(chosen).absolute() if chosen else credential_path(home)
    if path is None:
        raise CommandError(
            "permission denied: you have no credential for this store, and cannot read its key",
            hint="ask the owner of the store for a grant (`weir grant`), and set WEIR_CREDENTIAL to it",
        )
    claims = read_claims(path)
    for name, value in asked.items():
        held = claims[name]  # type: ignore[literal-required]
        if value != held:
            raise CommandError(
                f"permission denied: the grant says {name} {held}, and --{name} asks for {value}",
                hint=f"run without --{name}, or ask the owner of the store for such a grant: `weir grant`",
            )
    return path


def _run(command: Sequence[str], environment: dict[str, str], beside: Beside) -> int:
    """Run the program as a child, hand signals on to it, and return its exit code."""
    import subprocess

    beside.prepare(environment)
    # Where SIGCHLD is ignored, the kernel reaps the program and its exit code is lost.
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    watched = _SIGNALS | {signal.SIGCHLD}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, watched)
    try:
        try:
            child = subprocess.Popen(
                command,
                env=environment,
                close_fds=False,
                preexec_fn=lambda: signal.pthread_sigmask(signal.SIG_SETMASK, before),
            )
        except FileNotFoundError:
            return _refuse(command[0], "no such program", _NOT_FOUND)
        except OSError as error:
            return _refuse(command[0], error.strerror or str(error), _NOT_EXECUTABLE)
        # Their threads inherit the blocked signals, so that all of them come here.
        beside.start()
        while (code := child.poll()) is None:
            received = signal.sigwaitinfo(watched)
            if received.si_signo != signal.SIGCHLD and received.si_code != _FROM_KERNEL:
                child.send_signal(received.si_signo)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    beside.end()
    check_recorded(environment, command[0])
    return code if code >= 0 else _SIGNALLED - code


def _refuse(program: str, reason: str, code: int) -> int:
    report(f"cannot run {program}: {reason}", "is its name right?")
    return code or FAILED
