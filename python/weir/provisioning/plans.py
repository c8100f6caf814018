"""A plan of a job's storage in one call, as `weir plan explain` makes it, without outcomes of earlier runs."""

import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from tempfile import gettempdir
from typing import TYPE_CHECKING

from weir.store.values import size as size_of

if TYPE_CHECKING:
    from weir.provisioning.planning.planner import Plan
    from weir.provisioning.resources.model import Resources


def plan(
    log: str | Path,
    *,
    job: str | Path | None = None,
    resources: "Resources | str | Path | None" = None,
    policy: str | None = None,
    devices: Sequence[str] = (),
    size: str | None = None,
    durable: bool | None = None,
) -> "Plan":
    """Plan the storage that a job needs.

    Args:
        log: Record of a past run: a Darshan log, a trace or a folder of traces of `weir run --trace`, a folder of
            Recorder with its text, or the text of `darshan-dxt-parser`.
        job: Batch script of Slurm or jobspec of Flux of the job; None knows the log alone.
        resources: The site's nodes and devices, or a file with them in TOML or JSON; None is this machine alone, with
            targets in its folder for temporary files.
        policy: `cost`, `performance`, `interference` or `utilization`; None is the job's own policy, else `cost`.
        devices: Classes of devices to use, such as `nvme`; empty for all.
        size: Capacity, such as `2TiB`; None is the job's own, else follows from the log.
        durable: Whether bytes have to outlive a server's process; None is what the job says, else they have to.

    Returns:
        The plan, which a notebook shows as a table.

    Raises:
        ProvisioningError: No deployment can serve the job, or a file cannot be used.
        DarshanError: The log cannot be read.
        TraceError: The traces cannot be read.
        ValueError: `size` is not an amount.
    """
    from weir.provisioning.behaviour.classes import built_in
    from weir.provisioning.behaviour.identity import identify
    from weir.provisioning.behaviour.recorded import RunReader
    from weir.provisioning.jobs.job import read_job
    from weir.provisioning.jobs.wishes import of_options
    from weir.provisioning.objectives import shipped, sslo_tables
    from weir.provisioning.planning.planner import Planner

    wanted = None if job is None else read_job(Path(job))
    wishes = of_options(
        str(job or "the call"),
        wanted.hints if wanted else {},
        policy=policy,
        size_bytes=None if size is None else size_of(size),
        devices=devices,
        durable=durable,
    )
    reader = RunReader(note=lambda words: warnings.warn(words, stacklevel=2))
    try:
        identity = identify(reader.read(Path(log)), wanted)
    finally:
        reader.end()
    planner = Planner(built_in(), shipped.built_in(), sslo_tables.measured().sslos)
    site = _resources(resources)
    select = planner.selecting((), site, now=time.time())
    return planner.plan(identity, wanted, site, wishes=wishes, select=select)


def _resources(given: "Resources | str | Path | None") -> "Resources":
    from weir.provisioning.resources.local import local_resources
    from weir.provisioning.resources.model import read_resources

    if given is None:
        return local_resources(Path(gettempdir()))
    return read_resources(Path(given)) if isinstance(given, str | Path) else given
