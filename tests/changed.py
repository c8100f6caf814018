"""Everything that `make check` runs: formatting, linters and the fast tests of what differs from the branch `main`.

The tests of a changed crate are those inside its sources, and the changed files of `tests/all`; a leaf runs all of its
tests. The tests of changed Python are those without a store, in each file that changed or whose imports lead to a
changed file. These see a change of Rust only once `make setup` has built it. `make test` runs everything.
"""

import ast
import os
import subprocess
import sys
import sysconfig
import time
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from rust_sources import reachable

ROOT = Path(__file__).resolve().parents[1]
BIN = Path(sys.executable).parent
OVERLAY = ROOT / "target" / "check"
"""The package as in the sources, beside the extension that is installed."""

LEAVES = {"device", "fairshare", "placement", "trace", "wire"}
"""Crates whose tests start nothing, so that all of them take seconds."""


def output(*command: str) -> str:
    return subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout


def changed_files(base: str) -> list[str]:
    """Files that differ from where this branch left `base`, and files that git does not know yet."""
    start = output("git", "merge-base", "HEAD", base).strip()
    differing = output("git", "diff", "--name-only", "-z", "--no-renames", start)
    new = output("git", "ls-files", "--others", "--exclude-standard", "-z")
    return sorted({name for name in (differing + new).split("\0") if name})


def base_branch() -> str:
    """The branch to compare with: `main`, or the one of the clone's origin."""
    for name in ("main", "origin/main"):
        found = subprocess.run(["git", "rev-parse", "--verify", "--quiet", name], cwd=ROOT, capture_output=True)
        if found.returncode == 0:
            return name
    sys.exit("error: there is no branch main here, nor origin/main\nhint: make check BASE=COMMIT")


def rust_commands(changed: Sequence[str]) -> list[list[str]]:
    """Linter and tests of the crates that changed."""
    whole = any(name in ("Cargo.toml", "Cargo.lock", "clippy.toml", ".cargo/config.toml") for name in changed)
    crates = sorted({name.split("/")[1] for name in changed if name.startswith("crates/")})
    crates = [crate for crate in crates if (ROOT / "crates" / crate / "Cargo.toml").is_file()]
    if not crates and not whole:
        return []
    commands = [["cargo", "clippy", "--quiet", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"]]
    test = ["cargo", "test", "--quiet", "--locked", "--no-fail-fast"]
    # The bindings have no test program of their own.
    tested = [crate for crate in crates if crate != "python"]
    for kind in (set(tested) & LEAVES, set(tested) - LEAVES):
        libraries = any((ROOT / "crates" / crate / "src/lib.rs").is_file() for crate in kind)
        targets = ["--tests"] if kind <= LEAVES else ["--bins", *(["--lib"] if libraries else [])]
        if kind:
            commands.append([*test, *(f"--package=weir-{crate}" for crate in sorted(kind)), *targets])
    for crate in sorted(set(tested) - LEAVES):
        folder = f"crates/{crate}/tests/all/"
        modules = {
            name.removeprefix(folder).split("/")[0].removesuffix(".rs") for name in changed if name.startswith(folder)
        }
        modules = {name for name in modules if (ROOT / folder / f"{name}.rs").is_file()} - {"main"}
        if modules:
            names = [f"{name}::" for name in sorted(modules)]
            commands.append([*test, f"--package=weir-{crate}", "--test=all", "--", *names])
    return commands


def modules() -> dict[str, Path]:
    """Files of Python by the names that tests import them by."""
    found = {path.stem: path for folder in ("tests", "examples") for path in (ROOT / folder).glob("*.py")}
    for path in [*(ROOT / "python").rglob("*.py"), *(ROOT / "tests/suites").rglob("*.py")]:
        root = ROOT / ("python" if path.is_relative_to(ROOT / "python") else "tests")
        name = ".".join(path.relative_to(root).with_suffix("").parts)
        found[name.removesuffix(".__init__")] = path
    return found


@cache
def imported(path: Path) -> set[str]:
    """Names of modules that a file imports, with the packages around them."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{name.name}" for name in node.names)}
    return names | {name.rpartition(".")[0] for name in names}


def files_of_tests(changed: Sequence[str]) -> list[str]:
    """Files of tests that changed, and those that lead to a changed file by their imports."""
    known = modules()
    touched = {name for name in changed if name.endswith(".py")}
    paths = [*known.values(), *(ROOT / "tests").rglob("test_*.py")]
    files = {str(path.relative_to(ROOT)): path for path in paths}
    arrows = {
        name: {str(known[module].relative_to(ROOT)) for module in imported(path) & known.keys()}
        for name, path in files.items()
    }
    tests = sorted(name for name, path in files.items() if path.name.startswith("test_"))
    for name in tests:
        # pytest reads the fixtures that are for all tests.
        arrows[name].add("tests/conftest.py")
    return [name for name in tests if touched & {name, *reachable(arrows, name)}]


def overlay() -> Path:
    """A folder for PYTHONPATH with the package as in the sources and the installed extension."""
    package = OVERLAY / "weir"
    package.mkdir(parents=True, exist_ok=True)
    installed = Path(sysconfig.get_path("platlib")) / "weir"
    wanted = {path.name: path for path in (ROOT / "python/weir").iterdir() if path.name != "__pycache__"}
    wanted |= {path.name: path for path in installed.glob("*.so")}
    for link in package.iterdir():
        link.unlink()
    for name, path in wanted.items():
        (package / name).symlink_to(path)
    return OVERLAY


def python_commands(changed: Sequence[str]) -> list[list[str]]:
    """Linters and tests of the Python files that changed."""
    commands = [[f"{BIN}/ruff", "check", "."], [f"{BIN}/ruff", "format", "--check", "."]]
    if not any(name.endswith((".py", ".pyi", "pyproject.toml")) for name in changed):
        return commands
    commands.append([f"{BIN}/mypy"])
    if any(name.startswith("python/weir/") for name in changed):
        commands.append([f"{BIN}/lint-imports"])
    if tests := files_of_tests(changed):
        commands.append([f"{BIN}/pytest", "--quiet", "--fast", "--numprocesses=2", *tests])
    return commands


def main() -> int:
    """Runs all commands, and says which ones failed."""
    changed = changed_files(sys.argv[1] if len(sys.argv) > 1 else base_branch())
    print(f"{len(changed)} files differ", flush=True)
    path = os.pathsep.join([str(BIN), str(ROOT / "target/tools/bin"), os.environ["PATH"]])
    environment = {**os.environ, "PATH": path, "PYTHONPATH": str(overlay())}
    begun = time.monotonic()
    failed = []
    for command in [["cargo", "fmt", "--all", "--check"], *python_commands(changed), *rust_commands(changed)]:
        words = " ".join(command).replace(f"{BIN}/", "")
        print(f"{words}", flush=True)
        code = subprocess.run(command, cwd=ROOT, env=environment).returncode
        # 5: no test of these files is fast.
        if code != 0 and not (code == 5 and "pytest" in command[0]):
            failed.append(words)
    for words in failed:
        print(f"failed: {words}", file=sys.stderr)
    print(f"{'failed' if failed else 'passed'} in {time.monotonic() - begun:.0f} s")
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
