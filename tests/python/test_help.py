"""`weir --help` shows every command, and each command its options."""

import re
import subprocess
import sys
from pathlib import Path

import click
import pytest
import weir
from waits import PATIENCE_SECONDS
from weir import cli, native

COMMANDS = cli.weir.list_commands(click.Context(cli.weir))


def run_help(*arguments: str) -> str:
    command = [sys.executable, "-m", "weir.cli", *arguments, "--help"]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=True).stdout


def test_every_command_is_listed_once_by_its_purpose_with_a_whole_sentence() -> None:
    _, *sections = re.split(r"^(Run jobs|See|Administer|Plan|Research):$", run_help(), flags=re.M)
    listed = [name for rows in sections[1::2] for name in re.findall(r"^  (\w+) ", rows, flags=re.M)]
    assert sections[::2] == ["Run jobs", "See", "Administer", "Plan", "Research"]
    assert sorted([*listed, "help"]) == sorted(COMMANDS)
    assert "..." not in "".join(sections)


@pytest.mark.parametrize("group", ["plan", "interference", "bench"])
def test_a_group_cuts_no_sentence(group: str) -> None:
    assert "..." not in run_help(group).partition("Commands:")[2]


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself(command: str) -> None:
    assert run_help(command).startswith(f"Usage: weir {command}")


def test_help_imports_nothing_heavy() -> None:
    question = (
        "import sys, click\n"
        "from weir import cli\n"
        "try:\n    cli.weir.main(['--help'], prog_name='weir')\n"
        "except SystemExit:\n    pass\n"
        "heavy = {'http.client', 'urllib.request', 'ssl', 'numpy', 'tomllib', 'weir._core', 'asyncio', 'subprocess'}\n"
        "print(sorted(heavy & set(sys.modules)), file=sys.stderr)\n"
    )
    answer = subprocess.run(
        [sys.executable, "-c", question], capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=True
    )
    assert answer.stderr == "[]\n"


def test_every_result_can_be_had_as_json() -> None:
    def leaves(command: click.Command, path: str) -> list[tuple[str, click.Command]]:
        if isinstance(command, click.Group):
            context = click.Context(command)
            found = []
            for name in command.list_commands(context):
                child = command.get_command(context, name)
                assert child is not None
                found += leaves(child, f"{path} {name}")
            return found
        return [(path, command)]

    silent = {
        "weir run",
        "weir job run",
        "weir job release",
        "weir job resume",
        "weir job ornament",
        "weir interference gather",
        "weir interference serve",
        "weir record",
        "weir room",
        "weir serve server",
        "weir serve mount",
        "weir layout set",
        "weir logs",
        "weir help",
        "weir planner",
        "weir config export",
        "weir config reference",
        "weir stats publish",
        "weir stats subscribe",
        "weir trace export",
        "weir simulate topology",
    }
    for path, command in leaves(cli.weir, "weir"):
        names = {parameter.name for parameter in command.params}
        assert ("output" in names) == (path not in silent), path


@pytest.mark.parametrize(
    "arguments", [["nonsense"], ["up", "--servers", "0"], ["run"], ["jobs", "--output", "xml"], ["--nonsense"]]
)
def test_wrong_usage_is_one_line_a_hint_and_exit_code_2(arguments: list[str]) -> None:
    command = [sys.executable, "-m", "weir.cli", *arguments]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False)
    assert answer.returncode == 2
    assert answer.stdout == ""
    first, second = answer.stderr.splitlines()
    assert first.startswith("error: ")
    assert second.startswith("hint: ")


@pytest.mark.parametrize("group", [[], ["adapt"], ["policy"]])
def test_a_group_without_a_command_shows_its_help_in_lines(group: list[str]) -> None:
    """The help was reported as an error of one line, with its ends of lines escaped."""
    command = [sys.executable, "-m", "weir.cli", *group]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False)
    # Click before 8.2 takes the missing command for a wish for help.
    shown = answer.stderr if hasattr(click.exceptions, "NoArgsIsHelpError") else answer.stdout
    assert answer.returncode == (2 if shown == answer.stderr else 0)
    assert shown.strip() == run_help(*group).strip()


def test_a_reader_that_goes_away_is_no_error() -> None:
    command = f"{sys.executable} -m weir.cli config show | true"
    answer = subprocess.run(
        ["sh", "-c", command], capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False
    )
    assert answer.stderr == ""


def test_the_reference_page_is_what_the_settings_say() -> None:
    page = Path(__file__).resolve().parents[2] / "docs" / "reference" / "settings.md"
    command = [sys.executable, "-m", "weir.cli", "config", "reference"]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=True)
    assert page.read_text() == answer.stdout, f"write it anew: weir config reference > {page}"


def test_help_is_a_command_too() -> None:
    def words(*arguments: str) -> str:
        command = [sys.executable, "-m", "weir.cli", "help", *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=True).stdout

    assert words() == run_help()
    assert words("layout", "set") == run_help("layout", "set")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["statsu"], "there is no command 'statsu'; did you mean `weir stats` or `weir status`?"),
        (["zzz"], "there is no command 'zzz'"),
        (["help", "layot"], "there is no command 'layot'; did you mean `weir layout`?"),
        (["help", "up", "now"], "`weir up` has no command 'now'"),
        (["layout", "sett"], "No such command 'sett'"),
        (["--hom", "x", "status"], "No such option"),
    ],
)
def test_a_mistyped_command_is_told_the_nearest_ones(words: list[str], told: str) -> None:
    command = [sys.executable, "-m", "weir.cli", *words]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False)
    assert answer.returncode == 2
    assert answer.stdout == ""
    assert f"error: {told}" in answer.stderr


@pytest.mark.parametrize(
    ("program", "name"),
    [
        ([sys.executable, "-m", "weir.cli"], "weir"),
        ([native.server_program()], "weir-server"),
        ([native.mount_program()], "weir-mount"),
        ([native.mover_program()], "weir-move"),
    ],
)
def test_every_program_tells_the_version_of_the_package(program: list[str | Path], name: str) -> None:
    command = [*program, "--version"]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=True)
    assert answer.stdout == f"{name} {weir.__version__}\n"
