"""Results on standard output: a table for people, JSON for programs."""

import json
import math
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click

from weir.amounts import Quantity as Quantity
from weir.amounts import seconds as seconds
from weir.amounts import share as share
from weir.amounts import share_or_dash as share_or_dash
from weir.amounts import size as size
from weir.plain_text import plain

Row = Sequence[object]
"""Cells of one line of a table."""
Command = TypeVar("Command", bound=Callable[..., Any])

_NAME_MAX = 14
"""Longest name of a job or user: longer names would push the figures out of a terminal of 120 columns."""


def output_option(command: Command) -> Command:
    """Add the option `--output table|json|ndjson` to a command.

    Args:
        command: Function of the command.

    Returns:
        The function with the option.
    """
    return click.option(
        "--output",
        type=click.Choice(["table", "json", "ndjson"]),
        default="table",
        help="A table for people, one JSON document, or one JSON object a line.",
    )(command)


def json_text(document: Any, *, indent: int | None = None, separators: tuple[str, str] | None = None) -> str:
    """Spell a result as JSON, which has neither NaN nor infinities: such numbers are `null`.

    Args:
        document: The result as values for JSON.
        indent: Blanks of each level; None is one line.
        separators: As for `json.dumps`.

    Returns:
        The text, which every reader of JSON takes.
    """
    try:
        return json.dumps(document, indent=indent, separators=separators, allow_nan=False)
    except ValueError:
        return json.dumps(_finite(document), indent=indent, separators=separators, allow_nan=False)


def _finite(value: Any) -> Any:
    """The same value with None for each number that is not finite."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {name: _finite(each) for name, each in value.items()}
    return [_finite(each) for each in value] if isinstance(value, list | tuple) else value


def show(output: str, document: Any, header: Sequence[str], rows: Sequence[Row]) -> None:
    """Print a result, as JSON or as a table.

    Args:
        output: Value of `--output`.
        document: The result as values for JSON; with `ndjson` a list has a line for each entry.
        header: Titles of the table's columns.
        rows: Lines of the table.
    """
    if output == "json":
        print(json_text(document, indent=2))
    elif output == "ndjson":
        for item in document if isinstance(document, list) else [document]:
            print(json_text(item))
    else:
        print_table(header, rows)


def print_table(header: Sequence[str], rows: Sequence[Row]) -> None:
    """Print a table with aligned columns; columns of numbers stand to the right.

    Args:
        header: Titles of the columns.
        rows: Lines of the table.
    """
    title, *lines = table_lines(header, rows)
    print(bold(title))
    for line in lines:
        print(line)


def table_lines(header: Sequence[str], rows: Sequence[Row]) -> list[str]:
    """Lay a table out; unprintable characters in a cell are escaped.

    Args:
        header: Titles of the columns.
        rows: Lines of the table.

    Returns:
        The lines of text, the header first.
    """
    cells = [[plain(str(cell)) for cell in row] for row in rows]
    widths = [max(len(line[column]) for line in [list(header), *cells]) for column in range(len(header))]
    right = [
        bool(rows) and all(isinstance(row[column], int | float | Quantity) for row in rows)
        for column in range(len(header))
    ]
    return [_line(line, widths, right) for line in [list(header), *cells]]


def bold(text: str) -> str:
    """Make a text bold, if standard output is a terminal that wants it.

    Returns:
        The text in bold, or as it is.
    """
    return f"\x1b[1m{text}\x1b[0m" if sys.stdout.isatty() and not os.environ.get("NO_COLOR") else text


def sharing_name(policy: str, scheduler: str) -> str:
    """Name a policy and its scheduler.

    Returns:
        Both names; one name for `fifo`, which is both.
    """
    return policy if policy == scheduler else f"{policy} by {scheduler}"


def name(text: str) -> str:
    """Cut a name to the width of a terminal's column.

    Args:
        text: The name.

    Returns:
        The cut name on a terminal, the whole name elsewhere.
    """
    return text if len(text) <= _NAME_MAX or not sys.stdout.isatty() else text[: _NAME_MAX - 1] + "…"


def _line(cells: Sequence[str], widths: Sequence[int], right: Sequence[bool]) -> str:
    aligned = (
        cell.rjust(width) if number else cell.ljust(width)
        for cell, width, number in zip(cells, widths, right, strict=True)
    )
    return "  ".join(aligned).rstrip()
