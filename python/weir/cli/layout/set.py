"""`weir layout set`: the layout of new files of a directory, or of an empty file."""

import os
from pathlib import Path

import click

from weir.cli.common.errors import USAGE, CommandError, warn
from weir.cli.common.layout_attribute import ATTRIBUTE, failure
from weir.cli.common.options import complete_files
from weir.cli.common.parameters import EXISTING_FILE
from weir.store.home import Home

_FILE_PERMISSIONS = 0o666
"""Permissions of a file that is made to have a layout, before the umask."""


@click.command(name="set", context_settings={"ignore_unknown_options": True})
@click.argument("words", metavar="[LAYOUT] PATH", nargs=-1, type=click.UNPROCESSED, shell_complete=complete_files)
@click.option("--ini", type=EXISTING_FILE, help="Take the layout from this .ini file.")
@click.option("--spread/--no-spread", default=None, help="Give new subdirectories homes on all servers.")
@click.pass_obj
def set_layout(home: Home, words: tuple[str, ...], ini: Path | None, spread: bool | None) -> None:
    """Set the layout of a directory's new files, or make an empty file that has it.

    LAYOUT is spelled as for `lfs setstripe`: -c COUNT stripes (-1: all targets) of -S SIZE bytes on targets -o
    TARGET,TARGET..., and for a layout that changes along the file -E END in front of each part, such as -E 128M -c 1 -E
    512M -c 3 -E 2G -c 8 -E -1 -c 16. Existing files keep their layout.
    """
    from weir import _core

    spelling, path = _take_apart(words)
    if spelling and ini is not None:
        raise click.UsageError("--ini and the options of a layout contradict each other")
    try:
        if ini is not None:
            spelling = _core.layout_from_ini(ini.read_text())
        if spelling:
            _core.parse_layout(spelling)
    except (ValueError, UnicodeDecodeError) as error:
        raise CommandError(f"{ini or path}: {error}", hint="see `weir layout set --help`", exit_code=USAGE) from error
    if not spelling and spread is None:
        raise click.UsageError("nothing to set: give a layout such as -c 4 -S 1M, --ini FILE or --spread")
    _check_stripes(home, spelling)
    value = " ".join([spelling] * bool(spelling) + ["spread=" + ("yes" if spread else "no")] * (spread is not None))
    _set(path, value)


def _take_apart(words: tuple[str, ...]) -> tuple[str, Path]:
    """The layout's spelling and the path, which may stand before or behind it."""
    spelling: list[str] = []
    paths: list[str] = []
    rest = iter(words)
    for word in rest:
        if not word.startswith("-"):
            paths.append(word)
            continue
        option, separator, value = word.partition("=")
        given = [value] if separator else [following for following in [next(rest, None)] if following is not None]
        spelling += [option, *given]
    if len(paths) != 1:
        raise click.UsageError(f"expected one path beside the layout, not {len(paths)}: {' '.join(paths) or 'none'}")
    path = Path(paths[0])
    if paths[0].endswith(("/", "/.")) and not path.is_dir():
        raise CommandError(
            f"{paths[0]} is no directory", hint="make it with `mkdir` first; a new file's name ends in no slash"
        )
    return " ".join(spelling), path


def _check_stripes(home: Home, spelling: str) -> None:
    """Refuse more stripes than targets, and warn of layouts that the Lustre manual advises against. Without the number
    of targets nothing is checked.
    """
    from weir import _core
    from weir.store import cluster

    if not spelling or not home.cluster.is_file():
        return
    targets = sum(len(server["target"]) for server in cluster.running(home).servers)
    try:
        warning = _core.layout_warning(spelling, targets)
    except ValueError as error:
        raise CommandError(str(error), hint="`weir targets` lists them") from error
    if warning:
        warn(warning)


def _set(path: Path, value: str) -> None:
    """Set the attribute. A missing file is made, and removed again where it cannot have the layout."""
    is_made = False
    try:
        if not path.exists():
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _FILE_PERMISSIONS))
            is_made = True
        os.setxattr(path, ATTRIBUTE, value.encode())
    except OSError as error:
        if is_made:
            path.unlink(missing_ok=True)
        raise failure(path, error) from error
