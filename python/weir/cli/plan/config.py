"""`weir plan config`: the configuration files of a job's storage."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from weir.cli.common.errors import CommandError
from weir.cli.common.output import output_option, show
from weir.cli.common.parameters import Checked
from weir.store import values

if TYPE_CHECKING:
    from weir.provisioning.behaviour.identity import Identity
    from weir.provisioning.jobs.job import Job
    from weir.provisioning.planning.planner import Plan

    IdentityOf = Callable[[Job | None], Identity]
from weir.cli.plan.planned import planned


@click.command(name="config")
@planned
@click.option("--mount", type=Checked("path", values.prefix), help="Mount point on every node.  [default: /mnt/NAME]")
@output_option
def show_config(made: "Plan", mount: str | None, output: str) -> None:
    """Show the configuration files of a job's storage, as `weir plan emit` makes them of a deployment schema."""
    from weir.cli.plan.emit import print_files
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
