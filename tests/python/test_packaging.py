"""The module file and the recipe for Spack: they have the package's own programs, versions and dependencies."""

import ast
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest
from waits import PATIENCE_SECONDS

ROOT = Path(__file__).resolve().parents[2]
MODULE = ROOT / "packaging/modules/weir"
PROGRAM = Path("/usr/lib/modulecmd.tcl")
"""The program of Environment Modules, where Debian has it."""
RECIPE = ROOT / "packaging/spack/spack_repo/weir/packages/weir_hpc/package.py"

COMMANDS = """
proc module-whatis {words} {}
proc conflict {name} {}
proc prepend-path {name value} { puts "prepend $name $value" }
proc setenv {name value} { puts "set $name $value" }
"""
"""The commands of Environment Modules that the file has, for an interpreter without them."""


@pytest.mark.skipif(shutil.which("tclsh") is None, reason="Tcl is not installed")
def test_the_module_file_sets_the_environment(tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text(f"{COMMANDS}\nsource {{{MODULE}}}\nModulesHelp\n")
    answer = subprocess.run(["tclsh", script], capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False)
    assert answer.returncode == 0, answer.stderr
    assert answer.stdout.splitlines() == [
        "prepend PATH /opt/weir/bin",
        "prepend MANPATH /opt/weir/share/man",
        "prepend XDG_DATA_DIRS /opt/weir/share",
        "set WEIR_HOME /var/lib/weir",
    ]
    assert "weir --help" in answer.stderr


@pytest.mark.skipif(not PROGRAM.exists(), reason="Environment Modules are not installed")
def test_environment_modules_load_the_file() -> None:
    command = ["tclsh", str(PROGRAM), "sh", "load", str(MODULE)]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False)
    assert "WEIR_HOME=/var/lib/weir" in answer.stdout, answer.stderr


def test_the_recipe_has_the_dependencies_of_the_package() -> None:
    """Each variant is an extra of the package of which Spack has all packages."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    recipe = next(node for node in ast.parse(RECIPE.read_text()).body if isinstance(node, ast.ClassDef))

    def needed(statements: list[ast.stmt]) -> set[str]:
        calls = [node.value for node in statements if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)]
        return {
            ast.literal_eval(call.args[0])
            for call in calls
            if isinstance(call.func, ast.Name) and call.func.id == "depends_on"
        }

    def spelled(requirements: list[str]) -> set[str]:
        parts = [requirement.partition(">=") for requirement in requirements]
        return {f"py-{name}" + (f"@{version}:" if version else "") for name, _, version in parts}

    variants = {}
    for block in recipe.body:
        if isinstance(block, ast.With):
            (condition,) = block.items
            assert isinstance(condition.context_expr, ast.Call)
            variants[ast.literal_eval(condition.context_expr.args[0]).removeprefix("+")] = needed(block.body)
    extras = project["project"]["optional-dependencies"]
    assert variants == {name: spelled(extras[name]) for name in variants}
    rust = re.search(r'rust-version = "([\d.]+)"', (ROOT / "Cargo.toml").read_text())
    assert rust is not None
    python = project["project"]["requires-python"].removeprefix(">=")
    others = {f"rust@{rust[1]}:", f"python@{python}:", "c", "libfuse@3:"}
    pure = project["project"]["dependencies"] + project["build-system"]["requires"]
    assert needed(recipe.body) == spelled(pure) | others


def test_a_build_within_a_test_is_that_of_the_package() -> None:
    """With other packages or features cargo would compile crates again, in the midst of a test."""
    rust = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools-rust"]
    manifests = [ROOT / part["path"] for part in [*rust["ext-modules"], *rust["bins"]]]
    packaged = {tomllib.loads(path.read_text())["package"]["name"] for path in manifests}
    programs = (ROOT / "crates/testing/src/programs.rs").read_text()
    assert set(re.findall(r'"--package=([^"]+)"', programs)) == packaged
    features = re.findall(r'"(--features=[^"]+)"', programs)
    assert features == re.findall(r'"(--features=[^"]+)"', (ROOT / "setup.py").read_text())
    assert len(features) == 1
