"""Findings about a store, as commands tell of them."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from weir.amounts import clock_time
from weir.cli.common.errors import warn

if TYPE_CHECKING:
    from weir.health.codes import Finding


def warn_of(findings: "Sequence[Finding]") -> bool:
    """Warn of errors and warnings, each with its code, its risk, and the command that mends it.

    Returns:
        Whether there are errors.
    """
    for each in findings:
        if each.level != "notice":
            words = each.cause if each.cause.startswith(each.object) else f"{each.object}: {each.cause}"
            warn(f"{words} [{each.code}]", hint=f"{each.risk}; `{each.mend}`")
    return any(each.level == "error" for each in findings)


def since_words(moment: float | None) -> str:
    """Write the beginning of a finding as people read it; a dash where it is not known."""
    return "-" if moment is None else clock_time(moment)
