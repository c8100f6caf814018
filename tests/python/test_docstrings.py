"""Public functions of the package state their arguments, results and errors, and no function is long."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[2] / "python/weir"
FILES = sorted(PACKAGE.rglob("*.py"))
LINES_MAX = 70

Function = ast.FunctionDef | ast.AsyncFunctionDef


def functions(body: list[ast.stmt], prefix: str = "") -> Iterator[tuple[str, Function]]:
    """The functions of a module and the methods of its classes, by their names."""
    for node in body:
        if isinstance(node, Function):
            yield prefix + node.name, node
        elif isinstance(node, ast.ClassDef):
            yield from functions(node.body, f"{prefix}{node.name}.")


def is_public(name: str) -> bool:
    return all(part == "__init__" or not part.startswith("_") for part in name.split("."))


def is_described_otherwise(function: Function) -> bool:
    """Whether its text is that of a property, the help of a command, or refers to the function it overrides."""
    decorators = [ast.unparse(decorator) for decorator in function.decorator_list]
    is_attribute = any(decorator in ("property", "cached_property") for decorator in decorators)
    is_command = any("command(" in decorator or "group(" in decorator for decorator in decorators)
    return is_attribute or is_command or "See `" in (ast.get_docstring(function) or "")


def parameters(function: Function) -> list[str]:
    listed = function.args
    every = [*listed.posonlyargs, *listed.args, *listed.kwonlyargs, listed.vararg, listed.kwarg]
    return [each.arg for each in every if each is not None and each.arg not in ("self", "cls")]


def raises(function: Function) -> bool:
    return any(isinstance(node, ast.Raise) for node in ast.walk(function))


def missing(function: Function) -> list[str]:
    text = ast.get_docstring(function) or ""
    _, _, arguments = text.partition("\nArgs:\n")
    found = [f"the argument {name}" for name in parameters(function) if f"\n    {name}: " not in f"\n{arguments}"]
    answer = "None" if function.returns is None else ast.unparse(function.returns)
    if answer not in ("None", "NoReturn") and "\nReturns:\n" not in text and "\nYields:\n" not in text:
        found.append("what it returns")
    if raises(function) and "\nRaises:\n" not in text:
        found.append("what it raises")
    return found


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_public_functions_state_their_contract(path: Path) -> None:
    for name, function in functions(ast.parse(path.read_text()).body):
        if is_public(name) and not is_described_otherwise(function):
            assert not missing(function), (
                f"{path}: the docstring of {name} does not state {', '.join(missing(function))}"
            )


def test_functions_are_short() -> None:
    for path in FILES:
        for name, function in functions(ast.parse(path.read_text()).body):
            lines = (function.end_lineno or 0) - function.lineno + 1
            assert lines <= LINES_MAX, f"{path}: {name} has {lines} lines"
