"""The options of a plan and the plan itself, for the commands that show one of its products."""

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from weir.cli.common.amounts import parse_amount
from weir.cli.common.errors import CommandError, say, warn
from weir.cli.common.job_identity import NEW_CLASS, early_reader
from weir.cli.common.known_outcomes import known_outcomes
from weir.cli.common.parameters import FILE, FOLDER, PATH, Checked
from weir.store import values
from weir.store.home import Home

if TYPE_CHECKING:
    from weir.provisioning.behaviour.classes import ClassTable
    from weir.provisioning.behaviour.identity import Identity
    from weir.provisioning.jobs.job import Job
    from weir.provisioning.objectives.sslos import SsloTable
    from weir.provisioning.planning.planner import Plan
    from weir.provisioning.resources.model import Resources

    IdentityOf = Callable[[Job | None], Identity]

_POLICIES = ("cost", "performance", "interference", "utilization")
_SYSTEMS = ("weir", "orangefs", "beeond", "lustre")
LOG = click.argument("log", metavar="[LOG]", required=False, type=PATH)
JOB = click.option("--job", "job_file", type=FILE, help="A jobspec or batch script.")
SSLOS = click.option("--sslos", "sslos_file", type=FILE, help="Objectives that `weir sslo build` made.")
CLASSES = click.option(
    "--classes-table", "classes_file", type=FILE, help="Classes of `weir classes build`.  [default: Argonne's]"
)
DURABLE = click.option(
    "--durable/--no-durable",
    default=None,
    help="Whether bytes must outlive a server's process, in place of the job's `durable`. Stores in memory serve"
    " only jobs whose bytes need not.  [default: durable]",
)
HISTORY = click.option(
    "--history",
    type=FOLDER,
    metavar="FOLDER",
    help="In place of LOG: plan the script of --job by the past runs of its program, from the FOLDER of `weir"
    " classes build`.",
)
PLAN_OPTIONS = (
    JOB,
    CLASSES,
    NEW_CLASS,
    click.option("--resources", "resources_file", type=FILE, help="A resource model, in TOML or JSON."),
    click.option(
        "--local",
        "local_folder",
        type=FOLDER,
        help="Use this machine alone, with targets in FOLDER or in memory.  [default: the folder for temporary files]",
        metavar="FOLDER",
    ),
    click.option(
        "--from-slurm", is_flag=True, help="Ask Slurm for the nodes; with --resources, only for their states."
    ),
    SSLOS,
    click.option("--prices", "prices_file", type=FILE, help="Prices of the administrator, in JSON."),
    click.option("--factors", "factors_file", type=FILE, help="Interference factors of `weir plan factors`."),
    click.option("--policy", type=click.Choice(_POLICIES), help="Policy of sharing, in place of the job's."),
    click.option("--system", type=click.Choice(_SYSTEMS), default="weir", help="Product to deploy."),
    click.option("--device", "devices", multiple=True, help="Class of devices to use, such as nvme; may be repeated."),
    click.option(
        "--size", "size_text", type=Checked("SIZE", values.size), help="Capacity, such as 2TiB, in place of the job's."
    ),
    click.option("--read", "read_rate", callback=parse_amount, help="Least rate of reads, such as 2GB/s."),
    click.option("--write", "write_rate", callback=parse_amount, help="Least rate of writes."),
    DURABLE,
)
"""The options of a plan, whatever it is planned from."""
_OPTIONS = (LOG, HISTORY, *PLAN_OPTIONS)
_NAMES = (
    *(
        "log",
        "history",
        "job_file",
        "resources_file",
        "local_folder",
        "sslos_file",
        "policy",
        "system",
        "devices",
        "size_text",
    ),
    *("read_rate", "write_rate", "from_slurm", "classes_file", "prices_file", "factors_file"),
    "new_class",
    "durable",
)
"""Parameters of `_OPTIONS`."""


def planned(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of a plan, and the plan itself in their place."""

    @functools.wraps(command)
    def run(**options: Any) -> None:
        made = _plan(**{name: options.pop(name) for name in _NAMES})
        command(made, **options)

    for option in reversed(_OPTIONS):
        run = option(run)
    return run


def _plan(*, log: Path | None, history: Path | None, job_file: Path | None, **options: Any) -> "Plan":
    with identity_source(log, history, job_file) as identity_of:
        return _made(identity_of, job_file=job_file, **options)


def read_and_plan(*, log: Path, job_file: Path | None, **options: Any) -> "Plan":
    """Plan from the record of a run.

    Args:
        options: The values of the other `PLAN_OPTIONS`.
    """
    return _plan(log=log, history=None, job_file=job_file, **options)


@contextmanager
def identity_source(log: Path | None, history: Path | None, job_file: Path | None) -> "Iterator[IdentityOf]":
    """The identity of a job by the record of a run, or by the history of its script.

    Raises:
        UsageError: Neither the record nor the history is given, or both are.
    """
    if log is not None and history is None:
        from weir.provisioning.behaviour.identity import identify

        with early_reader(log) as reader:
            yield lambda job: identify(reader.read(log), job)
    elif log is None and history is not None and job_file is not None:
        yield lambda job: _of_history(history, job_file, job)
    else:
        raise click.UsageError("give LOG, the record of a past run, or --job SCRIPT with --history FOLDER")


def _of_history(folder: Path, script: Path, job: "Job | None") -> "Identity":
    from weir.provisioning.behaviour.history import past_of

    assert job is not None
    past = past_of(folder, job, script)
    runs = f"{past.runs} past runs" if past.runs != 1 else "the one past run"
    say(f"{script} is planned by {runs} of {past.program} in {folder}, of which the middle one counts")
    return past.identity


def _made(
    identity_of: "IdentityOf",
    *,
    job_file: Path | None,
    resources_file: Path | None,
    local_folder: Path | None,
    sslos_file: Path | None,
    prices_file: Path | None,
    factors_file: Path | None,
    policy: str | None,
    system: str,
    devices: tuple[str, ...],
    size_text: str | None,
    read_rate: int | None,
    write_rate: int | None,
    from_slurm: bool,
    classes_file: Path | None,
    new_class: float | None,
    durable: bool | None,
) -> "Plan":
    import time

    from weir.provisioning.jobs.job import read_job
    from weir.provisioning.jobs.wishes import of_options
    from weir.provisioning.planning.planner import Planner
    from weir.provisioning.sharing import interference_factors, prices

    if local_folder is not None and (resources_file is not None or from_slurm):
        other = "--resources" if resources_file is not None else "--from-slurm"
        raise CommandError(f"{other} and --local contradict each other", hint="give one of them", exit_code=2)
    job = None if job_file is None else read_job(job_file)
    wishes = of_options(
        str(job_file),
        job.hints if job else {},
        policy=policy,
        size_bytes=None if size_text is None else values.size(size_text),
        system=system,
        devices=devices,
        read_bytes_per_second=read_rate,
        write_bytes_per_second=write_rate,
        durable=durable,
    )
    resources = _resources(resources_file, local_folder, from_slurm=from_slurm)
    sslos, measured = read_sslos(sslos_file)
    planner = Planner(read_classes(classes_file, new_class), sslos, measured.sslos)
    home = click.get_current_context().find_object(Home)
    assert home is not None
    outcomes = known_outcomes(home.root)
    select = planner.selecting(
        outcomes,
        resources,
        now=time.time(),
        price_list=None if prices_file is None else prices.of_file(prices_file),
        factors=None if factors_file is None else interference_factors.of_file(factors_file),
    )
    made = planner.plan(identity_of(job), job, resources, wishes=wishes, select=select, outcomes=outcomes)
    _warn(made)
    return made


def _resources(file: Path | None, folder: Path | None, *, from_slurm: bool) -> "Resources":
    import time
    from tempfile import gettempdir

    from weir.provisioning.resources.local import local_resources
    from weir.provisioning.resources.model import read_resources

    if file is None and not from_slurm:
        return local_resources(folder or Path(gettempdir()))
    if not from_slurm:
        assert file is not None
        return read_resources(file)
    from weir.provisioning.resources.slurm import slurm_resources, with_states

    site = None if file is None else read_resources(file)
    seen = slurm_resources(time.time())
    return seen if site is None else with_states(site, seen)


def read_classes(file: Path | None, new_class: float | None) -> "ClassTable":
    """The classes of a file, or those that come with Weir."""
    from weir.provisioning.behaviour.classes import built_in, read_table, with_fitness_min

    return with_fitness_min(built_in() if file is None else read_table(file), new_class)


def read_sslos(file: Path | None) -> "tuple[SsloTable, SsloTable]":
    """The objectives, and the measurements behind them."""
    from weir.provisioning.objectives import shipped, sslo_tables

    if file is not None:
        table = sslo_tables.read_table(file)
        return table, table
    return shipped.built_in(), sslo_tables.measured()


def _warn(made: "Plan") -> None:
    candidate = made.selected.candidate
    device = candidate.deployment.system.device
    if candidate.basis == "assumed":
        warn(
            f"nothing is known of the rates of class {device}, and usual ones are assumed",
            hint="give the devices' rates in the resource model, or measure them with `weir stress`",
        )
    if candidate.reached < 1:
        warn(f"the storage reaches {candidate.reached:.0%} of the speed that the job should have")
