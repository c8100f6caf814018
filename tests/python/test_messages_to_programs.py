"""Errors of the packages that programs call speak of arguments and of whole commands, not of flags of commands."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from weir.store.errors import StoreError
from weir.store.identity import Identity

PACKAGE = Path(__file__).resolve().parents[2] / "python" / "weir"
FLAG = re.compile(r"(?<![\w`-])--[a-z][a-z-]*")
QUOTED = re.compile(r"`[^`]*`")


def told(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """The words of errors and notices: texts in the arguments of what is raised, and hints. A value in them is `{}`."""
    for node in ast.walk(tree):
        match node:
            case ast.Raise(exc=ast.expr() as raised):
                yield from texts(raised)
            case ast.keyword(arg="hint", value=value):
                yield from texts(value)
            case ast.Assign(targets=targets, value=value) if "hint" in " ".join(map(ast.unparse, targets)).lower():
                yield from texts(value)


def texts(node: ast.AST) -> Iterator[tuple[int, str]]:
    if isinstance(node, ast.JoinedStr):
        yield node.lineno, "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values)
        return
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.lineno, node.value
    for child in ast.iter_child_nodes(node):
        yield from texts(child)


@pytest.mark.parametrize("package", ["adaptive", "simulation", "store"])
def test_no_message_names_a_flag(package: str) -> None:
    """A caller of `weir.adaptive.write` was told to continue the stream with --append."""
    found = {
        f"{path.relative_to(PACKAGE)}:{line}": text
        for path in sorted((PACKAGE / package).rglob("*.py"))
        for line, text in told(ast.parse(path.read_text()))
        if FLAG.search(QUOTED.sub("", text))
    }
    assert found == {}


def test_the_name_of_a_job_that_is_no_utf8_is_what_is_wrong() -> None:
    """`weir run --job` with a byte of Latin-1 told of a codec and a position."""
    with pytest.raises(StoreError, match="has bytes that are no UTF-8") as refused:
        Identity.of_process("caf\udce9").mint("00" * 32, 60)
    assert "jobs" in refused.value.hint
