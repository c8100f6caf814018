"""CSV files whose cells no spreadsheet takes for formulas: names of files, jobs and programs are foreign text."""

import csv
from collections.abc import Iterable
from typing import TextIO

_BEGINS_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")
"""Characters with which a cell begins that spreadsheets take for a formula (OWASP, "CSV Injection")."""


class CsvTable:
    """A CSV file; every one that this package writes is written by this class."""

    def __init__(self, file: TextIO) -> None:
        """Begin a table.

        Args:
            file: The file, opened with `newline=""`.
        """
        # Its lines end in CR LF (RFC 4180, section 2), so that a cell with either of them is quoted.
        self._writer = csv.writer(file)

    def add(self, row: Iterable[object]) -> None:
        """Write one row. A text that a spreadsheet would calculate gets an apostrophe before it, and numbers stay.

        Args:
            row: The cells; None is an empty one.
        """
        self._writer.writerow([_harmless(cell) for cell in row])


def _harmless(cell: object) -> object:
    if not isinstance(cell, str) or not cell.startswith(_BEGINS_FORMULA):
        return cell
    try:
        float(cell)
    except ValueError:
        return f"'{cell}"
    # A negative number is no formula.
    return cell
