"""`weir plan`: the storage that a job needs, from the logs of its past runs."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from weir.cli.errors import warn
from weir.cli.job_identity import NEW_CLASS, document, identities
from weir.cli.listing import Listing
from weir.cli.output import Quantity, output_option, print_table, show, size
from weir.cli.parameters import FILE, PATH
from weir.cli.plan_emit import emit
from weir.cli.plan_factors import factors
from weir.cli.plan_learned import learned
from weir.cli.plan_products import PRODUCTS
from weir.cli.plan_run import plan_run

if TYPE_CHECKING:
    from weir.provisioning.behaviour.identity import Identity


@click.group(cls=Listing)
def plan() -> None:
    """Find the storage that a job needs, from the record of a past run.

    LOG is a Darshan log, the trace of `weir run --trace` (its folder, whose last run counts, or one file of it), a
    folder of Recorder with its text, or the text of `darshan-dxt-parser`. `run` records a program on the way, and
    --history plans a script by what past runs of its program did.
    --job names the job that is to run: a jobspec of Flux, in YAML or JSON, or a batch script of
    Slurm. Each command shows one product of the way from the log to the storage: identity, similar, sslo, resources,
    config, schema. `explain` tells the way in words.
    """


plan.add_command(emit)
plan.add_command(factors)
plan.add_command(learned)
plan.add_command(plan_run)

_logs = click.argument("logs", metavar="LOG...", nargs=-1, required=True, type=PATH)
_job = click.option("--job", "job_file", type=FILE, help="A jobspec or batch script.")


@plan.command(name="identity")
@_logs
@_job
@output_option
def show_identity(logs: tuple[Path, ...], job_file: Path | None, output: str) -> None:
    """Show the I/O identity of a job: its name and the features behind it.

    The name is `[scale]-[operation]-[metadata]-[pattern]-[interface]`.
    """
    found = _identities(logs, job_file)
    if output != "table":
        show(output, [{"log": str(path), **document(identity)} for path, identity in found], (), ())
        return
    print_table(
        (
            "IDENTITY",
            "PROCESSES",
            "READ",
            "WRITTEN",
            "READS",
            "WRITES",
            "METADATA",
            "SMALL",
            "LARGE",
            "SEQUENTIAL",
            "I/O",
        ),
        [
            (
                each.name,
                each.processes,
                size(each.read_bytes),
                size(each.written_bytes),
                each.read_operations,
                each.write_operations,
                each.metadata_operations,
                *(
                    Quantity(f"{part:.0%}")
                    for part in (each.small_fraction, each.large_fraction, each.sequential_fraction, each.io_fraction)
                ),
            )
            for _, each in found
        ],
    )


@plan.command(name="similar")
@_logs
@_job
@click.option("--classes", "most", type=click.IntRange(min=1), default=3, help="Classes to show.")
@click.option(
    "--classes-table",
    metavar="FILE",
    type=FILE,
    help="Classes of `weir classes build`.  [default: those of Argonne's jobs, which come with Weir]",
)
@NEW_CLASS
@output_option
def show_similar(
    logs: tuple[Path, ...],
    job_file: Path | None,
    most: int,
    classes_table: Path | None,
    new_class: float | None,
    output: str,
) -> None:
    """Show the known classes of behaviour that a job is nearest to.

    FITNESS is 1 for a job as in the middle of the class, and 0 for one at the other end in every feature. A job whose
    best fitness is below --new-class is like none of them.
    """
    from weir.provisioning.behaviour.classes import built_in, fitnesses, read_table, with_fitness_min

    table = with_fitness_min(built_in() if classes_table is None else read_table(classes_table), new_class)
    rows: list[Sequence[object]] = []
    documents = []
    for path, identity in _identities(logs, job_file):
        found = fitnesses(identity, table.classes)
        documents.append(
            {
                "log": str(path),
                "identity": identity.name,
                "known": found[0].fitness >= table.new_class_fitness,
                "classes": [document(each) for each in found[:most]],
            }
        )
        rows += [
            (identity.name, each.name, Quantity(f"{each.fitness:.3f}"), ", ".join(each.furthest))
            for each in found[:most]
        ]
        if found[0].fitness < table.new_class_fitness:
            warn(
                f"{path}: {identity.name} is like no known class (best fitness {found[0].fitness:.2f})",
                hint="`weir plan sslo` takes it for a class of its own",
            )
    show(output, documents, ("IDENTITY", "CLASS", "FITNESS", "DIFFERS IN"), rows)


def _identities(logs: Sequence[Path], job_file: Path | None) -> "list[tuple[Path, Identity]]":
    from weir.provisioning.jobs.job import read_job

    return identities(logs, None if job_file is None else read_job(job_file))


for _product in PRODUCTS:
    plan.add_command(_product)
