"""`weir layout`: the distribution of files' bytes over targets."""

import os
from pathlib import Path

import click

from weir.cli.advise import advise
from weir.cli.errors import USAGE, CommandError, warn
from weir.cli.layout_attribute import ATTRIBUTE, failure, layout_of
from weir.cli.listing import Listing
from weir.cli.options import complete_files
from weir.cli.output import output_option, show, size
from weir.cli.parameters import EXISTING_FILE, PATH
from weir.store.home import Home

_FILE_PERMISSIONS = 0o666
"""Permissions of a file that is made to have a layout, before the umask."""


@click.group(cls=Listing)
def layout() -> None:
    """Show, set or judge the distribution of files' bytes over targets."""


layout.add_command(advise)


@layout.command(name="get")
@click.argument("path", type=PATH)
@output_option
@click.pass_obj
def show_layout(home: Home, path: Path, output: str) -> None:
    """Show the layout of a file, or that of new files of a directory."""
    from weir import _core

    attribute = layout_of(path)
    components = _core.parse_layout(attribute.layout)
    document: dict[str, object] = {"path": str(path), "layout": attribute.layout, "components": components}
    if attribute.spread is not None:
        document["spread"] = attribute.spread
    rows = [
        (
            size(component["start"]),
            "end of file" if component["end"] is None else size(component["end"]),
            _stripes(component["stripes"]),
            "-" if component["stripe_bytes"] is None else size(component["stripe_bytes"]),
            ",".join(component["targets"]) or "chosen for each file",
        )
        for component in components
    ]
    show(output, document, ("FROM", "TO", "STRIPES", "STRIPE SIZE", "TARGETS"), rows)


@layout.command(name="set", context_settings={"ignore_unknown_options": True})
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


def _stripes(count: int | None) -> object:
    return {None: "default", -1: "all"}.get(count, count)
