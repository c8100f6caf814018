"""The rows of the papers: what each has, what Weir has, and how that is shown.

A paper is a file of `benchmarks/papers`. A row says what shows it: tests, commands, and figures of benchmarks. The
state of a row follows from their outcomes, which `evidence.json` keeps with date and commit. A gap may be stated
without evidence; a success never.
"""

import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Literal

import msgspec

FOLDER = Path(__file__).resolve().parent / "papers"
EVIDENCE = FOLDER / "evidence.json"
PAPERS = ("themisio", "tarazu", "io-variation", "interference", "luxio")

ASKED = (
    "objectives_used_by_16_logs",
    "regret_first",
    "regret_tenth",
    "replay_error_max",
    "scaling_efficiency_128",
    "write_loss_max",
    "f1_unseen_workload_authors",
    "quiet_labels_right_busy",
)
"""Figures that are kept whether a row has them or not, and stand in the JSON line."""

State = Literal["works", "part", "missing"]


class Command(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A line for a shell, run in an empty folder.

    `$DARSHAN` is the folder of the tests' logs, and `$SOURCES` that of Weir's sources.
    """

    run: str
    says: str = ""
    """A regular expression that its output has."""
    code: int = 0
    is_on_store: bool = msgspec.field(default=False, name="on_store")
    """It runs on a store of two servers with two targets each."""
    tells: str = ""
    """A number of its output in JSON, which is kept as a figure."""


class Figure(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A number of the JSON line of `make bench-BENCHMARK`."""

    name: str
    benchmark: str
    """Its name; empty for whichever measured the number last."""
    part: str
    """The part of the benchmark that measures it; empty where it has no parts."""
    what: str
    paper: str = ""
    at_most: float | None = None
    at_least: float | None = None

    @property
    def key(self) -> str:
        """Its name among the evidence."""
        return f"{self.benchmark}.{self.name}" if self.benchmark else self.name


class Row(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A feature, figure or table of a paper."""

    id: str
    where: str
    """Section, or `Figure 7`, `Table 2`, `Algorithm 1`; several are separated by commas."""
    paper: str
    weir: str
    modules: tuple[str, ...] = ()
    """Files and folders of the sources."""
    tests: tuple[str, ...] = ()
    commands: tuple[Command, ...] = ()
    figures: tuple[Figure, ...] = ()
    gaps: tuple[str, ...] = ()
    """Features of the paper that Weir lacks, where no command or test could show that."""
    lacks: str = ""
    """The reason that the page gives where evidence fails."""


class Paper(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A paper with its rows."""

    title: str
    name: str
    source: str
    figures: int
    tables: int
    algorithms: int
    listings: int
    rows: tuple[Row, ...]
    not_rows: Mapping[str, str] = {}
    """Figures and tables that show nothing to have, and why."""


class Measured(msgspec.Struct, frozen=True):
    """The outcome of one piece of evidence. Tests and commands have 1 or 0, and figures their number."""

    value: float
    date: str
    commit: str


class Evidence(msgspec.Struct):
    """All outcomes, by node, command and figure."""

    tests: dict[str, Measured] = {}
    commands: dict[str, Measured] = {}
    figures: dict[str, Measured] = {}


def papers() -> dict[str, Paper]:
    """All papers by the names of their files."""
    return {name: msgspec.convert(tomllib.loads((FOLDER / f"{name}.toml").read_text()), Paper) for name in PAPERS}


def every_row(of: Mapping[str, Paper]) -> Iterator[Row]:
    """The rows of all papers, in their order."""
    for paper in of.values():
        yield from paper.rows


def read_evidence() -> Evidence:
    """The outcomes that were kept, or none."""
    return msgspec.json.decode(EVIDENCE.read_bytes(), type=Evidence) if EVIDENCE.exists() else Evidence()


def write_evidence(evidence: Evidence) -> None:
    """Keeps the outcomes, a line each, in the order of their names."""
    kept = Evidence(*(dict(sorted(group.items())) for group in (evidence.tests, evidence.commands, evidence.figures)))
    EVIDENCE.write_bytes(msgspec.json.format(msgspec.json.encode(kept), indent=1) + b"\n")


def within(figure: Figure, value: float) -> bool:
    """True if the number keeps to the row's bounds, or the row has none."""
    above = figure.at_least is None or value >= figure.at_least
    return above and (figure.at_most is None or value <= figure.at_most)


def outcomes(row: Row, evidence: Evidence) -> list[bool | None]:
    """Whether each piece of a row's evidence is good; None was not tried."""
    tried: list[bool | None] = []
    for name in row.tests:
        found = evidence.tests.get(name)
        tried.append(None if found is None else found.value == 1)
    for command in row.commands:
        found = evidence.commands.get(command.run)
        tried.append(None if found is None else found.value == 1)
    for figure in row.figures:
        found = evidence.figures.get(figure.key)
        tried.append(None if found is None else within(figure, found.value))
    return tried


def state(row: Row, evidence: Evidence) -> State:
    """The state of a row by its outcomes.

    It is missing where nothing of its evidence is good or still to be measured, and works where all is good and no gap
    is stated. A figure that was not measured makes no row work, and does not harm one that tests and commands show.
    Where figures are all the evidence, one that misses its bound is there nevertheless.
    """
    tried = outcomes(row, evidence)
    shown = tried[: len(row.tests) + len(row.commands)]
    if not any(outcome is not False for outcome in tried) and (shown or not row.figures):
        return "missing"
    is_good = all(shown) and True in tried and False not in tried
    return "works" if is_good and not row.gaps else "part"


def is_to_be_measured(row: Row, evidence: Evidence) -> bool:
    """True if nothing but figures that no run measured keeps a row from working."""
    tried = outcomes(row, evidence)
    shown = tried[: len(row.tests) + len(row.commands)]
    return state(row, evidence) == "part" and not row.gaps and all(shown) and False not in tried
