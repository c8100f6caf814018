"""`weir plan resources`: the nodes and devices that would serve a job."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from weir.cli.common.job_identity import document
from weir.cli.common.output import output_option, seconds, show, size

if TYPE_CHECKING:
    from weir.provisioning.behaviour.identity import Identity
    from weir.provisioning.jobs.job import Job
    from weir.provisioning.planning.planner import Plan

    IdentityOf = Callable[[Job | None], Identity]
from weir.cli.plan.planned import planned


@click.command(name="resources")
@planned
@output_option
def show_resources(made: "Plan", output: str) -> None:
    """Show the nodes and devices that would serve a job.

    FREE IN is the time until the node is free of other jobs.
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
