"""Errors of the packages that programs call speak of arguments and of whole commands, not of flags of commands."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import click
import pytest
from weir.cli import weir
from weir.cli.common import errors
from weir.store.errors import StoreError
from weir.store.identity import Identity

PACKAGE = Path(__file__).resolve().parents[2] / "python" / "weir"
FLAG = re.compile(r"(?<![\w`-])--[a-z][a-z-]*")
COMMAND = re.compile(r"`(?:[a-z]+|\{\}) [^`]*`")
"""A whole command, with its flags."""
OF_SCRIPTS = {"sbatch_options.py", "ornaments.py"}
"""Modules that read the options of other programs, and tell their user of those."""


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


def test_no_message_names_a_flag() -> None:
    """A caller of `weir.adaptive.write` was told to continue the stream with --append."""
    found = {
        f"{path.relative_to(PACKAGE)}:{line}": text
        for path in sorted(PACKAGE.rglob("*.py"))
        if path.relative_to(PACKAGE).parts[0] != "cli" and path.name not in OF_SCRIPTS
        for line, text in told(ast.parse(path.read_text()))
        if FLAG.search(COMMAND.sub("", text))
    }
    assert found == {}


def flagged(command: click.Command, words: str) -> str:
    parent = click.Context(weir, info_name="weir")
    return errors.with_flags(words, click.Context(command, parent=parent, info_name=command.name))


@click.command()
@click.option("--out", "folder")
@click.option("-f", "--changed", "is_changed_allowed", is_flag=True)
@click.option("--skip-too-large", is_flag=True)
@click.argument("topology")
def example() -> None:
    """A command with options of each form."""


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        ("choose another `folder`", "choose another `--out`"),
        ("keep them by `is_changed_allowed`", "keep them by `--changed`"),
        ("leave such logs out by `skip_too_large`", "leave such logs out by `--skip-too-large`"),
        ("the option's own name, `out`, is known too", "the option's own name, `--out`, is known too"),
        ("choose another `home`", "choose another `--home`"),
        ("a key such as `path`, or the `topology`", "a key such as `path`, or the `topology`"),
        ("`weir down` and `weir up`", "`weir down` and `weir up`"),
    ],
)
def test_the_command_line_puts_its_flags_into_the_place_of_arguments(words: str, shown: str) -> None:
    assert flagged(example, words) == shown
    assert errors.with_flags(words, None) == words


ADVICE = {
    "weir.deployment": ("weir.cli.deploy:deploy", "nodes", "program", "mount", "via", "ssh_options", "port", "network"),
    "weir.simulation.sweeps": ("weir.cli.simulate.sweep:sweep", "folder", "is_changed_allowed"),
    "weir.simulation.tuning": ("weir.cli.simulate.tune:tune", "folder", "policies", "skip_too_large"),
    "weir.provisioning.learning": ("weir.cli.classes:build_classes", "to", "io_fraction_min"),
    "weir.provisioning.stress": ("weir.cli.stress:stress", "out", "processes", "bytes"),
}
"""The command whose functions name these arguments in their messages."""


@pytest.mark.parametrize("package", ADVICE)
def test_an_argument_in_a_message_is_an_option_of_its_command(package: str) -> None:
    """The hints of a sweep and of a tuning once lost `--changed` and `--skip-too-large`."""
    place, *names = ADVICE[package]
    module, attribute = place.split(":")
    command = getattr(import_module(module), attribute)
    files = sorted((PACKAGE.parent / package.replace(".", "/")).rglob("*.py"))
    words = "\n".join(text for path in files for _, text in told(ast.parse(path.read_text())))
    for name in names:
        assert f"`{name}`" in words, f"{package} names no `{name}`"
        assert flagged(command, f"`{name}`").startswith("`--"), f"{place} has no option for `{name}`"


def test_a_failed_command_names_its_flag(tmp_path: Path) -> None:
    """The error comes from a function of the package, far below the command."""
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "other").touch()
    (tmp_path / "sweep.toml").write_text(
        'topology = "16x8"\n[[jobs]]\ngenerator = "ior"\nprocesses = 4\n[sweep]\nseed = [1]\n'
    )
    command = (sys.executable, "-m", "weir.cli", "simulate", "sweep", "sweep.toml", "--out", "out")
    answer = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert answer.returncode == 1, answer.stderr
    assert "hint: choose a `--out` that is new, or one of a sweep" in answer.stderr


def test_the_name_of_a_job_that_is_no_utf8_is_what_is_wrong() -> None:
    """`weir run --job` with a byte of Latin-1 told of a codec and a position."""
    with pytest.raises(StoreError, match="has bytes that are no UTF-8") as refused:
        Identity.of_process("caf\udce9").mint("00" * 32, 60)
    assert "jobs" in refused.value.hint
