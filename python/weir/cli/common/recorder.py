"""The environment in which the preload library records a program's files, for `weir run --trace`."""

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import click

from weir.cli.common.errors import CommandError, warn
from weir.ways import make_folders

_NAME_BYTES = 100
"""Longest name of a run: the library refuses 128 bytes."""
_OBSERVED_BYTES = 16 << 10
"""Most bytes of all observed paths together: the library keeps no more."""


def recorder_variables(trace: str | None, observed: Sequence[str], inside: Path | None) -> dict[str, str]:
    """Make the variables of a program that is to be recorded.

    Args:
        trace: Directory of the traces, made if it is not there; None records nothing.
        observed: Paths below which files outside the store are recorded, too.
        inside: The prefix without a mount, below which no trace can be written; None where there is a mount.

    Returns:
        Variables by their names; none where nothing is recorded.

    Raises:
        CommandError: The directory cannot be made or written, or lies on the store.
        click.UsageError: Paths cannot be passed on.
    """
    if trace is None:
        return {}
    folder = Path(trace).resolve()
    if inside is not None and folder.is_relative_to(inside):
        raise CommandError(
            f"--trace {trace} lies on the store, which this machine's kernel does not know",
            hint="give a directory outside the prefix, or run with the mount",
        )
    try:
        make_folders(folder)
    except OSError as error:
        raise CommandError(
            f"cannot make the directory {folder} for traces: {error.strerror}", hint="give another with --trace"
        ) from error
    if not os.access(folder, os.W_OK | os.X_OK):
        raise CommandError(f"cannot write traces to {folder}: permission denied", hint="give another with --trace")
    return {
        "WEIR_TRACE": str(folder),
        "WEIR_OBSERVE": observed_paths(observed),
        "WEIR_TRACE_RUN": run_name(os.environ, folder),
        "WEIR_TRACE_PARENT": str(os.getpid()),
    }


def observed_paths(observed: Sequence[str]) -> str:
    """Write the variable of observed paths.

    Args:
        observed: The paths.

    Returns:
        Each path as it was given and as symbolic links lead, since programs may name it either way.

    Raises:
        click.UsageError: The paths cannot be passed on.
    """
    both = [form for path in observed for form in _forms(Path(path).absolute())]
    joined = ":".join(dict.fromkeys(both))
    if any(":" in path for path in both) or len(os.fsencode(joined)) >= _OBSERVED_BYTES:
        raise click.UsageError(
            f"--observe: paths may hold no colon, and {_OBSERVED_BYTES} bytes together; observe a directory above them"
        )
    return joined


def _forms(path: Path) -> tuple[str, str]:
    return os.path.normpath(path), str(path.resolve())


def run_name(environment: Mapping[str, str], folder: Path) -> str:
    """Name the run that all processes of this invocation belong to.

    Args:
        environment: Variables of this process.
        folder: Directory of the traces.

    Returns:
        The name of the `weir run` around this one; else a name by the launcher that started this one for each rank;
        else a new name.
    """
    around = environment.get("WEIR_TRACE_RUN", "")
    if around and environment.get("WEIR_TRACE") == str(folder):
        return around
    from weir.store.processes import Process

    if space := environment.get("PMIX_NAMESPACE"):
        return _plain(f"pmix-{space}")
    if "SLURM_STEP_NUM_TASKS" in environment:
        return _plain(f"slurm-{environment.get('SLURM_JOB_ID', '')}.{environment.get('SLURM_STEP_ID', '')}")
    pid = os.getppid() if "PMI_RANK" in environment else os.getpid()
    ticks = Process.current().start_ticks if pid == os.getpid() else 0
    return _plain(f"{os.uname().nodename}-{pid}-{ticks}")


def _plain(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.@-]", "_", name)[:_NAME_BYTES]


def note_place(variables: Mapping[str, str]) -> None:
    """Write beside the traces of a run where it sees the store.

    Args:
        variables: Variables of the program.
    """
    from weir.tracing.places import write_place
    from weir.tracing.records import Place

    path = variables.get("WEIR_MOUNT") or variables.get("WEIR_PREFIX")
    if "WEIR_TRACE_RUN" not in variables or path is None:
        return
    try:
        place = Place(path, "WEIR_MOUNT" in variables)
        write_place(Path(variables["WEIR_TRACE"]), variables["WEIR_TRACE_RUN"], place)
    except OSError as error:
        warn(f"cannot write the mount point of the store into {variables['WEIR_TRACE']}: {error.strerror}")


def check_recorded(variables: Mapping[str, str], command: str) -> None:
    """Warn where a run that was to be recorded left no trace.

    Args:
        variables: Variables of the program.
        command: Name of the program.
    """
    if "WEIR_TRACE_RUN" in variables and not any(
        Path(variables["WEIR_TRACE"]).glob(f"{variables['WEIR_TRACE_RUN']}+*")
    ):
        warn(
            f"{command} left no trace in {variables['WEIR_TRACE']}",
            hint="static programs, and those that drop LD_PRELOAD, cannot be recorded; is the directory's disk full?",
        )
