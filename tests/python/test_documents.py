"""The manual pages and the shells' completions, as the wheel brings them."""

import os
import pty
import re
import select
import shutil
import subprocess
import sys
import sysconfig
import time
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from waits import PATIENCE_SECONDS
from weir import cli, native

ROOT = Path(__file__).resolve().parents[2]
INSTALLED = Path(sysconfig.get_path("data")) / "share"
ENVIRONMENT = {
    **{name: value for name, value in os.environ.items() if not name.startswith("WEIR_")},
    "PATH": f"{sysconfig.get_path('scripts')}:{os.environ['PATH']}",
    "TERM": "dumb",
}


WRITE = """
import sys
from pathlib import Path
sys.path[:0] = sys.argv[2:]
sys.modules["weir._core"] = None
import documents
from weir import cli
documents.write(Path(sys.argv[1]), cli.weir, "1.2.3")
"""
"""Makes the documents as a build does, which has the sources and no compiled module."""


@pytest.fixture(scope="module")
def share(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The documents, made anew from the commands."""
    pytest.importorskip("click_man", reason="click-man makes the manual pages, and `make setup` installs it")
    folder = tmp_path_factory.mktemp("documents") / "share"
    sources = [str(ROOT / "python"), str(ROOT / "packaging")]
    command = [sys.executable, "-c", WRITE, str(folder), *sources]
    subprocess.run(command, env=ENVIRONMENT, timeout=PATIENCE_SECONDS, check=True)
    return folder


def commands(command: click.Command, path: str) -> Iterator[tuple[str, click.Command]]:
    """Every command, and every group of commands, by the words that call it."""
    yield path, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            child = command.get_command(context, name)
            assert child is not None
            yield from commands(child, f"{path} {name}")


def plain(page: Path) -> str:
    """A page without its typesetting."""
    return re.sub(r"\\f[BPI]", "", page.read_text()).replace("\\-", "-")


def test_every_command_has_a_page_with_its_options(share: Path) -> None:
    every = dict(commands(cli.weir, "weir"))
    assert len(every) > len(cli.weir.list_commands(click.Context(cli.weir)))
    for path, command in every.items():
        text = plain(share / f"man/man1/{path.replace(' ', '-')}.1")
        assert text.startswith(f'.TH "{path.replace(" ", "-").upper()}" "1"')
        for parameter in command.params:
            for name in (*parameter.opts, *parameter.secondary_opts) if isinstance(parameter, click.Option) else ():
                assert re.search(rf"^(.*[ ,])?{name}\b", text, re.MULTILINE), f"{path} {name}"
        for child in command.list_commands(click.Context(command)) if isinstance(command, click.Group) else ():
            assert f"{path.replace(' ', '-')}-{child}(1)" in text


@pytest.mark.parametrize("program", [native.server_program(), native.mount_program(), native.mover_program()])
def test_the_pages_of_other_programs_have_the_options_of_their_help(share: Path, program: Path) -> None:
    asked = subprocess.run([program, "--help"], capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=True)
    page = plain(share / f"man/man8/{program.name}.8")
    options = set(re.findall(r"--[a-z-]+", asked.stdout)) | {"--help"}
    assert options <= set(re.findall(r"--[a-z-]+", page))
    assert set(re.findall(r"^(--[a-z-]+)", page, re.MULTILINE)) == options


def test_pages_can_be_read(share: Path) -> None:
    if shutil.which("man") is None:
        pytest.skip("there is no man")
    for page in sorted((share / "man").glob("man*/*")):
        command: list[str | Path] = ["man", "--warnings", "--local-file", page]
        variables = {**ENVIRONMENT, "LC_ALL": "C.UTF-8", "MANPAGER": "cat"}
        answer = subprocess.run(
            command, env=variables, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=True
        )
        assert answer.stderr == ""
        assert "NAME" in answer.stdout and page.stem in answer.stdout


def test_the_wheel_has_installed_the_documents(share: Path) -> None:
    if not (INSTALLED / "man/man1/weir-run.1").exists():
        pytest.skip(f"this package was installed without its documents in {INSTALLED}: by a link to its sources")
    for made in [path for path in share.rglob("*") if path.is_file()]:
        assert (INSTALLED / made.relative_to(share)).is_file()


def typed(shell: list[str], lines: list[str], keys: str, wanted: str) -> None:
    """Type at the terminal of a shell until a word that was not typed stands there."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.execvpe(shell[0], shell, ENVIRONMENT)
    try:
        os.write(terminal, "".join(f"{line}\n" for line in [*lines, "echo rea''dy"]).encode())
        _await(terminal, r"[\r\n]ready")
        os.write(terminal, keys.encode())
        _await(terminal, wanted)
    finally:
        os.close(terminal)
        os.kill(pid, 9)
        os.waitpid(pid, 0)


def _await(terminal: int, wanted: str) -> None:
    shown = ""
    end = time.monotonic() + PATIENCE_SECONDS
    while re.search(wanted, shown) is None:
        left = end - time.monotonic()
        assert left > 0 and select.select([terminal], [], [], left)[0], f"no {wanted!r} in {shown!r}"
        shown += os.read(terminal, 4096).decode(errors="replace")


def test_bash_completes(share: Path) -> None:
    if shutil.which("bash") is None:
        pytest.skip("there is no bash")
    script = share / "bash-completion/completions/weir"
    typed(["bash", "--norc", "-i"], [f"source {script}"], "weir pol\t", r"weir policy")
    typed(["bash", "--norc", "-i"], [f"source {script}"], "weir up --back\t", r"--backend")


def test_bash_completes_the_files_of_a_program_that_runs_on_a_store(share: Path, tmp_path: Path) -> None:
    (tmp_path / "checkpoint.sh").touch()
    lines = [f"source {share / 'bash-completion/completions/weir'}", f"cd {tmp_path}"]
    typed(["bash", "--norc", "-i"], lines, "weir run -- sh check\t", r"weir run -- sh checkpoint\.sh")


def test_zsh_completes(share: Path) -> None:
    if shutil.which("zsh") is None:
        pytest.skip("there is no zsh")
    lines = [f"fpath=({share / 'zsh/site-functions'} $fpath)", "autoload -Uz compinit", "compinit -u -D"]
    typed(["zsh", "-f", "-i"], lines, "weir pol\t", r"icy")


def test_fish_completes(share: Path) -> None:
    if shutil.which("fish") is None:
        pytest.skip("there is no fish")
    script = f"source {share / 'fish/vendor_completions.d/weir.fish'}; complete --do-complete 'weir pol'"
    command = ["fish", "--no-config", "--command", script]
    answer = subprocess.run(
        command, env=ENVIRONMENT, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=True
    )
    assert [line.split("\t")[0] for line in answer.stdout.splitlines()] == ["policy"]


def test_completion_imports_nothing_heavy() -> None:
    """A program that starts at every TAB starts at once."""
    question = (
        "import sys\n"
        "from weir import cli\n"
        "try:\n    cli.weir.main([], prog_name='weir')\n"
        "except SystemExit:\n    pass\n"
        "heavy = {'http.client', 'urllib.request', 'ssl', 'numpy', 'weir._core', 'asyncio', 'subprocess'}\n"
        "print(sorted(heavy & set(sys.modules)), file=sys.stderr)\n"
    )
    asked = {"_WEIR_COMPLETE": "bash_complete", "COMP_WORDS": "weir up --back", "COMP_CWORD": "2"}
    answer = subprocess.run(
        [sys.executable, "-c", question],
        env={**ENVIRONMENT, **asked},
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=True,
    )
    assert (answer.stdout, answer.stderr) == ("plain,--backend\n", "[]\n")
