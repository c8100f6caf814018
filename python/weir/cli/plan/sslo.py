"""`weir plan sslo`: the service-level objective that a job needs."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from weir.cli.common.errors import warn
from weir.cli.common.job_identity import NEW_CLASS, document
from weir.cli.common.known_outcomes import known_outcomes
from weir.cli.common.output import Quantity, output_option, seconds, show
from weir.store.home import Home

if TYPE_CHECKING:
    from weir.provisioning.behaviour.classes import ClassTable
    from weir.provisioning.behaviour.identity import Identity
    from weir.provisioning.jobs.job import Job
    from weir.provisioning.planning.mapping import Mapping

    IdentityOf = Callable[[Job | None], Identity]
from weir.cli.plan.planned import CLASSES, DURABLE, HISTORY, JOB, LOG, SSLOS, identity_source, read_classes, read_sslos


def _warn_left_out(mapping: "Mapping") -> None:
    """Tell which objectives a job's semantics left out."""
    from weir.provisioning.planning.explanation import left_out

    if words := left_out(mapping):
        is_volatile = any("outlive" in missing for each in mapping.left_out.values() for missing in each)
        hint = "a job that can lose them says so: --no-durable, or `#WEIR durable=no`" if is_volatile else ""
        warn(words, hint=hint)


@click.command(name="sslo")
@LOG
@HISTORY
@JOB
@CLASSES
@NEW_CLASS
@SSLOS
@DURABLE
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

    The objective with the greatest product of its coverage of a class and the job's fitness to the class is chosen,
    the cheapest of several. The job's own record counts as a class. The second row is the runner-up. Objectives of
    stores in memory serve only jobs with --no-durable, or with `durable=no` among their hints.
    """
    with identity_source(log, history, job_file) as identity_of:
        mapping = _mapped(identity_of, job_file, read_classes(classes_file, new_class), sslos_file, durable)
    if sslos_file is not None:
        _warn_left_out(mapping)
    if mapping.is_default:
        warn(f"no objective fits the job, so {mapping.sslo.name} is used, the table's default")
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
    table, measured = read_sslos(sslos_file)
    home = click.get_current_context().find_object(Home)
    assert home is not None
    if outcomes := known_outcomes(home.root):
        return Planner(classes, table, measured.sslos).map(identity_of(job), wishes, job=job, outcomes=outcomes)
    # Without a run to compare with, no model of performance is needed.
    check_table(table)
    coverages = Coverages(classes.classes, table, new_class_fitness=classes.new_class_fitness)
    return coverages.map(identity_of(job), wishes.semantics)
