"""The page *Interference*: predicted slowdowns, who causes them, what the guard did, and what was decided."""

from typing import Any

from weir.amounts import Quantity, clock_time, seconds, share
from weir.guard.errors import GuardError
from weir.guard.journal import FOLDER, Journal
from weir.history.samples import FINDING
from weir.room.looks import Look
from weir.room.pages.jobs import link_of
from weir.room.panels import Mark, Page, Panel, Text, table_of
from weir.room.sources import Sources
from weir.room.visitors import Visitor
from weir.store.predictions import JobPrediction, likely_slowdown

_SLOWED = 2.0
"""Slowdown from which a job stands out."""


def page(sources: Sources, look: Look, visitor: Visitor) -> Page:
    """Make the page: predictions where it is live, and decisions in the stretch of time."""
    panels = [_predictions(sources, look, visitor)] if look.is_live else []
    return Page("Interference", (*panels, _guard(sources, look, visitor), _decisions(sources, look, visitor)))


def _predictions(sources: Sources, look: Look, visitor: Visitor) -> Panel:
    found = sources.predictions()
    rows = [] if found is None else [_row(job, visitor, look) for job in found.jobs]
    header = ("job", "user", "slowdown now", "next", "probability", "basis", "driven by", "waited", "responsible")
    none = (
        "nobody predicts: `weir interference serve` does"
        if found is None
        else "no job did anything in the last window that was predicted"
    )
    return Panel("predictions", "Predicted slowdowns", table=table_of(header, rows), none=none)


def _row(job: JobPrediction, visitor: Visitor, look: Look) -> tuple[Text, ...]:
    now = next((each for each in job.horizons if each.ahead == 0), None)
    ahead = next((each for each in job.horizons if each.ahead == 1), None)
    is_slowed = (likely_slowdown(job.horizons) or 1.0) >= _SLOWED
    culprit = next(iter(job.responsible), None)
    return (
        link_of(job.job, job.user, visitor, look),
        visitor.user_of(job.user),
        "-" if now is None else Mark(now.slowdown, "bad" if is_slowed else "good"),
        "-" if ahead is None else ahead.slowdown,
        Quantity("-") if now is None else share(now.probability),
        job.basis,
        ", ".join(f"{each.feature} at {each.server}" if each.server else each.feature for each in job.driven_by) or "-",
        seconds(job.waited_seconds),
        "-" if culprit is None else link_of(culprit.job, culprit.user, visitor, look),
    )


def _guard(sources: Sources, look: Look, visitor: Visitor) -> Panel:
    header = ("at", "did", "action", "for", "against", "slowdown before", "after", "reason")
    none = "the guard did nothing in this time: `weir guard` protects jobs that stay slowed"
    try:
        lines = Journal(sources.home.root / FOLDER).lines()
    except GuardError as error:
        return Panel("guard", "What the guard did", none=error.line)
    timed = (line for line in lines if isinstance(line["time"], float))
    shown = [line for line in timed if look.since <= line["time"] * 1000 < look.until]
    rows = [_done(line, visitor) for line in reversed(shown)]
    return Panel("guard", "What the guard did", table=table_of(header, rows), none=none)


def _done(line: dict[str, Any], visitor: Visitor) -> tuple[Text, ...]:
    would = "would have " if line["is_dry_run"] and line["kind"] else ""
    value, culprit = line["value"], line["culprit"]
    is_named = visitor.sees_all
    figures = (line["slowdown_before"], line["slowdown_after"])
    return (
        clock_time(line["time"]),
        f"{would}{line['did']}",
        "-" if line["kind"] is None else f"{line['kind']} {value if isinstance(value, str) else f'{value:.2f}'}",
        visitor.name_of(line["victim"], line["victim_user"]),
        "-" if culprit is None else visitor.name_of(culprit, line["culprit_user"]),
        *(Quantity("-" if figure is None else f"{figure:.2f}") for figure in figures),
        # A reason may name jobs.
        line["reason"] if is_named else "-",
    )


def _decisions(sources: Sources, look: Look, visitor: Visitor) -> Panel:
    with sources.history() as history:
        found = [] if history is None else history.decisions(look.since, look.until)
    rows = [
        (
            clock_time(change.at / 1000),
            "all" if change.server is None else str(change.server),
            change.subject,
            "hidden" if change.subject == "lease" and not visitor.sees_all else change.value or "none",
        )
        for change in reversed(found)
        if not change.subject.startswith(FINDING)
    ]
    words = "Policies, leases of the guard, states of servers and targets, as they were first seen."
    header = ("at", "server", "what", "since then")
    none = "nothing was decided in this time, or nothing is recorded of it"
    return Panel("decisions", "Decisions", words, table_of(header, rows), none=none)
