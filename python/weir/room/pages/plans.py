"""The page *Plans*: deployments that the planner keeps for jobs, the storage that is booked, and what runs brought."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from weir.amounts import Quantity, clock_time, share, size
from weir.distribution import install_command
from weir.errors import WeirError
from weir.room.looks import Look
from weir.room.pages import outcomes
from weir.room.panels import Mark, Page, Panel, Text, table_of
from weir.room.sources import Sources
from weir.room.visitors import HIDDEN, Visitor
from weir.ways import user_name

if TYPE_CHECKING:
    from weir.planner.protocol import Pool, Summary

EXTRA = "planner"
"""Extra with the packages that speak to the planner."""
_ANSWER_SECONDS = 3.0
"""Longest time for which the page waits for the planner."""
_HEADER = (
    "deployment",
    "user",
    "job",
    "state",
    "step",
    "size",
    "nodes",
    "joins",
    "planned again",
    "changed",
    "failure",
)
_TONES = {"failed": "bad", "ended": "odd"}


def page(sources: Sources, look: Look, visitor: Visitor) -> Page:
    """Make the page: deployments there are now, and those that changed in the stretch of time; storage; past runs."""
    brought = outcomes.panel_of(sources, look, visitor)
    try:
        found, pools = _asked()
    except ImportError:
        none = f"the planner is asked by packages that are not installed: `{install_command(EXTRA)}`"
        return Page("Plans", (Panel("deployments", "Deployments", none=none), brought))
    except WeirError as error:
        none = error.line
        return Page("Plans", (Panel("deployments", "Deployments", none=none), brought))
    booked = (pools_panel(pools),) if look.is_live else ()
    return Page("Plans", (deployments_panel(found, look, visitor), *booked, brought))


def pools_panel(pools: "Sequence[Pool]") -> Panel:
    """Show how much of each class of storage is booked."""
    rows: list[tuple[Text, ...]] = [
        (
            each.name,
            size(each.total_bytes),
            size(each.total_bytes - each.free_bytes),
            share((each.total_bytes - each.free_bytes) / each.total_bytes if each.total_bytes else 0.0),
            size(each.granularity_bytes),
        )
        for each in pools
    ]
    header = ("storage", "there is", "booked", "part", "booked in units of")
    return Panel("pools", "Bookings", table=table_of(header, rows), none="the planner has no storage to give")


def deployments_panel(found: "Sequence[Summary]", look: Look, visitor: Visitor) -> Panel:
    """Show deployments.

    Args:
        found: Those of all users that the planner tells of, ended ones as well.
    """
    shown = [
        each
        for each in found
        if look.since <= each.changed * 1000 < look.until or (look.is_live and each.state != "ended")
    ]
    rows = [_row(each, visitor) for each in sorted(shown, key=lambda each: -each.changed)]
    words = (
        "Deployments there are now, and those that ended in the stretch of time; the planner keeps these for a week."
    )
    return Panel("deployments", "Deployments", words, table_of(_HEADER, rows), none="there is no deployment")


def _row(each: "Summary", visitor: Visitor) -> tuple[Text, ...]:
    user = user_name(each.uid)
    sees = visitor.sees(user)
    return (
        each.name if sees else HIDDEN,
        visitor.user_of(user),
        (each.job or "-") if sees else "-",
        Mark(each.state, _TONES.get(each.state, "good")),
        each.step or "-",
        size(each.size_bytes),
        Quantity(str(len(each.nodes))),
        (each.joins or "-") if sees else "-",
        Quantity(str(each.replans)),
        clock_time(each.changed),
        (each.error or "-") if sees else "-",
    )


def _asked() -> "tuple[list[Summary], tuple[Pool, ...]]":
    """Ask the planner for all deployments that this user may see, and for the storage that it gives.

    Raises:
        ImportError: The packages are not installed.
        PlannerError: No planner answers.
    """
    import os

    from weir.planner.client import Client
    from weir.planner.protocol import PoolList, Pools

    with Client(answer_seconds=_ANSWER_SECONDS) as client:
        pools = client.ask(Pools(), PoolList).pools
        return client.deployments(all_users=os.geteuid() == 0, ended=True), pools
