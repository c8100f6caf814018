"""The Rust sources of a crate as a graph of files, without their tests, and the lengths of functions.

The graph is read from names, not from types. An arrow goes from a file to the file of each item that a path in the
first file names: in a `use` or anywhere in the code, after `crate`, `self`, `super`, a module of its own or an imported
module. A name that `pub use` hands on leads to the file that defines the item. A method of a struct that another file
defines needs no path, so a call of the method counts as an arrow where only one file defines such a method.
"""

import ast
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

LITERAL = re.compile(
    r"//[^\n]*"
    r"|/\*.*?\*/"
    r'|b?c?r(?P<hashes>\#*)".*?"(?P=hashes)'
    r'|[bc]?"(?:[^"\\]|\\.)*"'
    r"|b?'(?:[^'\\\n]|\\(?:u\{[0-9a-fA-F_]+\}|x..|.))'",
    re.DOTALL,
)
"""Comments, strings and characters. A lifetime has no closing quote."""

TEST_ITEM = re.compile(r"#\[cfg\(test\)\]")
USE = re.compile(r"\b(?P<shared>pub(?:\([^)]*\))?\s+)?use\s+(?P<tree>[^;]+);")
PATH = re.compile(r"(?<![\w:.$])\$?(?P<first>[A-Za-z_]\w*)(?P<rest>(?:\s*::\s*[A-Za-z_]\w*)+)")
FUNCTION = re.compile(r"\bfn\s+(?P<name>[A-Za-z_]\w*)")
MODULE = re.compile(r"\bmod\s+(?P<name>[A-Za-z_]\w*)\s*(?P<end>[;{])")
IMPLEMENTATION = re.compile(r"^\s*(?:unsafe\s+)?impl\b(?P<head>[^;{]*)\{", re.MULTILINE)
CALL = re.compile(r"(?P<of>\w+)?\s*(?:\.|::)\s*(?P<name>[a-z_]\w*)\s*\(")
WORD = re.compile(r"[A-Za-z_]\w*")
CLOSING = {"(": ")", "[": "]", "{": "}"}


def blanked(text: str) -> str:
    """The text with spaces in place of comments and literals; each character keeps its place."""
    return LITERAL.sub(lambda found: re.sub(r"[^\n]", " ", found.group()), text)


def end_of_group(code: str, start: int) -> int:
    """The place after the bracket that closes the one at `start`."""
    awaited: list[str] = []
    for place in range(start, len(code)):
        letter = code[place]
        if letter in CLOSING:
            awaited.append(CLOSING[letter])
        elif awaited and letter == awaited[-1]:
            awaited.pop()
            if not awaited:
                return place + 1
    raise ValueError(f"a bracket is not closed: {code[start : start + 60]!r}")


def end_of_item(code: str, start: int) -> int:
    """The place after the item that begins at `start`: after its body, or after its semicolon."""
    place = start
    while place < len(code):
        letter = code[place]
        if letter == ";":
            return place + 1
        if letter in CLOSING:
            place = end_of_group(code, place)
            if letter == "{":
                return place
        else:
            place += 1
    return place


def without_tests(code: str) -> str:
    """Blanked code with spaces in place of each item under `#[cfg(test)]`."""
    while found := TEST_ITEM.search(code):
        end = end_of_item(code, found.end())
        code = code[: found.start()] + re.sub(r"[^\n]", " ", code[found.start() : end]) + code[end:]
    return code


def functions(code: str) -> Iterator[tuple[str, int]]:
    """Name of each function that has a body, and its lines from the signature to the closing bracket."""
    for found in FUNCTION.finditer(code):
        end = end_of_item(code, found.end())
        if code[end - 1] == "}":
            yield found["name"], code.count("\n", found.start(), end) + 1


def python_functions(source: str) -> Iterator[tuple[str, int]]:
    """Name of each Python function, and its lines without the docstring."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            first, last = node.body[0], node.end_lineno or node.lineno
            described = ast.get_docstring(node) is not None
            words = (first.end_lineno or first.lineno) - first.lineno + 1 if described else 0
            yield node.name, last - node.lineno + 1 - words


def uses(tree: str) -> Iterator[tuple[tuple[str, ...], str]]:
    """Each path of a `use` tree, and the name it has in the file; `*` for all names."""
    tree = tree.strip()
    head, brace, rest = tree.partition("{")
    if not brace:
        path, _, alias = tree.partition(" as ")
        parts = tuple(part.strip() for part in path.split("::") if part.strip())
        if len(parts) > 1 and parts[-1] == "self":
            parts = parts[:-1]
        yield parts, alias.strip() or parts[-1]
        return
    prefix = tuple(part.strip() for part in head.split("::") if part.strip())
    depth, begin = 0, 0
    inside = rest[: rest.rindex("}")] + ","
    for place, letter in enumerate(inside):
        depth += (letter == "{") - (letter == "}")
        if letter == "," and depth == 0:
            if part := inside[begin:place].strip():
                for inner, name in uses(part):
                    whole = prefix if inner == ("self",) else prefix + inner
                    yield whole, prefix[-1] if name == "self" else name
            begin = place + 1


@dataclass
class Module:
    """One file of a crate."""

    path: Path
    name: tuple[str, ...]
    """Names of the modules from the root of the crate to this one."""
    code: str
    """Blanked, without tests and without `use`."""
    children: set[str] = field(default_factory=set)
    imports: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Names that `use` brings into the file, as paths from the root of the crate."""
    shared: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Names that the file hands on."""
    wholesale: list[tuple[str, ...]] = field(default_factory=list)
    """Modules all of whose names the file hands on."""
    used: set[tuple[str, ...]] = field(default_factory=set)
    """Paths that the file names."""

    def absolute(self, path: tuple[str, ...], inner: int = 0) -> tuple[str, ...] | None:
        """A path from the root of the crate; nothing for a path into another crate.

        `inner` is how many modules within the file enclose the path.
        """
        if path[0] in ("crate", "$crate"):
            return path[1:]
        if path[0] == "self":
            return self.name + path[1:]
        if path[0] == "super":
            ups = next((count for count, part in enumerate(path) if part != "super"), len(path))
            above = max(ups - inner, 0)
            return self.name[: len(self.name) - above] + path[ups:]
        return self.name + path if path[0] in self.children else None


class Crate:
    """The files of a crate, and the arrows between them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "src"
        self.modules: dict[tuple[str, ...], Module] = {}
        root = next(self.folder / name for name in ("lib.rs", "main.rs") if (self.folder / name).is_file())
        self._read(root, ())
        for module in self.modules.values():
            self._paths_of(module)
        self._methods = self._methods_away_from_their_type()

    def _read(self, path: Path, name: tuple[str, ...]) -> None:
        code = without_tests(blanked(path.read_text()))
        module = self.modules[name] = Module(path, name, USE.sub(lambda found: " " * len(found.group()), code))
        declared = list(MODULE.finditer(code))
        module.children = {found["name"] for found in declared if found["end"] == ";"}
        for found in USE.finditer(code):
            for named, alias in uses(found["tree"]):
                self._import(module, named, alias, shared=found["shared"] is not None)
        below = path.parent if path.name in ("lib.rs", "main.rs", "mod.rs") else path.with_suffix("")
        for child in module.children:
            self._read(
                next(file for file in (below / f"{child}.rs", below / child / "mod.rs") if file.is_file()),
                (*name, child),
            )

    @staticmethod
    def _import(module: Module, path: tuple[str, ...], alias: str, *, shared: bool) -> None:
        target = module.absolute(path)
        if target is None:
            return
        if alias == "*":
            (module.wholesale.append if shared else module.used.add)(target[:-1])
        else:
            module.imports[alias] = target
            if shared:
                module.shared[alias] = target

    def _paths_of(self, module: Module) -> None:
        """Finds all paths that the code of a file names, beside those of `use`."""
        inline = [
            (found.start(), end_of_group(module.code, found.end() - 1))
            for found in MODULE.finditer(module.code)
            if found["end"] == "{"
        ]
        extended = set()
        for found in PATH.finditer(module.code):
            rest = tuple(part.strip() for part in found["rest"].split("::") if part.strip())
            first = found["first"]
            if first in module.imports:
                extended.add(first)
                module.used.add(module.imports[first] + rest)
            else:
                inner = sum(start < found.start() < end for start, end in inline)
                target = module.absolute((first, *rest), inner)
                if target is not None:
                    module.used.add(target)
        words = set(WORD.findall(module.code))
        for alias, target in module.imports.items():
            # An imported module is a way to its items: the paths that go on from its name say to which.
            is_way = alias in extended and target in self.modules
            if not is_way and (alias not in module.shared or alias in words):
                module.used.add(target)

    def owner(self, path: tuple[str, ...], depth: int = 0) -> Module | None:
        """The file that defines the item of a path; nothing where a name comes from another crate."""
        here: tuple[str, ...] = ()
        for place, part in enumerate(path):
            module = self.modules[here]
            if (*here, part) in self.modules:
                here = (*here, part)
            elif part in module.shared and depth < 8:
                return self.owner(module.shared[part] + path[place + 1 :], depth + 1)
            else:
                for target in module.wholesale:
                    found = self.owner((*target, *path[place:]), depth + 1) if depth < 8 else None
                    if found and re.search(rf"\b(fn|struct|enum|trait|type|const|static|union)\s+{part}\b", found.code):
                        return found
                break
        return self.modules[here]

    def _methods_away_from_their_type(self) -> dict[str, tuple[str, Module]]:
        """Type and file of each method in an `impl` away from its type, where one file alone has the name."""
        found: dict[str, set[tuple[str, ...]]] = {}
        away: dict[str, str] = {}
        for module in self.modules.values():
            for block in IMPLEMENTATION.finditer(module.code):
                body = module.code[block.end() - 1 : end_of_group(module.code, block.end() - 1)]
                names = [method["name"] for method in FUNCTION.finditer(body)]
                for name in names:
                    found.setdefault(name, set()).add(module.name)
                head = block["head"].split(" where ")[0]
                while (plainer := re.sub(r"<[^<>]*>", "", head)) != head:
                    head = plainer
                kind = head.split()[-1].split("::")[-1]
                if " for " not in head and not re.search(rf"\b(struct|enum|union)\s+{kind}\b", module.code):
                    away |= dict.fromkeys(names, kind)
        return {
            name: (kind, self.modules[next(iter(found[name]))]) for name, kind in away.items() if len(found[name]) == 1
        }

    def arrows(self) -> dict[str, dict[str, set[str]]]:
        """For each file below `src` the files that it uses, each with the names that lead there.

        A folder's own file (`name.rs` or `name/mod.rs`) holds the struct that the files of the folder extend, so the
        way from one of them to the folder's own file is no arrow.
        """
        result: dict[str, dict[str, set[str]]] = {self._below(module.path): {} for module in self.modules.values()}
        for module in self.modules.values():
            named = [("::".join(path), self.owner(path)) for path in module.used]
            words = set(WORD.findall(module.code)) | module.imports.keys()
            for call in CALL.finditer(module.code):
                if call["name"] in self._methods:
                    kind, owner = self._methods[call["name"]]
                    # Other types may have the method: either the file names the type, or the value is named after it.
                    if kind in words or (call["of"] or "").replace("_", "") == kind.lower():
                        named.append((f".{call['name']}()", owner))
            for name, target in named:
                if target and module.name[: len(target.name)] != target.name:
                    result[self._below(module.path)].setdefault(self._below(target.path), set()).add(name)
        return result

    def _below(self, path: Path) -> str:
        return str(path.relative_to(self.folder))


def circles(arrows: Mapping[str, Iterable[str]]) -> list[set[str]]:
    """Sets of files in which each file leads to all others, the largest first."""
    reached = {start: reachable(arrows, start) for start in arrows}
    left, found = set(arrows), []
    for start in sorted(arrows):
        if start in left:
            circle = {other for other in reached[start] if start in reached[other]} | {start}
            left -= circle
            if len(circle) > 1:
                found.append(circle)
    return sorted(found, key=len, reverse=True)


def reachable(arrows: Mapping[str, Iterable[str]], start: str) -> set[str]:
    """Files that a file leads to, by one arrow or more."""
    seen: set[str] = set()
    waiting = [start]
    while waiting:
        for target in set(arrows[waiting.pop()]) - seen:
            seen.add(target)
            waiting.append(target)
    return seen


def shortest_way(arrows: Mapping[str, Iterable[str]], circle: set[str]) -> str:
    """The shortest way round in a circle, for a message."""
    best: list[str] = []
    for start in sorted(circle):
        ways = [[start]]
        seen: set[str] = set()
        while ways and not (best and len(ways[0]) >= len(best)):
            way = ways.pop(0)
            for target in sorted(circle.intersection(arrows[way[-1]])):
                if target == start:
                    best, ways = [*way, start], []
                    break
                if target not in seen:
                    seen.add(target)
                    ways.append([*way, target])
    assert all(after in arrows[before] for before, after in pairwise(best))
    return " -> ".join(best)


def main(folder: str) -> None:
    """Prints the circles of a crate, and the arrows in them with the names that make them."""
    arrows = Crate(Path(folder)).arrows()
    for circle in circles(arrows):
        print(f"{len(circle)} files, as in {shortest_way(arrows, circle)}")
        for start in sorted(circle):
            for target in sorted(circle.intersection(arrows[start])):
                print(f"  {start} -> {target}: {', '.join(sorted(arrows[start][target]))}")


if __name__ == "__main__":
    main(sys.argv[1])
