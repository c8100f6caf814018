"""Docstrings of functions state their errors and what their signature leaves open, and no function is long."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[2] / "python/weir"
FILES = sorted(PACKAGE.rglob("*.py"))
LINES_MAX = 70

Function = ast.FunctionDef | ast.AsyncFunctionDef

SMALL_WORDS = re.compile(
    r"\b(?:the|a|an|of|its|their|is|to|in|for|as|be|which|and|by|at|on|with|from)\b", re.IGNORECASE
)
"""Words that add nothing of their own."""
GENERIC = {
    *(
        "A",
        "Any",
        "Array",
        "ArrayLike",
        "Awaitable",
        "BaseException",
        "Callable",
        "Collection",
        "Exception",
        "Generator",
    ),
    *("Iterable", "Iterator", "IO", "Item", "Kind", "Literal", "Mapping", "NDArray", "None", "Optional", "Path"),
    *("Sequence", "Set", "T", "TextIO", "Type", "Union"),
}
"""Types that leave open what a value is."""
EMPTY = {"path": ("The file.", "The folder.", "Its file."), "file": ("The file.",), "uid": ("The user.",)}


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


def parameters(function: Function) -> dict[str, ast.arg]:
    listed = function.args
    every = [*listed.posonlyargs, *listed.args, *listed.kwonlyargs, listed.vararg, listed.kwarg]
    return {each.arg: each for each in every if each is not None}


def raises(function: Function) -> bool:
    return any(isinstance(node, ast.Raise) for node in ast.walk(function))


def section(text: str, heading: str) -> str:
    """The text below a heading of a docstring, without its indentation."""
    _, _, below = text.partition(f"\n{heading}:\n")
    return "\n".join(line.removeprefix("    ") for line in below.partition("\n\n")[0].splitlines())


def words(text: str) -> set[str]:
    """The words of a text or a name, without an `s` at the end."""
    found = {word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", text)}
    return {re.sub(r"(?<=..[^s])s$", "", re.sub(r"(?<=..)ies$", "y", word)) for word in found}


def adds_nothing(entry: str, subject: set[str], known: set[str]) -> bool:
    """Whether an entry repeats its subject, with no word that the signature and the first sentence do not have."""
    found = words(SMALL_WORDS.sub("", entry))
    is_plain = not re.search(r"[\n0-9`]", entry) and not found & {"none", "whether", "each", "or"}
    return is_plain and bool(found & subject) and found <= subject | known


def is_told_by_type(entry: str, argument: ast.arg) -> bool:
    """Whether an entry is one noun for a value whose type is a class, for a path or for a user."""
    if re.fullmatch(r"(?:The|Its|Their|A|An) [a-z]+\.", entry) is None:
        return False
    types = set(re.findall(r"\b[A-Z]\w*", ast.unparse(argument.annotation))) if argument.annotation else set()
    return entry in EMPTY.get(argument.arg, ()) or bool(types - GENERIC)


def faults(name: str, function: Function) -> Iterator[str]:
    """The faults of a docstring: errors without words, words of arguments that are not there, and empty words."""
    text = ast.get_docstring(function) or ""
    known = words(text.partition("\n\n")[0]) | words(function.name)
    if is_public(name) and raises(function) and not section(text, "Raises"):
        yield "does not state what it raises"
    listed = parameters(function)
    for entry in re.findall(r"^\S.*(?:\n .*)*", section(text, "Args"), re.MULTILINE):
        named, _, described = entry.partition(": ")
        argument = listed.get(named.lstrip("*"))
        if argument is None:
            yield f"describes {named}, which is no argument"
        elif is_told_by_type(described, argument) or adds_nothing(
            described, words(named) | words(ast.unparse(argument.annotation or argument)), known
        ):
            yield f"says nothing of {named} that its name, its type and the first sentence do not say"
    if function.returns is not None:
        result = ast.arg("return", function.returns)
        subject = words(ast.unparse(function.returns)) | known
        said = section(text, "Returns")
        if is_told_by_type(said, result) or adds_nothing(said, subject, known):
            yield "says nothing of the result that its type and the first sentence do not say"


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_docstrings_add_to_the_signature(path: Path) -> None:
    for name, function in functions(ast.parse(path.read_text()).body):
        if not is_described_otherwise(function):
            found = list(faults(name, function))
            assert not found, f"{path}: the docstring of {name} {', and it '.join(found)}"


def test_empty_words_are_found() -> None:
    """`path: The path.` says nothing; a unit, a bound, a form or another noun does."""
    for entry, is_empty in (
        ("The path.", True),
        ("Path of the file.", True),
        ("The file.", True),
        ("A file of Weir's own.", False),
        ("Path of the file, or None for standard input.", False),
        ("Path of at most 4096 bytes.", False),
    ):
        source = f'def read(path: Path) -> bytes:\n    """Read a file.\n\n    Args:\n        path: {entry}\n    """'
        function = ast.parse(source).body[0]
        assert isinstance(function, Function)
        assert bool(list(faults("read", function))) is is_empty, entry


def test_functions_are_short() -> None:
    for path in FILES:
        for name, function in functions(ast.parse(path.read_text()).body):
            lines = (function.end_lineno or 0) - function.lineno + 1
            assert lines <= LINES_MAX, f"{path}: {name} has {lines} lines"
