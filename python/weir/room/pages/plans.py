"""The page *Plans*: the deployments that the planner keeps for jobs, and what became of them."""

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from weir.amounts import Quantity, size
from weir.distribution import install_command
from weir.errors import WeirError
from weir.room.looks import Look
from weir.room.panels import Mark, Page, Panel, Text, table_of
from weir.room.sources import Sources
from weir.room.visitors import HIDDEN, Visitor
from weir.ways import user_name

if TYPE_CHECKING:
    from weir.planner.protocol import Summary

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
    """Make the page: deployments there are now, and those that changed in the stretch of time."""
    try:
        found = _deployments()
    except ImportError:
        none = f"the planner is asked by packages that are not installed: `{install_command(EXTRA)}`"
        return Page("Plans", (Panel("deployments", "Deployments", none=none),))
    except WeirError as error:
        none = f"{error.message}; {error.hint}" if error.hint else error.message
        return Page("Plans", (Panel("deployments", "Deployments", none=none),))
    return Page("Plans", (deployments_panel(found, look, visitor),))


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
        datetime.fromtimestamp(each.changed).strftime("%Y-%m-%d %H:%M:%S"),
        (each.error or "-") if sees else "-",
    )


def _deployments() -> "list[Summary]":
    """Ask the planner for all deployments that this user may see.

    Raises:
        ImportError: The packages are not installed.
        PlannerError: No planner answers.
    """
    import os

    from weir.planner.client import Client
    from weir.planner.protocol import List, Listed

    found: list[Summary] = []
    with Client(answer_seconds=_ANSWER_SECONDS) as client:
        after = ""
        while True:
            request = List(all_users=os.geteuid() == 0, ended=True, after=after)
            answer = client.ask(request, Listed)
            found += answer.deployments
            after = answer.next
            if not after:
                return found
