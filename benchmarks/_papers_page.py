"""The page `docs/papers.md`, from the rows of the papers and their evidence."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from _harness import ROOT
from _papers_rows import (
    Command,
    Evidence,
    Figure,
    Measured,
    Paper,
    Row,
    State,
    every_row,
    is_to_be_measured,
    state,
    within,
)

PAGE = ROOT / "docs/papers.md"
STATES: tuple[State, ...] = ("works", "part", "missing")
_INTRODUCTION = """\
# The papers, row by row

Weir builds on five papers. Each row below is a feature, figure or table of one of them, with ours beside it.
`make bench-papers` writes this page: it runs the tests and commands of each row, and takes the figures that the other
benchmarks measured, with their date and commit. The rows are in `benchmarks/papers`.

| state | meaning |
|---|---|
| works | each test and command of the row passed, no figure misses its bound, and no gap is known |
| part | something of it is there and shown; the row says what is not, or which benchmark has still to measure it |
| missing | nothing of it is there |

A paper's figures were measured on other machines, so ratios can be compared and rates cannot. A figure in bold misses
its bound.
"""


def page(papers: Mapping[str, Paper], evidence: Evidence) -> str:
    """The whole page."""
    parts = [_INTRODUCTION, _summary(papers, evidence), _open(papers, evidence)]
    parts += [_section(paper, evidence) for paper in papers.values()]
    return "\n".join(parts)


def _summary(papers: Mapping[str, Paper], evidence: Evidence) -> str:
    rows = [
        (f"[{paper.name}](#{name})", *_counts(paper.rows, evidence), paper.source) for name, paper in papers.items()
    ]
    rows.append(("all", *_counts(list(every_row(papers)), evidence), ""))
    return _table(("paper", "rows", *STATES, "of the parts, to be measured", "source"), rows)


def _counts(rows: Sequence[Row], evidence: Evidence) -> Iterable[str]:
    """All rows, those of each state, and those that wait for a measurement."""
    counts = Counter(state(row, evidence) for row in rows)
    waiting = sum(is_to_be_measured(row, evidence) for row in rows)
    return (str(count) for count in (len(rows), *(counts[each] for each in STATES), waiting))


def _open(papers: Mapping[str, Paper], evidence: Evidence) -> str:
    """The rows that do not work: those that lack something, and those that only wait for a measurement."""
    lacking, waiting = [], []
    for paper in papers.values():
        for row in paper.rows:
            if is_to_be_measured(row, evidence):
                waiting.append((paper.name, row.where, ", ".join(f"`{figure.key}`" for figure in row.figures)))
            elif state(row, evidence) != "works":
                lacking.append((paper.name, row.where, state(row, evidence), missing(row, evidence)))
    return (
        "## What is not there\n\n"
        + _table(("paper", "where", "state", "what is not there"), lacking)
        + "\n## What is still to be measured\n\n"
        + "Benchmarks measure these figures, and no run of them is on record here.\n\n"
        + _table(("paper", "where", "figures"), waiting)
    )


def missing(row: Row, evidence: Evidence) -> str:
    """The reasons that keep a row from working, in words."""
    words = list(row.gaps)
    is_shown = all(
        found is not None and found.value == 1
        for found in (
            *(evidence.tests.get(name) for name in row.tests),
            *(evidence.commands.get(command.run) for command in row.commands),
        )
    )
    if not is_shown:
        words.append(row.lacks or "evidence failed in the last run")
    for figure in row.figures:
        found = evidence.figures.get(figure.key)
        if found is not None and not within(figure, found.value):
            words.append(f"{figure.what}: {found.value:.4g}, asked: {_bound(figure)}")
    return "; ".join(words)


def _section(paper: Paper, evidence: Evidence) -> str:
    rows = [
        (
            row.where,
            row.paper,
            row.weir or "nothing",
            "<br>".join([*_shown_by(row, evidence), *(_figure(figure, evidence) for figure in row.figures)]),
            _state(state(row, evidence)),
        )
        for row in paper.rows
    ]
    left_out = [f"{what}: {why}." for what, why in paper.not_rows.items()]
    words = f"\nWithout a row: {' '.join(left_out)}\n" if left_out else ""
    return f"## {paper.name}\n\n{paper.title}. {paper.source}.\n{words}\n" + _table(
        ("where", "the paper has", "Weir has", "shown by", "state"), rows
    )


def _state(what: State) -> str:
    return what if what == "works" else f"**{what}**"


def _shown_by(row: Row, evidence: Evidence) -> Iterable[str]:
    for name in row.tests:
        path, _, test = name.partition("::")
        yield f"[{test}](../{path}){_failed(evidence.tests.get(name))}"
    for command in row.commands:
        yield f"{_spelled(command)}{_failed(evidence.commands.get(command.run))}"


def _spelled(command: Command) -> str:
    """A command for a cell of a table."""
    return f"`{command.run.replace('|', chr(92) + '|').replace('`', '')}`"


def _failed(found: Measured | None) -> str:
    if found is None:
        return " (**not run**)"
    return "" if found.value == 1 else " (**fails**)"


def _figure(figure: Figure, evidence: Evidence) -> str:
    found = evidence.figures.get(figure.key)
    beside = f"; the paper {figure.paper}" if figure.paper else ""
    bound = f"; asked {_bound(figure)}" if _bound(figure) else ""
    if found is None:
        return f"{figure.what}: not measured yet{beside}{bound}"
    value = f"{found.value:.4g}" if within(figure, found.value) else f"**{found.value:.4g}**"
    return f"{figure.what}: {value} ({found.date}, {found.commit}){beside}{bound}"


def _bound(figure: Figure) -> str:
    least = "" if figure.at_least is None else f"at least {figure.at_least:g}"
    most = "" if figure.at_most is None else f"at most {figure.at_most:g}"
    return " and ".join(each for each in (least, most) if each)


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines) + "\n"
