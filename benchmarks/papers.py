"""The five papers, row by row: what each has, what Weir has, and what shows it.

make bench-papers                       every row; the last line is one JSON object
.venv/bin/python benchmarks/papers.py [--paper NAME] [--row ID] [--figures-from FILE] [--page]

The tests and commands of each row are run, and figures are taken from the runs of other benchmarks that
`benchmarks/out/measured.jsonl` keeps. Outcomes go to `benchmarks/papers/evidence.json`, and the page to
`docs/papers.md`. A figure that no run measured is null.
"""

import argparse
from collections import Counter
from pathlib import Path

from _harness import MEASURED, announce, finish
from _papers_evidence import collect, take_figures, unused
from _papers_page import PAGE, STATES, page
from _papers_rows import ASKED, PAPERS, every_row, is_to_be_measured, papers, read_evidence, state, write_evidence


def main() -> None:
    """Collect the evidence, write the page, and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--paper", action="append", choices=PAPERS, help="run the evidence of this paper alone")
    parser.add_argument("--row", action="append", metavar="ID", help="run the evidence of this row alone")
    parser.add_argument("--page", action="store_true", help="run nothing; write the page from what is kept")
    parser.add_argument(
        "--figures-from",
        action="append",
        type=Path,
        default=[],
        metavar="FILE",
        help="measured.jsonl of another checkout",
    )
    given = parser.parse_args()
    every, evidence = papers(), read_evidence()
    rows = list(every_row(every))
    unknown = set(given.row or ()) - {row.id for row in rows}
    if unknown:
        parser.error(f"no row is called {', '.join(sorted(unknown))}")
    logs = [*given.figures_from, MEASURED]
    for name in () if given.page else given.paper or PAPERS:
        collect([row for row in every[name].rows if row.id in (given.row or [row.id])], evidence)
        write_evidence(evidence)
    take_figures(rows, evidence, logs)
    unused(evidence, rows)
    write_evidence(evidence)
    PAGE.write_text(page(every, evidence))
    for name, paper in every.items():
        counts = Counter(state(row, evidence) for row in paper.rows)
        words = ", ".join(f"{counts[each]} {each}" for each in STATES[1:])
        announce(
            name, f"{counts['works']} rows work", f"of {len(paper.rows)}; {words}", counts["works"] / len(paper.rows)
        )
    working = sum(state(row, evidence) == "works" for row in rows)
    waiting = sum(is_to_be_measured(row, evidence) for row in rows)
    asked = {name: evidence.figures[name].value if name in evidence.figures else None for name in ASKED}
    finish("papers", {"rows": len(rows), "rows_working": working, "rows_to_be_measured": waiting, **asked})


if __name__ == "__main__":
    main()
