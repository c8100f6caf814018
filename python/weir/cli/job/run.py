"""`weir job run`: the command of a jobspec on storage of its own."""

import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from weir.cli.common.amounts import parse_amount
from weir.cli.common.errors import CommandError, say
from weir.cli.common.job_identity import identities
from weir.cli.common.known_outcomes import known_outcomes
from weir.cli.common.parameters import FILE, FOLDER, PATH, Checked
from weir.store.home import Home

if TYPE_CHECKING:
    from weir.provisioning.behaviour.identity import Identity
    from weir.provisioning.deployments import Deployment, Server, Transfer
    from weir.provisioning.jobs.job import Job
    from weir.provisioning.jobs.wishes import Wishes
    from weir.provisioning.planning.planner import Planner
    from weir.provisioning.resources.model import Resources
from weir.cli.job.folders import NAME, Telling, finished

_POLICIES = ("cost", "performance", "interference", "utilization")


def _read_pair(text: str) -> None:
    source, colon, destination = text.rpartition(":")
    if not colon or not source or not destination:
        raise ValueError(f"{text!r} is not two paths with a colon between them")


_PAIR = Checked("paths", _read_pair)


@click.command(name="run")
@click.argument("jobspec", type=FILE)
@click.option("--trace", "log", type=PATH, metavar="LOG", help="Log or trace of a past run.")
@click.option("--schema", "schema_file", type=FILE, help="A deployment schema, in place of a plan.")
@click.option("--resources", "resources_file", type=FILE, help="A resource model; its servers run on this machine.")
@click.option("--sslos", "sslos_file", type=FILE, help="Objectives that `weir sslo build` made.")
@click.option(
    "--local",
    "local_folder",
    type=FOLDER,
    metavar="FOLDER",
    help="Folder for targets.  [default: the folder for temporary files]",
)
@click.option("--policy", type=click.Choice(_POLICIES), help="Policy of sharing, in place of the job's.")
@click.option("--device", "devices", multiple=True, help="Class of devices to use, such as nvme; may be repeated.")
@click.option("--size", "size_bytes", callback=parse_amount, help="Capacity, in place of the job's.")
@click.option(
    "--stage-in",
    "into",
    metavar="SOURCE:PLACE",
    type=_PAIR,
    multiple=True,
    help=("Copy SOURCE into the store before the run."),
)
@click.option(
    "--stage-out",
    "out",
    metavar="PLACE:DESTINATION",
    type=_PAIR,
    multiple=True,
    help=("Copy SOURCE out of the store after the run."),
)
@click.option("--name", type=NAME, help="Name of the job.  [default: the file's, and a number]")
@click.option(
    "--replans",
    type=click.IntRange(0, 100),
    default=3,
    help=("Number of further plans to try if one cannot be started."),
)
@click.pass_obj
def run(
    home: Home,
    jobspec: Path,
    log: Path | None,
    schema_file: Path | None,
    resources_file: Path | None,
    sslos_file: Path | None,
    local_folder: Path | None,
    policy: str | None,
    devices: tuple[str, ...],
    size_bytes: int | None,
    into: tuple[str, ...],
    out: tuple[str, ...],
    name: str | None,
    replans: int,
) -> int:
    """Run the command of JOBSPEC on storage of its own; the exit code is the command's.

    JOBSPEC is a jobspec of Flux, or a batch script. Its command finds the store at $WEIR_MOUNT, or below $WEIR_PREFIX
    if nothing can be mounted; the command reads nothing from the terminal. The storage is planned from the Darshan
    log or the trace of a past run (--trace, `trace=` of the job), from its size alone (--size, `size=`), or is that
    of --schema. The storage that each run received is measured, and later plans learn from it: see `weir plan
    learned`.
    """
    from weir.provisioning.jobs.job import read_job
    from weir.provisioning.jobs.wishes import of_options
    from weir.provisioning.lifecycle.execution import begin, go_on, jobs_folder
    from weir.provisioning.lifecycle.interruption import Interruption
    from weir.provisioning.outcomes.outcome import Question, job_key

    if log is not None and schema_file is not None:
        raise click.UsageError("give either --trace, with the record of a past run, or --schema")
    asked = read_job(jobspec)
    command = _command(jobspec, asked)
    transfers = (_transfers(into, "--stage-in"), _transfers(out, "--stage-out"))
    root = jobs_folder(home.root)
    questions: list[Question] = []

    def plan(bad: "Sequence[Server]") -> "Deployment":
        if schema_file is not None:
            made = _read(schema_file)
        else:
            resources = _without(_resources(resources_file, local_folder), bad)
            wishes = of_options(str(jobspec), asked.hints, policy=policy, size_bytes=size_bytes, devices=devices)
            identity = _identity(log or (Path(trace) if (trace := wishes.directives.trace) else None), asked, wishes)
            known, planner = known_outcomes(home.root), _planner(sslos_file)
            select = planner.selecting(known, resources, now=time.time())
            made = planner.plan(identity, asked, resources, wishes=wishes, select=select, outcomes=known).deployment
            questions[:] = [Question(job=job_key(asked), identity=identity)]
        made = _named(made, name or _free_name(root, jobspec.stem), transfers)
        say(_described(made))
        return made

    with Interruption(say) as interruption, Telling() as tellers:
        # A file is the same however often it is read.
        attempts = replans if schema_file is None else 0
        folder = begin(
            root,
            plan,
            command,
            tellers,
            interruption,
            replans=attempts,
            question=lambda: next(iter(questions), None),
        )
        return finished(folder, tellers, interruption, go_on)


def _command(path: Path, asked: "Job") -> tuple[str, ...]:
    """The job's command; a batch script is run as a whole, by its interpreter."""
    import shlex

    with path.open("rb") as file:
        first = file.readline(4096)
    if first.startswith(b"#!"):
        return (*shlex.split(os.fsdecode(first[2:]).strip()), str(path.absolute()))
    if not asked.command:
        raise CommandError(f"{path} names no command", hint="`tasks` of a jobspec has the command")
    return asked.command


def _transfers(spelled: Sequence[str], option: str) -> "tuple[Transfer, ...]":
    from weir.provisioning.deployments import Transfer

    found = []
    for text in spelled:
        source, _, destination = text.rpartition(":")
        outside, inside = (source, destination) if option == "--stage-in" else (destination, source)
        outside = str(Path(outside).absolute())
        pair = (outside, inside) if option == "--stage-in" else (inside, outside)
        found.append(Transfer(source=pair[0], destination=pair[1]))
    return tuple(found)


def _read(path: Path) -> "Deployment":
    from weir.provisioning.schema_file import read_schema

    return read_schema(path)


def _planner(sslos_file: Path | None) -> "Planner":
    from weir.provisioning.behaviour import classes
    from weir.provisioning.objectives import shipped, sslo_tables
    from weir.provisioning.planning.planner import Planner

    if sslos_file is not None:
        table = sslo_tables.read_table(sslos_file)
        return Planner(classes.built_in(), table, table.sslos)
    return Planner(classes.built_in(), shipped.built_in(), sslo_tables.measured().sslos)


def _identity(log: Path | None, asked: "Job", wishes: "Wishes") -> "Identity":
    """The behaviour of a job in the log of a past run; without one, what its size alone lets assume."""
    from weir.provisioning.behaviour.identity import assumed

    if log is not None:
        ((_, identity),) = identities([log], asked)
        return identity
    if wishes.directives.size_bytes is None:
        raise CommandError(
            "nothing is known of this job",
            hint="give --size, `#WEIR size=200GB`, --trace with the record of a past run, or --schema",
            exit_code=2,
        )
    return assumed(wishes.directives.size_bytes, asked)


def _described(plan: "Deployment") -> str:
    """A plan, in a line."""
    from weir.amounts import size_text

    count = plan.system.servers
    nodes = ", ".join(dict.fromkeys(server.node for server in plan.servers))
    place = (
        f"joins {plan.joins}"
        if plan.joins
        else f"{count} server{'s' * (count != 1)} of {plan.system.device} on {nodes}"
    )
    return f"{plan.name}: {size_text(plan.size_bytes)}, {place}, policy {plan.policy}"


def _resources(file: Path | None, folder: Path | None) -> "Resources":
    from tempfile import gettempdir

    from weir.provisioning.resources.local import local_resources
    from weir.provisioning.resources.model import read_resources

    if file is not None and folder is not None:
        raise click.UsageError("--resources and --local contradict each other")
    return read_resources(file) if file is not None else local_resources(folder or Path(gettempdir()))


def _without(resources: "Resources", bad: "Sequence[Server]") -> "Resources":
    """The resources without the devices of servers that could not be started."""
    import msgspec

    taken = {(server.node, device) for server in bad for device in server.devices or ("",)}
    nodes = tuple(
        msgspec.structs.replace(
            node, devices=tuple(device for device in node.devices if (node.name, device.path) not in taken)
        )
        for node in resources.nodes
    )
    return msgspec.structs.replace(resources, nodes=nodes)


def _named(
    made: "Deployment", name: str, transfers: "tuple[tuple[Transfer, ...], tuple[Transfer, ...]]"
) -> "Deployment":
    import msgspec

    into, out = transfers
    return msgspec.structs.replace(made, name=name, stage_in=(*made.stage_in, *into), stage_out=(*made.stage_out, *out))


def _free_name(root: Path, stem: str) -> str:
    """A name that no job has, made of the file's."""
    import re

    word = re.sub(r"[^A-Za-z0-9]+", "-", stem).strip("-")[:40] or "job"
    number = 1
    while (root / f"{word}-{number}").exists():
        number += 1
    return f"{word}-{number}"
