"""The findings of `weir health`, at the top of the page *Store*."""

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from weir.room.panels import Mark, Panel, Text, table_of

if TYPE_CHECKING:
    from weir.health.codes import Finding

_HEADER = ("level", "what", "cause", "since", "at risk", "what mends it")
_TONES = {"error": "bad", "warning": "odd", "notice": "good"}


def panel_of(findings: "Sequence[Finding]") -> Panel:
    """Show findings, the gravest first as they are given."""
    rows: list[tuple[Text, ...]] = [
        (
            Mark(each.level, _TONES[each.level]),
            each.object,
            f"{each.cause} [{each.code}]",
            "-" if each.since is None else datetime.fromtimestamp(each.since).strftime("%Y-%m-%d %H:%M:%S"),
            each.risk,
            each.mend,
        )
        for each in findings
    ]
    return Panel("findings", "Findings", table=table_of(_HEADER, rows), none="nothing is wrong")
