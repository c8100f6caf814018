"""A section of the page: a figure, a sentence and a table."""

from collections.abc import Sequence
from dataclasses import dataclass

ROWS_MAX = 500
"""Rows of a table of the page: more are for programs, which find them in the Parquet files."""
Cell = str | float | int | None


@dataclass(frozen=True, slots=True)
class Section:
    """A part of the page."""

    name: str
    """Its name, unique in the page."""
    title: str
    """Its title."""
    words: str
    """The figure in a few sentences."""
    svg: str
    """The figure, as an `svg` element."""
    header: Sequence[str]
    """Titles of the table's columns."""
    rows: Sequence[Sequence[Cell]]
    """The table, the most important rows first."""
    note: str = ""
    """The meaning of the figures in the table."""


def megabytes(rate: float | None) -> float | None:
    """Write a rate in MB/s.

    Args:
        rate: Bytes a second; None where there is none.

    Returns:
        MB/s, or None.
    """
    return None if rate is None else rate / 1e6


def gibibytes(count: float) -> float:
    """Write a number of bytes in GiB.

    Args:
        count: The bytes.
    """
    return count / (1 << 30)
