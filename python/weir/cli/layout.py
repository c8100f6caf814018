"""`weir layout`: how the bytes of files are spread over targets."""

import errno
import os
from dataclasses import dataclass
from pathlib import Path

import click

from weir.cli.advise import advise
from weir.cli.errors import Failure, warn
from weir.cli.home import Home
from weir.cli.output import output_option, size

ATTRIBUTE = "weir.layout"
"""Extended attribute of files and directories that holds their layout."""

_FILE_PERMISSIONS = 0o666
"""Of a file that is made to have a layout; the umask takes its part."""


@dataclass(frozen=True)
class LaidOut:
    """What the attribute says of a file or directory."""

    layout: str
    """In the spelling of `lfs setstripe`."""
    spread: bool | None
    """Whether a directory's subdirectories get homes on all servers; None for a file."""


@click.group()
def layout() -> None:
    """Show, set or judge how the bytes of files are spread over targets."""


layout.add_command(advise)


@layout.command(name="get")
@click.argument("path", type=click.Path(path_type=Path))
@output_option
@click.pass_obj
def show_layout(home: Home, path: Path, output: str) -> None:
    """Show the layout of a file, or the one that new files of a directory get."""
    from weir import _core
    from weir.cli.output import show

    laid_out = layout_of(path)
    components = _core.parse_layout(laid_out.layout)
    document: dict[str, object] = {"path": str(path), "layout": laid_out.layout, "components": components}
    if laid_out.spread is not None:
        document["spread"] = laid_out.spread
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
@click.argument("words", metavar="[LAYOUT] PATH", nargs=-1, type=click.UNPROCESSED)
@click.option(
    "--ini", type=click.Path(path_type=Path, exists=True, dir_okay=False), help="Take the layout from this .ini file."
)
@click.option("--spread/--no-spread", default=None, help="Give new subdirectories homes on all servers.")
@click.pass_obj
def set_layout(home: Home, words: tuple[str, ...], ini: Path | None, spread: bool | None) -> None:
    """Set the layout that new files of a directory get, or make an empty file that has it.

    LAYOUT is spelled as for `lfs setstripe`: -c COUNT stripes (-1: all targets) of -S SIZE bytes on targets -o
    TARGET,TARGET..., and for a layout that changes along the file -E END in front of each part, such as
    -E 128M -c 1 -E 512M -c 3 -E 2G -c 8 -E -1 -c 16. Files that are there keep their layout.
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
        raise Failure(f"{ini or path}: {error}", hint="see `weir layout set --help`") from error
    if not spelling and spread is None:
        raise click.UsageError("nothing to set: give a layout such as -c 4 -S 1M, --ini FILE or --spread")
    _check_stripes(home, spelling)
    value = " ".join([spelling] * bool(spelling) + ["spread=" + ("yes" if spread else "no")] * (spread is not None))
    _set(path, value)


def layout_of(path: Path) -> LaidOut:
    """The layout of a file or directory on a store.

    Raises:
        Failure: It is not on a store, or not there.
    """
    try:
        text = os.getxattr(path, ATTRIBUTE).decode()
    except OSError as error:
        raise _failure(path, error) from error
    spelling, separator, spread = text.partition(" spread=")
    return LaidOut(layout=spelling, spread=spread == "yes" if separator else None)


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
    return " ".join(spelling), Path(paths[0])


def _check_stripes(home: Home, spelling: str) -> None:
    """Refuse more stripes than targets and say what the Lustre manual advises against, where their number is known."""
    from weir import _core
    from weir.cli import cluster

    if not spelling or not home.cluster.is_file():
        return
    targets = sum(len(server["target"]) for server in cluster.running(home).servers)
    try:
        warning = _core.layout_warning(spelling, targets)
    except ValueError as error:
        raise Failure(str(error), hint="`weir targets` lists them") from error
    if warning:
        warn(warning)


def _set(path: Path, value: str) -> None:
    """Set the attribute; a file that is not there is made, and goes again where it cannot have the layout."""
    is_made = False
    try:
        if not path.exists():
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _FILE_PERMISSIONS))
            is_made = True
        os.setxattr(path, ATTRIBUTE, value.encode())
    except OSError as error:
        if is_made:
            path.unlink(missing_ok=True)
        raise _failure(path, error) from error


def _stripes(count: int | None) -> object:
    return {None: "default", -1: "all"}.get(count, count)


def _failure(path: Path, error: OSError) -> Failure:
    if error.errno in (errno.EOPNOTSUPP, errno.ENODATA):
        return Failure(f"{path} is not on a Weir store", hint="the store is at $WEIR_MOUNT; see `weir status`")
    if error.errno == errno.EINVAL:
        return Failure(
            f"{path} cannot have this layout",
            hint="stripes and ends of components are multiples of 4 KiB; at most 32 components and 512 stripes",
        )
    if error.errno == errno.ENXIO:
        return Failure(f"{path}: the layout names a target that the store has not", hint="`weir targets` lists them")
    if error.errno == errno.EBUSY:
        return Failure(
            f"{path} has bytes or is open: it keeps its layout",
            hint="copy it into a directory with the layout, or move its stripes with `weir rebalance`",
        )
    return Failure(f"{path}: {error.strerror}")
