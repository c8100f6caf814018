"""`weir plan similar`: the known classes of behaviour that a job is nearest to."""

from collections.abc import Sequence
from pathlib import Path

import click

from weir.cli.common.errors import warn
from weir.cli.common.job_identity import NEW_CLASS, document
from weir.cli.common.output import Quantity, output_option, show
from weir.cli.common.parameters import FILE
from weir.cli.plan.logs import JOB, LOGS, identities_of


@click.command(name="similar")
@LOGS
@JOB
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

    FITNESS is 1 for a job with the mean features of the class, and 0 for a job at the other end of the scale in every
    feature. A job whose best fitness is below --new-class belongs to none of them.
    """
    from weir.provisioning.behaviour.classes import built_in, fitnesses, read_table, with_fitness_min

    table = with_fitness_min(built_in() if classes_table is None else read_table(classes_table), new_class)
    rows: list[Sequence[object]] = []
    documents = []
    for path, identity in identities_of(logs, job_file):
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
