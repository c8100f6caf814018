"""Flags for the place where long work runs: this machine, or a Dask cluster."""

import os
import re
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from weir.cli.common.parameters import Checked, Number
from weir.store import values

if TYPE_CHECKING:
    from weir.simulation.sweeps.pools import Pool

Command = TypeVar("Command", bound=Callable[..., Any])

_ADDRESS = re.compile(r"(?:\w+://)?[^/\s]+:(?P<port>\d{1,5})/?", re.ASCII)
_PORT_MAX = 65535
_WALLTIME = re.compile(r"(?:\d+-)?\d+(?::\d\d){0,2}", re.ASCII)


def _scheduler_address(text: str) -> None:
    found = _ADDRESS.fullmatch(text)
    if text != "slurm" and (found is None or int(found["port"]) > _PORT_MAX):
        raise ValueError(f"`{text}` is no address such as tcp://host:8786, and not `slurm`")


def _walltime(text: str) -> None:
    """Refuse a text that sbatch takes for no time (sbatch(1), `--time`)."""
    if _WALLTIME.fullmatch(text) is None:
        raise ValueError(f"`{text}` is no time of Slurm, such as 01:30:00 or 2-12")


def _interface(text: str) -> None:
    """Refuse an interface that this host, on which the scheduler runs, has not."""
    names = [name for _, name in socket.if_nameindex()]
    values.one_of(text, names, "network interface on this host")


def _sbatch_option(text: str) -> None:
    if not text.startswith("-"):
        raise ValueError(f"`{text}` is no option of sbatch, such as --constraint=milan")


_FLAGS: tuple[Callable[[Any], Any], ...] = (
    click.option(
        "--threads", type=click.IntRange(1, 4096), help="Number of tasks at once.  [default: one for each processor]"
    ),
    click.option(
        "--dask",
        metavar="ADDRESS",
        type=Checked("address", _scheduler_address),
        help="Run on the workers of a Dask scheduler, such as tcp://host:8786; `slurm`: on workers that Slurm starts.",
    ),
    click.option("--slurm-jobs", type=click.IntRange(1, 10_000), default=1, help="Jobs of Slurm."),
    click.option("--slurm-cores", type=click.IntRange(1, 1024), default=1, help="Processors of each."),
    click.option(
        "--slurm-memory",
        metavar="SIZE",
        type=Checked("size", values.size),
        default="2GiB",
        help="Memory of each.",
    ),
    click.option("--slurm-partition", metavar="NAME", help="Partition.  [default: Slurm's]"),
    click.option("--slurm-account", metavar="NAME", help="Account.  [default: the user's]"),
    click.option(
        "--slurm-walltime",
        metavar="TIME",
        type=Checked("time", _walltime),
        default="01:00:00",
        help="Longest time of each job of Slurm.",
    ),
    click.option(
        "--slurm-interface",
        metavar="NAME",
        type=Checked("interface", _interface),
        help="Network interface of the scheduler, such as ib0.",
    ),
    click.option(
        "--slurm-option",
        "slurm_options",
        metavar="OPTION",
        multiple=True,
        type=Checked("option", _sbatch_option),
        help="Further option of sbatch.",
    ),
    click.option(
        "--slurm-wait",
        metavar="SECONDS",
        type=Number(1, 30 * 86400),
        default=3600,
        help="Longest wait for the first job to start.",
    ),
)


def cluster_options(command: Command) -> Command:
    """Add the flags for the place of evaluation to a command, which gets them by their names.

    Args:
        command: Function of the command.

    Returns:
        The function with its flags.
    """
    for flag in reversed(_FLAGS):
        command = flag(command)
    return command


@contextmanager
def chosen_pool(
    options: dict[str, Any], folder: Path, local: "Callable[[int], Pool] | None" = None
) -> "Iterator[Pool]":
    """Make the place of evaluation that the flags choose.

    Args:
        options: Values of the flags by their names.
        folder: Folder for logs and keys of workers, which all nodes see.
        local: Makes the place on this machine from the number of tasks at once; None is for its threads.

    Yields:
        The place.

    Raises:
        UsageError: Flags contradict each other.
        SweepError: The cluster cannot be used.
    """
    from weir.simulation.sweeps.pools import Threads

    address = options["dask"]
    if address is None:
        yield (local or Threads)(options["threads"] or len(os.sched_getaffinity(0)))
        return
    if options["threads"] is not None:
        raise click.UsageError("--threads is of this machine: on a cluster the workers have theirs")
    from weir.simulation.sweeps.cluster import SlurmOptions, connected

    slurm = SlurmOptions(
        jobs=options["slurm_jobs"],
        cores=options["slurm_cores"],
        memory=options["slurm_memory"],
        partition=options["slurm_partition"],
        account=options["slurm_account"],
        walltime=options["slurm_walltime"],
        interface=options["slurm_interface"],
        directives=options["slurm_options"],
        wait_seconds=options["slurm_wait"],
        folder=folder.absolute(),
    )
    with connected(address, slurm) as pool:
        yield pool
