"""The common part of all readers of text: numbers, and one error with file, line and expectation."""

import math
import re
from typing import NoReturn

from weir.errors import Picklable

_SHOWN_MAX = 60
"""Characters of a wrong line that an error repeats."""
_COUNT = re.compile(r"\d{1,20}")
"""As many digits as 2^64 has; a longer number is none of the kernel's."""
_SIGNED = re.compile(r"-?\d{1,20}")
_DECIMAL = re.compile(r"\d{1,20}(\.\d{1,20})?")


class MalformedError(Picklable, ValueError):
    """Text of another form than expected.

    Attributes:
        source: Origin of the text.
        line: Number of the line, from 1.
        expected: The expected form, in words.
    """

    def __init__(self, source: str, line: int, expected: str, found: str) -> None:
        """Report a wrong line.

        Args:
            source: Origin of the text.
            line: Number of the line, from 1.
            expected: The expected form, in words.
            found: The line.
        """
        shown = found if len(found) <= _SHOWN_MAX else f"{found[:_SHOWN_MAX]}..."
        super().__init__(f"{source}:{line}: expected {expected}, found {shown!r}")
        self.source = source
        self.line = line
        self.expected = expected


class Place:
    """A line of a text, for the error about it."""

    def __init__(self, source: str, line: int, text: str) -> None:
        """Remember a line.

        Args:
            source: Origin of the text.
            line: Number of the line, from 1.
            text: The line without its end.
        """
        self.source = source
        self.line = line
        self.text = text

    def malformed(self, expected: str) -> NoReturn:
        """Fail because the line has another form.

        Args:
            expected: The expected form, in words.

        Raises:
            MalformedError: Always.
        """
        raise MalformedError(self.source, self.line, expected, self.text)

    def count(self, word: str, what: str) -> int:
        """Read a whole number from 0 with at most 20 digits.

        Args:
            word: The number's text.
            what: The expected form, for the error.

        Raises:
            MalformedError: The word is no such number.
        """
        if not _COUNT.fullmatch(word):
            self.malformed(what)
        return int(word)

    def signed(self, word: str, what: str) -> int:
        """Read a whole number, negative ones included: Lustre prints a sum of squares that overflowed as a negative
        number.

        Args:
            word: The number's text.
            what: The expected form, for the error.

        Raises:
            MalformedError: The word is no such number.
        """
        if not _SIGNED.fullmatch(word):
            self.malformed(what)
        return int(word)

    def decimal(self, word: str, what: str) -> float:
        """Read a number from 0, with or without a fraction.

        Args:
            word: The number's text.
            what: The expected form, for the error.

        Raises:
            MalformedError: The word is no such number.
        """
        if not _DECIMAL.fullmatch(word) or not math.isfinite(value := float(word)):
            self.malformed(what)
        return value


def lines(text: str, source: str) -> list[Place]:
    """Split a text into lines. Only line feeds end a line: Python's other line ends may stand in names of jobs.

    Args:
        source: Origin of the text, for errors.

    Returns:
        The lines that are not blank.
    """
    return [Place(source, number, line) for number, line in enumerate(text.split("\n"), start=1) if line.strip()]
