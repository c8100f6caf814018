"""Figures of simulated runs in the cells of tables, and words about the logs that their work is made of."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from weir.cli.common.errors import warn
from weir.cli.common.output import Quantity, size

if TYPE_CHECKING:
    from weir.simulation.workload import SkippedLog, Workload

_SKIPPED_MAX = 10
"""Logs that are named where some were left out."""

skip_unreadable_option = click.option(
    "--skip-unreadable", is_flag=True, help="Leave out logs that cannot be read or have no I/O, and name them."
)
"""Flag of commands that make their work of logs."""


def tell_remarks(workload: "Workload") -> None:
    """Tell which logs and traces have only a part of their job, and which logs were left out.

    Args:
        workload: The workload that was made of them.
    """
    for note in workload.notes:
        warn(note)
    tell_skipped(workload.skipped)


def skipped_document(logs: "Sequence[SkippedLog]") -> list[dict[str, str]]:
    """Describe the logs that were left out.

    Returns:
        Values for JSON.
    """
    return [{"path": str(log.path), "reason": log.reason} for log in logs]


def tell_skipped(logs: "Sequence[SkippedLog]") -> None:
    """Name the logs that were left out, and count them."""
    for log in logs[:_SKIPPED_MAX]:
        warn(f"left out: {log.reason}")
    if logs:
        more = f", {len(logs) - _SKIPPED_MAX} more than are named here" if len(logs) > _SKIPPED_MAX else ""
        warn(f"{len(logs)} log{'s were' if len(logs) > 1 else ' was'} left out{more}")


def factor(value: float | None) -> Quantity:
    """Write a factor.

    Args:
        value: The factor; None where there is none.

    Returns:
        The factor with two digits behind the point, or a dash.
    """
    return Quantity("-" if value is None else f"{value:.2f}")


def rate(value: float | None) -> Quantity:
    """Write bytes a second.

    Args:
        value: The rate; None where there is none.

    Returns:
        The rate, or a dash.
    """
    return Quantity("-") if value is None else size(value)
