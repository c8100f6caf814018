"""The findings of `weir health`, at the top of the page *Store*."""

from collections.abc import Sequence

from weir.amounts import clock_time
from weir.health.codes import CODES, Finding
from weir.history.judgements import found_at
from weir.room.looks import Look
from weir.room.panels import Mark, Panel, Text, table_of
from weir.room.sources import Sources
from weir.room.visitors import Visitor

_HEADER = ("level", "what", "cause", "since", "at risk", "what mends it")
_TONES = {"error": "bad", "warning": "odd", "notice": "good"}


def panel_of(findings: Sequence[Finding], visitor: Visitor, problem: str = "") -> Panel:
    """Show findings, the gravest first as they are given; of those about other users a visitor may see the kind.

    Args:
        problem: The reason why nothing is known; empty where something is.
    """
    rows = [_row(each, is_named=visitor.sees_all or not CODES[each.code].names_users) for each in findings]
    none = problem or "nothing is wrong"
    return Panel("findings", "Findings", table=table_of(_HEADER, rows), none=none)


def past_panel_of(sources: Sources, look: Look, visitor: Visitor) -> Panel:
    """Show what was wrong at a moment of the past."""
    with sources.history() as history:
        found = [] if history is None else found_at(history, look.until)
    rows: list[tuple[Text, ...]] = []
    for each in found:
        is_named = visitor.sees_all or not CODES[each.code].names_users
        cause = f"{each.cause if is_named else CODES[each.code].meaning} [{each.code}]"
        rows.append((Mark(each.level, _TONES[each.level]), each.object if is_named else "-", cause))
    header = ("level", "what", "cause as it was first found")
    none = "nothing was wrong, or nobody recorded"
    return Panel("findings", "Findings then", table=table_of(header, rows), none=none)


def _row(finding: Finding, *, is_named: bool) -> tuple[Text, ...]:
    cause = finding.cause if is_named else CODES[finding.code].meaning
    return (
        Mark(finding.level, _TONES[finding.level]),
        finding.object if is_named else "-",
        f"{cause} [{finding.code}]",
        "-" if finding.since is None else clock_time(finding.since),
        finding.risk,
        finding.mend if is_named else "-",
    )
