"""The places in Weir's sources that open, make, move or remove a file by its path, found in the code.

A *place* is a function of a file. Each has to stand in the table of `tests/python/test_file_ways.py`, with the reason
for which nobody else can lead it elsewhere.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from rust_sources import FUNCTION, blanked, end_of_item, without_tests

_METHODS = {
    *("read_text", "read_bytes", "write_text", "write_bytes", "touch", "mkdir", "rename", "unlink", "rmdir"),
    *("symlink_to", "hardlink_to", "chmod", "lchmod"),
}
"""Methods of a `Path` that use the file."""
_FUNCTIONS = {
    "os": {
        *("open", "mkdir", "makedirs", "rename", "renames", "replace", "link", "symlink", "unlink", "remove", "rmdir"),
        *("chmod", "chown", "lchown", "truncate", "mkfifo", "mknod", "utime", "setxattr"),
    },
    "shutil": {"copy", "copy2", "copyfile", "copytree", "move", "rmtree", "chown"},
    "tempfile": {"mkdtemp", "mkstemp", "NamedTemporaryFile", "TemporaryDirectory"},
    "tarfile": {"open"},
    "gzip": {"open"},
    "sqlite3": {"connect"},
}
_WRITERS = {"savefig", "write_table", "bind"}
"""Methods of libraries that may be given a path."""
_RUST = re.compile(
    r"\bFile\s*::\s*(?:open|create)\w*|\bOpenOptions\s*::\s*new|\bopenat2?\s*\(|\bmkdirat?\s*\("
    r"|\b(?:std\s*::\s*)?fs\s*::\s*(?:read|write|read_to_string|create_dir|create_dir_all|remove_file|remove_dir|"
    r"remove_dir_all|rename|set_permissions|hard_link|copy|read_dir|read_link|symlink)\s*\("
    r"|\b(?:rename|unlink|symlink|link|chmod|chown)at\w*\s*\(|\bUnix(?:Listener|Stream|Datagram)\s*::\s*(?:bind|connect)"
)


def python_places(root: Path) -> Iterator[str]:
    """Every place of a package.

    Args:
        root: The package's folder.

    Yields:
        `FILE FUNCTION`, some of them more than once.
    """
    for path in sorted(root.rglob("*.py")):
        for call, function in _calls(ast.parse(path.read_text())):
            if _uses_path(call):
                yield f"{path.relative_to(root)} {function}"


def callers(root: Path, function: str, keyword: str = "") -> set[str]:
    """Every place of a package that calls a function of `weir.ways`.

    Args:
        root: The package's folder.
        function: Name of the function.
        keyword: Keyword that the call has to have as True; empty for any call.

    Returns:
        `FILE FUNCTION` of each.
    """
    found = set()
    for path in sorted(root.rglob("*.py")):
        for call, name in _calls(ast.parse(path.read_text())):
            is_called = isinstance(call.func, ast.Name) and call.func.id == function
            has_it = not keyword or any(
                each.arg == keyword and isinstance(each.value, ast.Constant) and each.value.value is True
                for each in call.keywords
            )
            if is_called and has_it:
                found.add(f"{path.relative_to(root)} {name}")
    return found


def rust_places(root: Path) -> Iterator[str]:
    """Every place of the crates, outside of their tests.

    Args:
        root: The folder of the crates.

    Yields:
        `FILE FUNCTION`, some of them more than once.
    """
    for path in sorted(root.glob("*/src/**/*.rs")):
        if path.stem.endswith("tests") or path.parent.name == "tests" or path.is_relative_to(root / "testing"):
            continue
        code = without_tests(blanked(path.read_text()))
        functions = [
            (found.start(), end_of_item(code, found.end()), found["name"]) for found in FUNCTION.finditer(code)
        ]
        for use in _RUST.finditer(code):
            around = [name for start, end, name in functions if start < use.start() < end]
            yield f"{path.relative_to(root)} {around[-1] if around else ''}"


def _calls(tree: ast.AST) -> Iterator[tuple[ast.Call, str]]:
    """Each call, with the names of the classes and functions around it."""
    waiting: list[tuple[ast.AST, tuple[str, ...]]] = [(tree, ())]
    while waiting:
        node, names = waiting.pop()
        for child in ast.iter_child_nodes(node):
            around = names
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                around = (*names, child.name)
            if isinstance(child, ast.Call):
                yield child, ".".join(around)
            waiting.append((child, around))


def _uses_path(call: ast.Call) -> bool:
    if isinstance(call.func, ast.Name):
        return call.func.id == "open"
    if not isinstance(call.func, ast.Attribute):
        return False
    name, of = call.func.attr, ast.unparse(call.func.value)
    if of in _FUNCTIONS:
        return name in _FUNCTIONS[of]
    if name in ("rename", "replace"):
        # A text's `replace` takes two texts.
        return len(call.args) == 1 and not call.keywords
    return (name == "open" and len(call.args) < 4) or name in _METHODS or name in _WRITERS
