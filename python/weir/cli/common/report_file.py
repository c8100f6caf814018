"""The file of a report: a page, JSON or text, by the ending of its name."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from weir.cli.common.errors import CommandError
from weir.cli.common.output import json_text
from weir.cli.common.parameters import Checked
from weir.plain_text import plain
from weir.ways import write_whole

if TYPE_CHECKING:
    from weir.report.facts import Facts
    from weir.report.findings import Finding

FORMATS = (".html", ".json", ".txt")
"""Endings of the names of reports."""


def _name(text: str) -> None:
    if Path(text).suffix.lower() not in FORMATS:
        raise ValueError(f"the name of {text} must end with {', '.join(FORMATS[:-1])} or {FORMATS[-1]}")


REPORT = Checked("file", _name)
"""The name of a report's file."""


def write_report(target: Path, facts: "Facts", findings: "Sequence[Finding]") -> None:
    """Write a report into a file, whose ending says in which form.

    Args:
        target: The file: `.html`, `.json`, or text.
        findings: Faults in these facts, most valuable first.

    Raises:
        CommandError: The file cannot be written.
        ReportError: A library for pages is not installed.
    """
    from weir.report.page import page
    from weir.report.words import document, lines_of

    kind = target.suffix.lower()
    if kind == ".json":
        text = json_text(document(facts, findings), indent=2) + "\n"
    elif kind == ".txt":
        text = "".join(f"{plain(line)}\n" for line in lines_of(facts, findings))
    else:
        text = page(facts, findings)
    try:
        write_whole(target, text, mode=None)
    except OSError as error:
        raise CommandError(f"cannot write {target}: {error.strerror}", hint="is its folder there?") from error
