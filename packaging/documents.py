"""The manual pages of all programs, and the completion of `weir` for the shells, as files below `share`.

The pages of `weir` and the scripts of the shells are made from its commands, so they name every option. The pages of
the other programs lie in `man`. They are of section 8, because `weir mount` and `weir-mount` would share a page's name.
"""

import re
import shutil
from pathlib import Path

import click
from click.shell_completion import ShellComplete, get_completion_class
from click_man.core import write_man_pages
from weir.cli.common.listing import purpose

_HERE = Path(__file__).resolve().parent
_PROGRAM = "weir"
_KEPT = ("systemd", "modules", "spack")
"""Folders for administrators, which the package brings below `share/weir`."""
_COMPLETIONS = {
    "bash": f"bash-completion/completions/{_PROGRAM}",
    "zsh": f"zsh/site-functions/_{_PROGRAM}",
    "fish": f"fish/vendor_completions.d/{_PROGRAM}.fish",
}
"""Places below `share` in which the shells look for a program's completion."""


def write(share: Path, command: click.Group, version: str) -> None:
    """Write all files.

    Args:
        share: The folder; it is made.
        command: The program `weir`.
        version: Version of the package.
    """
    pages = share / "man/man1"
    pages.mkdir(parents=True)
    _complete(command, command.name or _PROGRAM)
    write_man_pages(_PROGRAM, command, version=version, target_dir=str(pages))
    for page in pages.iterdir():
        page.write_text(_typeset(page.read_text()))
    shutil.copytree(_HERE / "man", share / "man/man8")
    for folder in _KEPT:
        shutil.copytree(_HERE / folder, share / "weir" / folder)
    for shell, place in _COMPLETIONS.items():
        script = share / place
        script.parent.mkdir(parents=True, exist_ok=True)
        script.write_text(_completion(shell, command))


def _complete(command: click.Command, name: str) -> None:
    """Import the subcommands of a group that finds them only when they are asked for, and name every command's purpose
    by a whole sentence.
    """
    command.short_help = command.short_help or purpose(command).rstrip(".")
    if isinstance(command, click.Group):
        context = click.Context(command, info_name=name)
        for child in command.list_commands(context):
            found = command.get_command(context, child)
            if found is None:
                raise LookupError(f"{name} lists {child} and does not have it")
            command.commands[child] = found
            _complete(found, child)


def _typeset(page: str) -> str:
    """Set code in bold, keep hyphens as they are typed, and name pages by their files."""
    page = re.sub(r"`([^`]+)`", r"\\fB\1\\fP", page)
    page = re.sub(r"(?<!\\)-", r"\\-", page)
    page = re.sub(r'(?<=^\.TH ")[^"]+', lambda title: title[0].replace(" ", "\\-"), page)
    return re.sub(r"\\fB([^\\\n]+(?:\\-[^\\\n]+)*)\(1\)\\fP", lambda name: name[0].replace(" ", "\\-"), page)


def _completion(shell: str, command: click.Command) -> str:
    made = get_completion_class(shell)
    if made is None:
        raise LookupError(f"click has no completion for {shell}")
    # A class may look for the shell of this machine, which need not be that of the user.
    return ShellComplete.source(made(command, {}, _PROGRAM, f"_{_PROGRAM.upper()}_COMPLETE"))
