"""A plan as a table for notebooks: the chosen storage, and the others that would serve."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from weir.amounts import Quantity, rate_text, seconds, size
from weir.html_table import html_table

if TYPE_CHECKING:
    from weir.provisioning.planning.candidates import Candidate
    from weir.provisioning.planning.planner import Plan

ALTERNATIVES_MAX = 5
"""Most other candidates of a table, the fastest first."""
_HEADER = ("", "device", "servers", "size", "read", "write", "I/O", "free in", "price", "rates by")


def plan_html(plan: "Plan") -> str:
    """Show a plan as HTML. A price is in node-hours."""
    chosen, deployment = plan.selected.candidate, plan.deployment
    place = f"joins {deployment.joins}" if deployment.joins else f"{deployment.system.kind} on {_nodes(chosen)}"
    rows = [_row("chosen", chosen)]
    rows += [_row("", each) for each in plan.alternatives[:ALTERNATIVES_MAX]]
    notes = [f"The job is {plan.identity.name}, and its objective {plan.mapping.sslo.name}."]
    if len(plan.alternatives) > ALTERNATIVES_MAX:
        notes.append(f"{len(plan.alternatives) - ALTERNATIVES_MAX} further candidates are slower.")
    return html_table(f"Plan {deployment.name}: {place}", _HEADER, rows, notes=notes)


def _nodes(candidate: "Candidate") -> str:
    names = [server.node for server in candidate.deployment.servers]
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def _row(mark: str, candidate: "Candidate") -> Sequence[object]:
    deployment = candidate.deployment
    expected = deployment.expected
    rates = (expected.read_bytes_per_second, expected.write_bytes_per_second)
    return (
        *(mark, deployment.system.device, deployment.system.servers, size(deployment.size_bytes)),
        *(None if rate is None else Quantity(rate_text(rate)) for rate in rates),
        *(seconds(candidate.io_seconds), seconds(candidate.wait_seconds)),
        *(Quantity(f"{deployment.price:.4g}"), candidate.basis),
    )
