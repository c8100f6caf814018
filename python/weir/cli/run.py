"""`weir run`: run a program on a store."""

import errno
import os
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path

import click

from weir.cli.errors import FAILED, Failure
from weir.cli.home import Home
from weir.cli.recording import check_recorded, recording
from weir.cli.settings import CREDENTIAL, OBSERVE, PLACEMENT, PREFIX, TRACE

_BY_FLAG = click.core.ParameterSource.COMMANDLINE
_NOT_EXECUTABLE = 126
_NOT_FOUND = 127
"""Exit codes of a shell whose command cannot be executed or is not there (POSIX, 2.8.2)."""
_SIGNALLED = 128
"""Added to the number of the signal that ended a command, as a shell does."""
_LASTING_SECONDS = 30 * 86400
"""How long a credential minted for one run holds: longer than any job queue lets a job run."""
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
@click.option("--user", help="Name the job is accounted under.  [default: yours]")
@click.option("--group", help="Group the job is accounted under.  [default: yours]")
@click.option("--job", help="Name of the job.  [default: the command's, and the process number]")
@click.option("--priority", type=click.IntRange(1), help="Priority of the job.  [default: 1]")
@click.option("--no-preload", is_flag=True, help="Leave the fast path out: the program uses the mount alone.")
@PREFIX.option
@PLACEMENT.option
@CREDENTIAL.option
@TRACE.option
@click.option(
    "--observe",
    envvar=OBSERVE.environment,
    multiple=True,
    type=click.Path(),
    help=f"{OBSERVE.meaning}  [env: {OBSERVE.environment}]",
)
@click.argument("command", metavar="-- CMD", nargs=-1, required=True, type=click.UNPROCESSED)
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
    observe: tuple[str, ...],
    command: tuple[str, ...],
) -> int:
    """Run CMD on the store, as one job; the exit code is CMD's.

    CMD finds the store at $WEIR_MOUNT. Who can read the site's key says with the flags who the job is; everybody else
    runs under the grant in --credential or $WEIR_CREDENTIAL, which flags cannot widen.

    With --placement, CMD's files on Lustre are placed too, and no store has to be up. With --trace, `weir trace show`
    tells afterwards which files CMD made; with --observe no store has to be up for that.
    """
    if prefix is not None and no_preload:
        raise click.UsageError("--prefix is the preload's, so it cannot go with --no-preload")
    if placement is not None and no_preload:
        raise click.UsageError("--placement is the preload's, so it cannot go with --no-preload")
    if no_preload and click.get_current_context().get_parameter_source("trace") is _BY_FLAG:
        raise click.UsageError("--trace is the preload's, so it cannot go with --no-preload")
    added = {} if no_preload else recording(trace, observe, None if prefix is None else Path(prefix))
    if placement is not None:
        added |= _placing(placement)
    claims = {"nodes": nodes, "user": user, "group": group, "job": job, "priority": priority}
    asked = {name: value for name, value in claims.items() if value is not None}
    is_needless = placement is not None or bool(observe)
    if is_needless and prefix is None and not asked and not _is_store_up(home, mounted=placement is None):
        return _run(command, _without_store(os.environ) | added)
    environment = _environment(home, prefix, no_preload) | added
    granted = _granted(home, credential, asked)
    if granted is not None:
        environment["WEIR_CREDENTIAL"] = str(granted)
        return _run(command, environment)
    minted = _mint(home, command[0], asked)
    try:
        environment["WEIR_CREDENTIAL"] = str(minted)
        return _run(command, environment)
    finally:
        minted.unlink(missing_ok=True)


def _is_store_up(home: Home, *, mounted: bool) -> bool:
    from weir.cli.home import find_cluster
    from weir.cli.launch import mount_point

    try:
        find_cluster(home)
    except Failure:
        return False
    return not mounted or mount_point(home) is not None


def _without_store(present: Mapping[str, str]) -> dict[str, str]:
    """The environment of a program that uses no store."""
    from weir.cli.launch import library_path

    left_out = ("WEIR_CLUSTER", "WEIR_MOUNT", "WEIR_PREFIX", "WEIR_CREDENTIAL")
    kept = {name: value for name, value in present.items() if name not in left_out}
    return kept | {"LD_PRELOAD": library_path(present)}


def _placing(database: str) -> dict[str, str]:
    """What the program needs to find its interaction database, which is looked at first.

    Raises:
        Failure: It is none.
    """
    from weir.placement.database import DatabaseError, check

    file = Path(database).absolute()
    try:
        check(file)
    except DatabaseError as error:
        raise Failure(str(error), hint=error.hint) from error
    report = os.environ.get("WEIR_PLACEMENT_REPORT") or f"{file}.report"
    return {"WEIR_PLACEMENT": str(file), "WEIR_PLACEMENT_REPORT": report}


def _environment(home: Home, prefix: str | None, no_preload: bool) -> dict[str, str]:
    """The program's environment, but for its credential."""
    from weir.cli.home import find_cluster
    from weir.cli.launch import library_path, mount_point

    environment = dict(os.environ)
    environment["WEIR_CLUSTER"] = str(find_cluster(home))
    for name in ("WEIR_MOUNT", "WEIR_PREFIX"):
        environment.pop(name, None)
    if prefix is not None:
        if not prefix.startswith("/") or os.path.normpath(prefix) == "/":
            raise click.UsageError(f"--prefix {prefix} is not an absolute path below /")
        environment["WEIR_PREFIX"] = os.path.normpath(prefix)
    else:
        point = mount_point(home)
        if point is None:
            raise Failure(
                "the store is not mounted",
                hint="mount it with `weir mount`, or run without a mount: `weir run --prefix /weir -- CMD`",
            )
        environment["WEIR_MOUNT"] = str(point)
    if not no_preload:
        environment["LD_PRELOAD"] = library_path(os.environ)
    return environment


def _granted(home: Home, chosen: str | None, asked: dict[str, str | int]) -> Path | None:
    """The credential to run under as it is, or None where one is to be minted.

    Raises:
        Failure: The flags ask for another identity than the one granted.
    """
    from weir.cli.home import find_cluster
    from weir.cli.identity import read_claims
    from weir.cli.launch import credential_path

    may_mint = home.owns(find_cluster(home)) and home.read_site_key() is not None
    by_flag = click.get_current_context().get_parameter_source("credential") is _BY_FLAG
    if may_mint and not by_flag and (asked or chosen is None):
        return None
    path = Path(chosen).absolute() if chosen else credential_path(home)
    if path is None:
        raise Failure(
            "permission denied: you have no credential for this store, and cannot read its key",
            hint="ask the owner of the store for a grant (`weir grant`), and set WEIR_CREDENTIAL to it",
        )
    claims = read_claims(path)
    for name, value in asked.items():
        held = claims[name]  # type: ignore[literal-required]
        if value != held:
            raise Failure(
                f"permission denied: the grant says {name} {held}, and --{name} asks for {value}",
                hint=f"run without --{name}, or ask the owner of the store for such a grant: `weir grant`",
            )
    return path


def _mint(home: Home, program: str, asked: dict[str, str | int]) -> Path:
    """A credential for this run, in a file that goes with it."""
    from weir.cli.files import write_whole
    from weir.cli.identity import Identity
    from weir.cli.processes import Process

    site_key = home.read_site_key()
    if site_key is None:
        raise Failure(f"cannot read {home.site_key}")
    _sweep(home)
    process = Process.current()
    # A limit of 128 bytes holds for names; the process number makes the job unique.
    job = f"{Path(program).name[:100]}-{process.pid}"
    identity = Identity.of_process(job).narrowed(**asked)
    path = home.credentials / f"run-{process.pid}-{process.start_ticks}.json"
    text = identity.mint(site_key, _LASTING_SECONDS)
    try:
        write_whole(path, text)
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        # Who runs `rm` on a store that filled its disk finds room in the reserve.
        with home.locked():
            write_whole(path, text)
    return path


def _sweep(home: Home) -> None:
    """Remove credentials of runs that were killed before they could."""
    from weir.cli.processes import Process

    boot = Process.current().boot
    for path in home.credentials.glob("run-*-*.json"):
        _, pid, ticks = path.stem.split("-")
        if not Process(int(pid), int(ticks), boot).is_alive():
            path.unlink(missing_ok=True)


def _run(command: Sequence[str], environment: dict[str, str]) -> int:
    """Run the program as a child, hand signals on to it, and return its exit code."""
    import subprocess

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
        while (code := child.poll()) is None:
            received = signal.sigwaitinfo(watched)
            if received.si_signo != signal.SIGCHLD and received.si_code != _FROM_KERNEL:
                child.send_signal(received.si_signo)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    check_recorded(environment, command[0])
    return code if code >= 0 else _SIGNALLED - code


def _refuse(program: str, reason: str, code: int) -> int:
    from weir.cli.errors import report

    report(f"cannot run {program}: {reason}", "is its name right?")
    return code or FAILED
