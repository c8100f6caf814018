"""`weir plan schema`: the deployment schema of a job's storage."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from weir.cli.common.job_identity import document
from weir.cli.common.output import Quantity, output_option, show, size

if TYPE_CHECKING:
    from weir.provisioning.behaviour.identity import Identity
    from weir.provisioning.jobs.job import Job
    from weir.provisioning.planning.planner import Plan

    IdentityOf = Callable[[Job | None], Identity]
from weir.cli.plan.planned import planned


@click.command(name="schema")
@planned
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


def _rate(rate: float | None) -> Quantity:
    from weir.amounts import rate_text

    return Quantity("-") if rate is None else Quantity(rate_text(rate))
