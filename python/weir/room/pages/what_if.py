"""The page *What if*: a stretch of the past under another policy."""

from typing import Any

from weir.amounts import Quantity, seconds, share, size
from weir.history.counterfactual import Had, JobReplay, replay
from weir.room.errors import RoomError
from weir.room.looks import Look
from weir.room.pages.jobs import link_of
from weir.room.panels import Field, Form, Mark, Page, Panel, Text, table_of
from weir.room.sources import Sources
from weir.room.visitors import Visitor
from weir.store import values

POLICIES = ("fifo", "job-fair", "user-fair", "size-fair", "priority-fair", "group-user-fair", "user-then-job-fair")
"""Policies that the page offers; the address takes any other one as `policy`."""
_HEADER = ("job", "user", "nodes", "had a second", "would", "change", "share", "would", "ended", "would end", "error")


def page(sources: Sources, look: Look, visitor: Visitor, policy: str, configuration: dict[str, Any]) -> Page:
    """Make the page.

    Args:
        policy: The policy in question; empty replays nothing yet.
        configuration: Document of the store's cluster.toml, for the shares that it grants.

    Raises:
        RoomError: There is no such policy, or no history.
        HistoryError: Nothing is known of that time, or the replay would be too large.
    """
    if not policy:
        none = "choose a policy and a stretch of time; the simulator then does the recorded work again"
        return Page("What if", (Panel("replay", "Replay", none=none),))
    try:
        values.policy(policy)
    except ValueError as error:
        raise RoomError(str(error)) from error
    with sources.history() as history:
        if history is None:
            raise RoomError("there is no history yet", hint="`weir record` keeps one, and so does a running room")
        result = replay(history, look.since, look.until, policy, configuration=configuration)
    words = f"In force then: {', '.join(result.policies) or 'not known'}. In question: {result.policy}."
    if result.error_max is None:
        trust = Mark("the policy changed in that time, so no error of the replay can be told", "odd")
    else:
        trust = Mark(f"replayed under the policy of then, no job is off by more than {result.error_max:.1%}", "good")
    notes = [trust]
    if result.gaps:
        notes.append(Mark(f"{len(result.gaps)} gaps in that time are not known", "odd"))
    rows = [_row(job, result.seconds, visitor, look) for job in result.jobs]
    form = Form("policy", f"Change the store to {policy}", (Field("policy", value=policy),))
    panel = Panel("replay", "Replay", words, table_of(_HEADER, rows), forms=(form,))
    return Page("What if", (panel,), (), tuple(notes))


def _row(job: JobReplay, stretch_seconds: float, visitor: Visitor, look: Look) -> tuple[Text, ...]:
    had, would = job.had.bytes_per_second(stretch_seconds), job.would_have.bytes_per_second(stretch_seconds)
    return (
        link_of(job.job, job.user, visitor, look),
        visitor.user_of(job.user),
        Quantity(str(job.nodes)),
        size(had),
        size(would),
        Quantity(f"x{would / had:.2f}" if had else "-"),
        share(job.had.share),
        share(job.would_have.share),
        _end(job.had),
        _end(job.would_have),
        Quantity("-" if job.replayed is None else f"{job.had.distance(job.replayed):.1%}"),
    )


def _end(had: Had) -> Quantity:
    return Quantity("-") if had.ended_seconds is None else seconds(had.ended_seconds)
