"""Tables as HTML, for notebooks: foreign text is escaped, and no colour is set, so a dark page stays dark."""

from collections.abc import Sequence
from html import escape

from weir.amounts import Quantity
from weir.plain_text import plain

ROWS_MAX = 30
"""Most rows of a table that are shown: a cell of a notebook is no place for a thousand jobs."""
_PLAIN = "tex2jax_ignore mathjax_ignore"
"""Classes of elements in which a dollar begins no formula: names of jobs and programs are foreign."""
_TABLE = "border-collapse: collapse; color: inherit; background: transparent"
_CAPTION = "caption-side: top; text-align: left; color: inherit"


def html_table(
    title: str, header: Sequence[str], rows: Sequence[Sequence[object]], *, notes: Sequence[str] = ()
) -> str:
    """Lay a table out as HTML.

    Args:
        title: Subject of the table, in front of it.
        header: Titles of the columns.
        rows: Cells of each row; None is an empty one, and columns of numbers stand to the right.
        notes: Sentences below the table.

    Returns:
        One `div`, with at most `ROWS_MAX` rows and a note about the others.
    """
    shown, below = rows[:ROWS_MAX], list(notes)
    if len(rows) > ROWS_MAX:
        below.insert(0, f"{len(rows) - ROWS_MAX:,} more rows are not shown")
    sides = ["right" if _is_numeric(rows, column) else "left" for column in range(len(header))]
    head = "".join(
        f'<th scope="col" style="text-align: {side}">{_text(name)}</th>'
        for name, side in zip(header, sides, strict=True)
    )
    body = "".join(
        "<tr>"
        + "".join(f'<td style="text-align: {side}">{_text(cell)}</td>' for cell, side in zip(row, sides, strict=True))
        + "</tr>"
        for row in shown
    )
    table = (
        f'<table style="{_TABLE}"><caption style="{_CAPTION}"><strong>{_text(title)}</strong></caption>'
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    )
    told = "".join(f"<div>{_text(note)}</div>" for note in below)
    return f'<div class="{_PLAIN}">{table}{told}</div>'


def _is_numeric(rows: Sequence[Sequence[object]], column: int) -> bool:
    cells = [row[column] for row in rows if row[column] is not None]
    return bool(cells) and all(isinstance(cell, int | float | Quantity) for cell in cells)


def _text(cell: object) -> str:
    """A cell without marks of HTML, and without characters that turn the direction of the text around it."""
    if cell is None:
        return ""
    return escape(plain(f"{cell:.4g}" if isinstance(cell, float) else str(cell)))
