"""`weir layout`: how the bytes of files are spread over targets."""

import errno
import os
import re
from pathlib import Path

import click

from weir.cli.errors import Failure
from weir.cli.home import Home
from weir.cli.output import output_option

ATTRIBUTE = "weir.layout"
"""Extended attribute of files and directories that holds their layout."""

_UNITS = {"": 0, "k": 1, "m": 2, "g": 3}


class SizeType(click.ParamType[int]):
    """A number of bytes, such as 65536, 64k or 1MiB; the prefixes are binary."""

    name = "size"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Turn text into bytes."""
        if isinstance(value, int):
            return value
        match = re.fullmatch(r"(\d+)\s*([kmg]?)(i?b)?", str(value).strip().lower())
        if match is None:
            self.fail(f"`{value}` is not a size; use bytes, 64k or 1MiB", param, ctx)
        prefix: int = _UNITS[match[2]]
        return int(match[1]) << (10 * prefix)


@click.group()
def layout() -> None:
    """Show or set how the bytes of files are spread over targets."""


@layout.command(name="get")
@click.argument("path", type=click.Path(path_type=Path))
@output_option
@click.pass_obj
def show_layout(home: Home, path: Path, output: str) -> None:
    """Show the layout of a file, or the one that new files of a directory get."""
    from weir.cli.output import show

    try:
        text = os.getxattr(path, ATTRIBUTE).decode()
    except OSError as error:
        raise _failure(path, error) from error
    fields = parse(text)
    rows = [part.partition("=")[::2] for part in text.split()]
    show(output, {"path": str(path), **fields}, ("PATH", str(path)), rows)


@layout.command(name="set")
@click.argument("path", type=click.Path(path_type=Path))
@click.option("--stripe-size", type=SizeType(), help="Bytes of a stripe: a multiple of 4 KiB up to 4 MiB.")
@click.option("--stripe-count", type=click.IntRange(0), help="Targets of a file; 0 means all.")
@click.option("--spread/--no-spread", default=None, help="Give new subdirectories homes on all servers.")
@click.pass_obj
def set_layout(home: Home, path: Path, stripe_size: int | None, stripe_count: int | None, spread: bool | None) -> None:
    """Set the layout that new files of a directory get. Files that are there keep theirs."""
    parts = []
    if stripe_size is not None:
        parts.append(f"stripe_size={stripe_size}")
    if stripe_count is not None:
        parts.append(f"stripe_count={stripe_count}")
    if spread is not None:
        parts.append(f"spread={'yes' if spread else 'no'}")
    if not parts:
        raise click.UsageError("nothing to set: give --stripe-size, --stripe-count or --spread")
    try:
        os.setxattr(path, ATTRIBUTE, " ".join(parts).encode())
    except OSError as error:
        raise _failure(path, error) from error


def parse(text: str) -> dict[str, object]:
    """The fields of a layout's text."""
    fields: dict[str, object] = {}
    for part in text.split():
        key, _, value = part.partition("=")
        if key == "targets":
            fields[key] = value.split(",")
        elif key == "spread":
            fields[key] = value == "yes"
        else:
            fields[key] = int(value) if value.isdecimal() else value
    return fields


def _failure(path: Path, error: OSError) -> Failure:
    if error.errno in (errno.EOPNOTSUPP, errno.ENODATA):
        return Failure(f"{path} is not on a Weir store", hint="the store is at $WEIR_MOUNT; see `weir status`")
    if error.errno == errno.EINVAL:
        return Failure(
            f"{path} cannot have this layout",
            hint="a stripe is a multiple of 4 KiB up to 4 MiB, and only a directory's layout can be set",
        )
    return Failure(f"{path}: {error.strerror}")
