"""A Dask cluster for a sweep: one whose scheduler runs, or workers that Slurm starts."""

import logging
import sys
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from weir.distribution import install_command
from weir.simulation.sweeps.errors import SweepError
from weir.simulation.sweeps.pools import Dask

if TYPE_CHECKING:
    from distributed import Client

SLURM = "slurm"
"""The address that stands for workers under Slurm."""
_CONNECT_SECONDS = 30
"""Longest wait for the answer of a scheduler."""


@dataclass(frozen=True)
class SlurmOptions:
    """The jobs that Slurm starts, each with one worker of Dask."""

    jobs: int = 1
    """Number of jobs."""
    cores: int = 1
    """Processors of each job: threads of its worker."""
    memory: str = "2GiB"
    """Memory of each job."""
    partition: str | None = None
    """Partition; None is the default one."""
    account: str | None = None
    """Account; None is the user's."""
    walltime: str = "01:00:00"
    """Longest time of a job."""
    interface: str | None = None
    """Network interface by which workers reach the scheduler; None is that of the host's name."""
    directives: tuple[str, ...] = ()
    """Further options of sbatch, such as `--constraint=milan`."""
    wait_seconds: float = 3600.0
    """Longest wait for the first job to start."""
    folder: Path = Path()
    """Folder that all nodes see, for the workers' logs and the keys of their connections."""


@contextmanager
def connected(address: str, options: SlurmOptions) -> Iterator[Dask]:
    """Connect to a cluster, or start one under Slurm; the jobs of Slurm end with the block.

    Args:
        address: Address of a scheduler, such as `tcp://host:8786`, or `slurm`.

    Yields:
        The pool.

    Raises:
        SweepError: The packages of Dask are missing, the scheduler does not answer, no worker comes, or a worker runs
            another build of Weir.
    """
    try:
        from distributed import Client
    except ImportError as error:
        raise SweepError(f"Dask needs a package: {error}", hint=install_command("simulation")) from error
    # Lost workers and points that travel whole are no news to the user; a sweep that fails says why itself.
    for name in ("distributed", "distributed.client"):
        logging.getLogger(name).setLevel(logging.ERROR)
    warnings.filterwarnings("ignore", message="Sending large graph", category=UserWarning)
    with ExitStack() as ends:
        if address == SLURM:
            client = ends.enter_context(_slurm_client(options))
            wait_seconds = options.wait_seconds
        else:
            try:
                client = ends.enter_context(Client(address, timeout=_CONNECT_SECONDS, set_as_default=False))
            except (OSError, TimeoutError, ValueError) as error:
                raise SweepError(
                    f"no Dask scheduler answers at {address}: {error}", hint="start one with `dask scheduler`"
                ) from error
            wait_seconds = _CONNECT_SECONDS
        _wait_for_workers(client, address, wait_seconds)
        _check_builds(client)
        yield Dask(client)


@contextmanager
def _slurm_client(options: SlurmOptions) -> "Iterator[Client]":
    from distributed import Client

    try:
        from dask_jobqueue import SLURMCluster
    except ImportError as error:
        raise SweepError(f"Dask on Slurm needs a package: {error}", hint=install_command("simulation")) from error
    with SLURMCluster(
        cores=options.cores,
        processes=1,
        memory=options.memory,
        queue=options.partition,
        account=options.account,
        walltime=options.walltime,
        interface=options.interface,
        python=sys.executable,
        log_directory=str(options.folder),
        # Whoever reaches a scheduler can run code as its user, so connections are encrypted and both ends show a key.
        security=True,
        shared_temp_directory=str(options.folder),
        job_extra_directives=list(options.directives),
        scheduler_options={"dashboard_address": None},
    ) as cluster:
        cluster.scale(jobs=options.jobs)
        with Client(cluster, timeout=_CONNECT_SECONDS, set_as_default=False) as client:
            yield client


def _wait_for_workers(client: "Client", address: str, seconds: float) -> None:
    try:
        client.wait_for_workers(1, timeout=seconds)
    except TimeoutError as error:
        hint = (
            "see `squeue` and the logs in the sweep's folder"
            if address == SLURM
            else f"start one with `dask worker {address}`"
        )
        raise SweepError(f"no worker of {address} came within {seconds:.0f} s", hint=hint) from error


def _check_builds(client: "Client") -> None:
    """Refuse workers with another engine: their numbers would differ without a word."""
    from weir.simulation.sweeps.engine import engine_digest

    try:
        builds = client.run(engine_digest)
    except ImportError as error:
        raise SweepError(
            f"a worker has no Weir: {error}", hint="install the same Weir in the workers' environment"
        ) from error
    except OSError as error:
        raise SweepError(
            f"the scheduler does not reach one of its workers: {error}", hint="give the worker its own `host`"
        ) from error
    for worker, build in builds.items():
        if build != engine_digest():
            raise SweepError(
                f"the worker {worker} runs another build of Weir", hint="install the same Weir in its environment"
            )
