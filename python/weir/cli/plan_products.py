"""The products of a plan: `weir plan sslo|resources|config|schema|explain`."""

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from weir.cli.amounts import parse_amount
from weir.cli.errors import CommandError, say, warn
from weir.cli.job_identity import NEW_CLASS, document, early_reader
from weir.cli.known_outcomes import known_outcomes
from weir.cli.output import Quantity, output_option, seconds, show, size
from weir.cli.parameters import FILE, FOLDER, PATH, Checked
from weir.store import values
from weir.store.home import Home

if TYPE_CHECKING:
    from weir.provisioning.behaviour.classes import ClassTable
    from weir.provisioning.behaviour.identity import Identity
    from weir.provisioning.jobs.job import Job
    from weir.provisioning.objectives.sslos import SsloTable
    from weir.provisioning.planning.mapping import Mapping
    from weir.provisioning.planning.planner import Plan
    from weir.provisioning.resources.model import Resources

    IdentityOf = Callable[[Job | None], Identity]

_POLICIES = ("cost", "performance", "interference", "utilization")
_SYSTEMS = ("weir", "orangefs", "beeond", "lustre")
_FILE = FILE
_LOG = click.argument("log", metavar="[LOG]", required=False, type=PATH)
_JOB = click.option("--job", "job_file", type=_FILE, help="A jobspec or batch script.")
_SSLOS = click.option("--sslos", "sslos_file", type=_FILE, help="Objectives that `weir sslo build` made.")
_CLASSES = click.option(
    "--classes-table", "classes_file", type=_FILE, help="Classes of `weir classes build`.  [default: Argonne's]"
)
_DURABLE = click.option(
    "--durable/--no-durable",
    default=None,
    help="Whether bytes have to outlive a server's process, in place of the job's `durable`; stores in memory serve"
    " jobs without.  [default: durable]",
)
_HISTORY = click.option(
    "--history",
    type=FOLDER,
    metavar="FOLDER",
    help="In place of LOG: plan the script of --job by the past runs of its program, which FOLDER of `weir classes"
    " build` has.",
)
PLAN_OPTIONS = (
    _JOB,
    _CLASSES,
    NEW_CLASS,
    click.option("--resources", "resources_file", type=_FILE, help="A resource model, in TOML or JSON."),
    click.option(
        "--local",
        "local_folder",
        type=FOLDER,
        help="Use this machine alone, with targets in FOLDER or in memory.  [default: the folder for temporary files]",
        metavar="FOLDER",
    ),
    click.option(
        "--from-slurm", is_flag=True, help="Ask Slurm for the nodes; with --resources, for their states alone."
    ),
    _SSLOS,
    click.option("--prices", "prices_file", type=_FILE, help="Prices of the administrator, in JSON."),
    click.option("--factors", "factors_file", type=_FILE, help="Interference factors of `weir plan factors`."),
    click.option("--policy", type=click.Choice(_POLICIES), help="Pace of sharing, in place of the job's."),
    click.option("--system", type=click.Choice(_SYSTEMS), default="weir", help="Product to deploy."),
    click.option("--device", "devices", multiple=True, help="Class of devices to use, such as nvme; may be repeated."),
    click.option(
        "--size", "size_text", type=Checked("SIZE", values.size), help="Capacity, such as 2TiB, in place of the job's."
    ),
    click.option("--read", "read_rate", callback=parse_amount, help="Least rate of reads, such as 2GB/s."),
    click.option("--write", "write_rate", callback=parse_amount, help="Least rate of writes."),
    _DURABLE,
)
"""The options of a plan, whatever it is planned from."""
_OPTIONS = (_LOG, _HISTORY, *PLAN_OPTIONS)
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


def _planned(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of a plan, and the plan itself in their place."""

    @functools.wraps(command)
    def run(**options: Any) -> None:
        made = _plan(**{name: options.pop(name) for name in _NAMES})
        command(made, **options)

    for option in reversed(_OPTIONS):
        run = option(run)
    return run


def _plan(*, log: Path | None, history: Path | None, job_file: Path | None, **options: Any) -> "Plan":
    with _source(log, history, job_file) as identity_of:
        return _made(identity_of, job_file=job_file, **options)


def read_and_plan(*, log: Path, job_file: Path | None, **options: Any) -> "Plan":
    """Plan from the record of a run.

    Args:
        options: The values of the other `PLAN_OPTIONS`.
    """
    return _plan(log=log, history=None, job_file=job_file, **options)


@contextmanager
def _source(log: Path | None, history: Path | None, job_file: Path | None) -> "Iterator[IdentityOf]":
    """The identity of a job by the record of a run, or by the history of its script."""
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
    say(f"{script} is planned by {runs} of {past.program} in {folder}: by the one in the middle")
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
    sslos, measured = _sslos(sslos_file)
    planner = Planner(_classes(classes_file, new_class), sslos, measured.sslos)
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


def _classes(file: Path | None, new_class: float | None) -> "ClassTable":
    from weir.provisioning.behaviour.classes import built_in, read_table, with_fitness_min

    return with_fitness_min(built_in() if file is None else read_table(file), new_class)


def _sslos(file: Path | None) -> "tuple[SsloTable, SsloTable]":
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


def _warn_left_out(mapping: "Mapping") -> None:
    """Tell which objectives a job's semantics left out."""
    from weir.provisioning.planning.explanation import left_out

    if words := left_out(mapping):
        is_volatile = any("outlive" in missing for each in mapping.left_out.values() for missing in each)
        hint = "a job that can lose them says so: --no-durable, or `#WEIR durable=no`" if is_volatile else ""
        warn(words, hint=hint)


@click.command(name="sslo")
@_LOG
@_HISTORY
@_JOB
@_CLASSES
@NEW_CLASS
@_SSLOS
@_DURABLE
@output_option
def show_sslo(
    log: Path | None,
    history: Path | None,
    job_file: Path | None,
    classes_file: Path | None,
    new_class: float | None,
    sslos_file: Path | None,
    durable: bool | None,
    output: str,
) -> None:
    """Show the service-level objective that a job needs.

    It is the cheapest one of those whose coverage of a class of behaviour, times the job's fitness to the class, is
    greatest; the job's own record counts as a class. The second row is the runner-up.
    Objectives of stores in memory serve jobs with --no-durable, or `durable=no` among their hints, alone.
    """
    with _source(log, history, job_file) as identity_of:
        mapping = _mapped(identity_of, job_file, _classes(classes_file, new_class), sslos_file, durable)
    if sslos_file is not None:
        _warn_left_out(mapping)
    if mapping.is_default:
        warn(f"no objective is near, so {mapping.sslo.name} is used, the table's default")
    rows = [
        (
            "runner-up" if path is mapping.runner_up else "chosen",
            path.sslo,
            *(Quantity(f"{each:.3f}") for each in (path.fitness, path.coverage, path.satisfaction)),
            seconds(path.io_seconds),
            seconds(mapping.allowed_seconds),
            Quantity(f"{path.cost:.3g}"),
            Quantity(f"{path.purpose_part:.0%}"),
        )
        for path in (mapping.best, mapping.runner_up)
        if path is not None
    ]
    header = ("", "SSLO", "FITNESS", "COVERAGE", "SATISFACTION", "I/O", "ALLOWED", "COST", "MEANT FOR")
    show(output, document(mapping), header, rows)


def _mapped(
    identity_of: "IdentityOf",
    job_file: Path | None,
    classes: "ClassTable",
    sslos_file: Path | None,
    durable: bool | None,
) -> "Mapping":
    from weir.provisioning.jobs.job import read_job
    from weir.provisioning.jobs.wishes import of_options
    from weir.provisioning.objectives.sslo_checks import check_table
    from weir.provisioning.planning.mapping import Coverages
    from weir.provisioning.planning.planner import Planner

    job = None if job_file is None else read_job(job_file)
    wishes = of_options(str(job_file), job.hints if job else {}, durable=durable)
    table, measured = _sslos(sslos_file)
    home = click.get_current_context().find_object(Home)
    assert home is not None
    if outcomes := known_outcomes(home.root):
        return Planner(classes, table, measured.sslos).map(identity_of(job), wishes, job=job, outcomes=outcomes)
    # Without a run to compare with, no model of performance is needed.
    check_table(table)
    coverages = Coverages(classes.classes, table, new_class_fitness=classes.new_class_fitness)
    return coverages.map(identity_of(job), wishes.semantics)


@click.command(name="resources")
@_planned
@output_option
def show_resources(made: "Plan", output: str) -> None:
    """Show the nodes and devices that would serve a job.

    FREE IN is the time until no other job holds the node.
    """
    deployment, waits = made.deployment, made.selected.candidate.waits
    if output == "table" and deployment.joins:
        click.echo(f"the job joins {deployment.joins}")
        return
    rows = [
        (
            each.node,
            deployment.system.device,
            ", ".join(each.devices) or "memory",
            size(each.target_bytes),
            seconds(waits[each.node]) if each.node in waits else "now",
        )
        for each in deployment.servers
    ]
    servers = [{**each, "free_in_seconds": waits.get(each["node"], 0.0)} for each in document(deployment)["servers"]]
    show(output, servers, ("NODE", "DEVICE", "PLACES", "EACH", "FREE IN"), rows)


@click.command(name="config")
@_planned
@click.option("--mount", type=Checked("path", values.prefix), help="Mount point on every node.  [default: /mnt/NAME]")
@output_option
def show_config(made: "Plan", mount: str | None, output: str) -> None:
    """Show the configuration files of a job's storage, as `weir plan emit` makes them of a deployment schema."""
    from weir.cli.plan_emit import print_files
    from weir.provisioning.emit.targets import emit

    deployment = made.deployment
    if deployment.joins:
        raise CommandError(
            f"the job joins {deployment.joins}, which is configured already", hint="plan with --policy performance"
        )
    kind = made.wishes.system
    place = f"/etc/beegfs/{deployment.name}"
    files = emit(deployment, kind, mount=mount or f"/mnt/{deployment.name}", folder=place)
    if output == "table":
        print_files(files)
    else:
        show(output, [{"name": file.name, "text": file.text} for file in files], (), ())


@click.command(name="schema")
@_planned
@output_option
def show_schema(made: "Plan", output: str) -> None:
    """Show the deployment schema of a job's storage; --output json prints the document itself."""
    deployment = made.deployment
    system, rates = deployment.system, deployment.expected
    row = (
        deployment.name,
        deployment.joins or system.kind,
        system.device,
        system.servers,
        system.targets_per_server,
        size(deployment.size_bytes),
        *(_rate(each) for each in (rates.read_bytes_per_second, rates.write_bytes_per_second)),
        Quantity(f"{deployment.price:.4g}"),
    )
    header = ("NAME", "STORE", "DEVICE", "SERVERS", "TARGETS", "SIZE", "READ", "WRITE", "PRICE")
    show(output, document(deployment), header, [row])


@click.command(name="explain")
@_planned
@output_option
def explain(made: "Plan", output: str) -> None:
    """Tell the way from a job to its storage in words.

    --output json prints the whole plan, with all candidates.
    """
    print_explanation(made, output)


def print_explanation(made: "Plan", output: str) -> None:
    """Print the way from a job to its storage.

    Args:
        output: `table` for words, else the form of the document.
    """
    from weir.plain_text import plain
    from weir.provisioning.planning.explanation import explanation

    if output != "table":
        show(output, document(made), (), ())
        return
    for line in explanation(made):
        print(plain(line))


def _rate(rate: float | None) -> Quantity:
    from weir.amounts import rate_text

    return Quantity("-") if rate is None else Quantity(rate_text(rate))


PRODUCTS = (show_sslo, show_resources, show_config, show_schema, explain)
