"""The rows of the papers: each names things that are there, each figure and table has a row, and the page agrees."""

import ast
import importlib
import re
import shlex
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import click
import pytest
from weir import cli

ROOT = Path(__file__).resolve().parents[2]
BENCHMARKS = ROOT / "benchmarks"
NAMES = ("themisio", "tarazu", "io-variation", "interference", "luxio")


@pytest.fixture(scope="module")
def modules() -> Iterator[Any]:
    """Imports a module of the benchmarks by its name."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(BENCHMARKS))
        yield importlib.import_module


@pytest.fixture(scope="module")
def rows(modules: Any) -> Any:
    """The module of the rows."""
    return modules("_papers_rows")


@cache
def names_in(path: Path) -> set[str]:
    """The tests of a file, those of a class behind its name."""
    found = set()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.FunctionDef):
            found.add(node.name)
        elif isinstance(node, ast.ClassDef):
            found |= {f"{node.name}::{each.name}" for each in node.body if isinstance(each, ast.FunctionDef)}
    return found


def calls(line: str) -> Iterator[list[str]]:
    """The words of each call of `weir` in a line for a shell or a sentence."""
    for part in re.split(r"&&|;|\|\||\||\$\(|\)", line):
        words = part.replace("`", " ").split()
        if "weir" in words:
            yield words[words.index("weir") + 1 :]


def unknown(words: list[str]) -> str | None:
    """The first word of a call that no command has; None if all are known."""
    command: click.Command = cli.weir
    while isinstance(command, click.Group) and words and not words[0].startswith(("-", "$", "[")):
        child = command.get_command(click.Context(command), words[0])
        if child is None:
            return (
                None
                if command.params and any(isinstance(each, click.Argument) for each in command.params)
                else words[0]
            )
        command, words = child, words[1:]
    options = {name for each in command.params for name in (*each.opts, *each.secondary_opts)} | {"--help", "-h"}
    for word in words:
        if word == "--":
            break
        if word.startswith("--") and word.split("=")[0].strip("[],") not in options:
            return word
    return None


def spellings(source: str) -> Iterator[str]:
    """Regular expressions of the names that a source may give to figures: its strings, and those it puts together."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and re.fullmatch(r"\w{5,}", node.value):
            yield f"^{node.value}$"
        elif isinstance(node, ast.JoinedStr):
            parts = [each.value if isinstance(each, ast.Constant) else None for each in node.values]
            if any(isinstance(part, str) and re.fullmatch(r"\w{3,}", part) for part in parts):
                yield "".join(".*" if part is None else re.escape(str(part)) for part in parts) + "$"


def test_each_row_is_of_its_paper_and_once(rows: Any) -> None:
    assert rows.PAPERS == NAMES
    ids = [row.id for row in rows.every_row(rows.papers())]
    assert len(ids) == len(set(ids))
    for name, paper in rows.papers().items():
        assert all(row.id.startswith(name.removeprefix("io-")) for row in paper.rows)


@pytest.mark.parametrize("name", NAMES)
def test_each_figure_table_and_algorithm_of_a_paper_has_a_row(rows: Any, name: str) -> None:
    paper = rows.papers()[name]
    covered = {word.strip() for row in paper.rows for word in row.where.split(",")} | set(paper.not_rows)
    counts = {"Figure": paper.figures, "Table": paper.tables, "Algorithm": paper.algorithms, "Listing": paper.listings}
    named = {f"{kind} {number}" for kind, count in counts.items() for number in range(1, count + 1)}
    assert named <= covered
    assert {word for word in covered if word.split()[0] in counts} <= named


@pytest.mark.parametrize("name", NAMES)
def test_what_a_row_names_is_there(rows: Any, name: str) -> None:
    for row in rows.papers()[name].rows:
        for module in row.modules:
            assert (ROOT / module).exists(), f"{row.id}: {module}"
        for test in row.tests:
            path, _, function = test.partition("::")
            assert (ROOT / path).exists(), f"{row.id}: {path}"
            assert function in names_in(ROOT / path), f"{row.id}: {test}"


@pytest.mark.parametrize("name", NAMES)
def test_each_command_of_a_row_that_works_is_one_of_weir(rows: Any, name: str) -> None:
    evidence = rows.read_evidence()
    for row in rows.papers()[name].rows:
        if rows.state(row, evidence) != "works":
            continue
        for sentence in re.findall(r"`([^`]*)`", row.weir):
            for words in calls(sentence):
                assert unknown(words) is None, f"{row.id}: {sentence}"
        for command in row.commands:
            assert shlex.split(command.run.replace("'", '"').replace('"', ""))
            assert any(calls(command.run)), f"{row.id}: {command.run}"
    assert unknown(["policy", "set", "x"]) is None
    assert unknown(["polcy", "set", "x"]) == "polcy"
    assert unknown(["plan", "sslo", "LOG", "--sslo", "x"]) == "--sslo"


@pytest.mark.parametrize("name", NAMES)
def test_each_part_of_a_benchmark_is_there(rows: Any, name: str) -> None:
    sources = {path.stem: path.read_text() for path in BENCHMARKS.rglob("*.py")}
    names = {spelling for text in sources.values() for spelling in spellings(text)}
    evidence = rows.read_evidence()
    for row in rows.papers()[name].rows:
        for figure in row.figures:
            assert figure.benchmark in {"", *sources}, f"{row.id}: {figure.benchmark}"
            assert not figure.part or f'"{figure.part}"' in sources[figure.benchmark], f"{row.id}: {figure.part}"
            is_named = any(re.search(spelling, figure.name) for spelling in names)
            assert is_named or figure.key in evidence.figures, f"{row.id}: no benchmark has {figure.name}"


def test_the_evidence_is_that_of_the_rows(rows: Any) -> None:
    every, evidence = list(rows.every_row(rows.papers())), rows.read_evidence()
    assert set(evidence.tests) == {test for row in every for test in row.tests}
    assert set(evidence.commands) == {command.run for row in every for command in row.commands}
    assert set(evidence.figures) <= {figure.key for row in every for figure in row.figures} | set(rows.ASKED)


def test_a_row_that_does_not_work_says_why(rows: Any) -> None:
    evidence = rows.read_evidence()
    for row in rows.every_row(rows.papers()):
        failed = [name for name in row.tests if evidence.tests[name].value != 1]
        failed += [each.run for each in row.commands if evidence.commands[each.run].value != 1]
        assert not failed or row.lacks, f"{row.id}: {failed} failed, and `lacks` says nothing"


def test_the_page_is_that_of_the_rows_and_their_evidence(rows: Any, modules: Any) -> None:
    page = modules("_papers_page")
    written = page.PAGE.read_text()
    assert written == page.page(rows.papers(), rows.read_evidence()), "run benchmarks/papers.py --page"


def test_a_state_follows_from_the_outcomes(rows: Any) -> None:
    figure = rows.Figure(name="f", benchmark="b", part="", what="f", at_most=2.0)
    row = rows.Row(id="x", where="1", paper="p", weir="w", tests=("t::a", "t::b"), figures=(figure,))

    def state(row: Any, *, tests: dict[str, float], figures: dict[str, float] | None = None) -> str:
        groups = [
            {name: rows.Measured(value, "2026-01-01", "c") for name, value in group.items()}
            for group in (tests, {}, figures or {})
        ]
        found: str = rows.state(row, rows.Evidence(*groups))
        return found

    both = {"t::a": 1.0, "t::b": 1.0}
    assert state(row, tests=both) == "works"
    assert state(row, tests=both, figures={"b.f": 2.0}) == "works"
    assert state(row, tests=both, figures={"b.f": 2.1}) == "part"
    assert state(row, tests={"t::a": 1.0}) == "part"
    assert state(row, tests={"t::a": 1.0, "t::b": 0.0}) == "part"
    assert state(row, tests={"t::a": 0.0, "t::b": 0.0}, figures={"b.f": 3.0}) == "missing"
    alone = rows.Row(id="x", where="1", paper="p", weir="w", figures=(figure,))
    alone_states = [state(alone, tests={}, figures=each) for each in ({}, {"b.f": 1.0}, {"b.f": 3.0})]
    assert alone_states == ["part", "works", "part"]
    assert rows.is_to_be_measured(alone, rows.Evidence()) and not rows.is_to_be_measured(row, rows.Evidence())
    gap = rows.Row(id="x", where="1", paper="p", weir="w", tests=("t::a",), gaps=("no g",))
    assert state(gap, tests={"t::a": 1.0}) == "part"
    assert state(rows.Row(id="x", where="1", paper="p", weir="", gaps=("no g",)), tests={}) == "missing"
