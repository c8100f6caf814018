"""Figures and tables of the simulator's benchmarks, and their place in docs/design/simulation.md."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from _harness import ROOT

PAGE = ROOT / "docs/design/simulation.md"
PLOTS = ROOT / "docs/design"


@dataclass(frozen=True)
class Part:
    """The outcome of one part."""

    figures: dict[str, float]
    """Figures by name, for the JSON."""
    tables: dict[str, str] = field(default_factory=dict)
    """Tables as Markdown, by the names of their places on the page."""


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table as Markdown; all columns but the first are numbers."""
    lines = [heads, ["---", *["---:"] * (len(heads) - 1)], *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def write_tables(tables: dict[str, str]) -> None:
    """Put tables in their places on the page.

    Raises:
        SystemExit: The page has no place of that name.
    """
    text = PAGE.read_text()
    for name, content in tables.items():
        found = re.search(rf"<!-- table {re.escape(name)} -->\n(.*?)<!-- end of table -->", text, re.DOTALL)
        if found is None:
            raise SystemExit(f"{PAGE} has no place for the table {name}: add <!-- table {name} --> to it")
        text = f"{text[: found.start(1)]}\n{content}\n\n{text[found.end(1) :]}"
    PAGE.write_text(text)
