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
RECIPE = ROOT / "packaging/spack/packages/weir_hpc/package.py"

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
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    tree = ast.parse(RECIPE.read_text())
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)]
    said = {str(ast.literal_eval(call.args[0])) for call in calls if call.func.id == "depends_on"}  # type: ignore[attr-defined]

    def spelled(requirement: str) -> str:
        name, _, version = requirement.partition(">=")
        return f"py-{name}" + (f"@{version}:" if version else "")

    needed = project["project"]["dependencies"] + project["project"]["optional-dependencies"]["deployment"]
    assert {spelled(requirement) for requirement in needed} <= said
    built = [requirement for requirement in project["build-system"]["requires"] if not requirement.startswith("click>")]
    assert {spelled(requirement) for requirement in built} <= said
    rust = re.search(r'rust-version = "([\d.]+)"', (ROOT / "Cargo.toml").read_text())
    assert rust is not None
    assert {f"rust@{rust[1]}:", f"python@{project['project']['requires-python'].removeprefix('>=')}:"} <= said
