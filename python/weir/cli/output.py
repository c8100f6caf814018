"""Results on standard output: a table for people, JSON for programs."""

import json
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click

from weir.cli.plain_text import plain

Row = Sequence[object]
Command = TypeVar("Command", bound=Callable[..., Any])

_NAME_MAX = 14
"""Longer names of jobs and users would push the figures out of a terminal of 120 columns."""
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")


def output_option(command: Command) -> Command:
    """Add `--output table|json|ndjson`."""
    return click.option(
        "--output",
        type=click.Choice(["table", "json", "ndjson"]),
        default="table",
        show_default=True,
        help="A table for people, one JSON document, or one JSON object a line.",
    )(command)


def show(output: str, document: Any, header: Sequence[str], rows: Sequence[Row]) -> None:
    """Print `document` as JSON, or `rows` under `header` as a table."""
    if output == "json":
        print(json.dumps(document, indent=2))
    elif output == "ndjson":
        for item in document if isinstance(document, list) else [document]:
            print(json.dumps(item))
    else:
        print_table(header, rows)


def print_table(header: Sequence[str], rows: Sequence[Row]) -> None:
    """Print aligned columns; columns of numbers to the right."""
    title, *lines = table_lines(header, rows)
    print(bold(title))
    for line in lines:
        print(line)


def table_lines(header: Sequence[str], rows: Sequence[Row]) -> list[str]:
    """The lines of a table, its header first; what is not printable in a cell is escaped."""
    cells = [[plain(str(cell)) for cell in row] for row in rows]
    widths = [max(len(line[column]) for line in [list(header), *cells]) for column in range(len(header))]
    right = [
        bool(rows) and all(isinstance(row[column], int | float | Quantity) for row in rows)
        for column in range(len(header))
    ]
    return [_line(line, widths, right) for line in [list(header), *cells]]


def bold(text: str) -> str:
    """`text` in bold where standard output is a terminal that wants it."""
    return f"\x1b[1m{text}\x1b[0m" if sys.stdout.isatty() and not os.environ.get("NO_COLOR") else text


class Quantity(str):
    """A number with its unit, as text; aligned as a number."""


def size(count: float) -> Quantity:
    """A number of bytes: with a binary unit on a terminal, plain elsewhere."""
    if not sys.stdout.isatty():
        return Quantity(int(count))
    return Quantity(human_size(count))


def human_size(count: float) -> str:
    """A number of bytes with a binary unit."""
    unit = 0
    while count >= 1024 and unit < len(_UNITS) - 1:
        count /= 1024
        unit += 1
    return f"{count:.0f} B" if unit == 0 else f"{count:.1f} {_UNITS[unit]}"


def seconds(duration: float) -> Quantity:
    """A duration: with a fitting unit on a terminal, plain seconds elsewhere."""
    if not sys.stdout.isatty():
        return Quantity(f"{duration:.6f}")
    if duration < 1e-3:
        return Quantity(f"{duration * 1e6:.0f} us")
    if duration < 1:
        return Quantity(f"{duration * 1e3:.1f} ms")
    return Quantity(f"{duration:.1f} s")


def share(fraction: float) -> Quantity:
    """A share of the whole, in percent."""
    return Quantity(f"{fraction * 100:.1f}%")


def share_or_dash(fraction: float | None) -> Quantity:
    """A share of the whole, or a dash where there is none."""
    return Quantity("-") if fraction is None else share(fraction)


def sharing_name(policy: str, scheduler: str) -> str:
    """A policy and who enforces it; `fifo` is both."""
    return policy if policy == scheduler else f"{policy} by {scheduler}"


def name(text: str) -> str:
    """A name: cut to what a column of a terminal holds, whole elsewhere."""
    return text if len(text) <= _NAME_MAX or not sys.stdout.isatty() else text[: _NAME_MAX - 1] + "…"


def _line(cells: Sequence[str], widths: Sequence[int], right: Sequence[bool]) -> str:
    aligned = (
        cell.rjust(width) if number else cell.ljust(width)
        for cell, width, number in zip(cells, widths, right, strict=True)
    )
    return "  ".join(aligned).rstrip()
