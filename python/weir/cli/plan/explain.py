"""`weir plan explain`: the way from a job to its storage, in words."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from weir.cli.common.job_identity import document
from weir.cli.common.output import output_option, show

if TYPE_CHECKING:
    from weir.provisioning.behaviour.identity import Identity
    from weir.provisioning.jobs.job import Job
    from weir.provisioning.planning.planner import Plan

    IdentityOf = Callable[[Job | None], Identity]
from weir.cli.plan.planned import planned


@click.command(name="explain")
@planned
@output_option
def explain(made: "Plan", output: str) -> None:
    """Explain in words how a job leads to its storage.

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
