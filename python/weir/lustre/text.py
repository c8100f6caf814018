"""The common part of all readers of text: numbers, and one error with file, line and expectation."""

import math
import re
from typing import NoReturn

_SHOWN_MAX = 60
"""Characters of a wrong line that an error repeats."""
_COUNT = re.compile(r"\d{1,20}")
"""As many digits as 2^64 has; more is no number of the kernel's."""
_SIGNED = re.compile(r"-?\d{1,20}")
_DECIMAL = re.compile(r"\d{1,20}(\.\d{1,20})?")


class MalformedError(ValueError):
    """Text of another form than expected."""

    def __init__(self, source: str, line: int, expected: str, found: str) -> None:
        """Say that in line `line` (from 1) of `source` stood `found` where `expected` should."""
        shown = found if len(found) <= _SHOWN_MAX else f"{found[:_SHOWN_MAX]}..."
        super().__init__(f"{source}:{line}: expected {expected}, found {shown!r}")
        self.source = source
        self.line = line
        self.expected = expected


class Place:
    """A line of a text, for the error about it."""

    def __init__(self, source: str, line: int, text: str) -> None:
        """Line `line` (from 1) of `source`, which says `text`."""
        self.source = source
        self.line = line
        self.text = text

    def malformed(self, expected: str) -> NoReturn:
        """Fail because this line is not `expected`."""
        raise MalformedError(self.source, self.line, expected, self.text)

    def count(self, word: str, what: str) -> int:
        """A whole number from 0."""
        if not _COUNT.fullmatch(word):
            self.malformed(what)
        return int(word)

    def signed(self, word: str, what: str) -> int:
        """A whole number; Lustre prints a sum of squares that ran over as a negative one."""
        if not _SIGNED.fullmatch(word):
            self.malformed(what)
        return int(word)

    def decimal(self, word: str, what: str) -> float:
        """A number of seconds or the like, with or without a fraction."""
        if not _DECIMAL.fullmatch(word) or not math.isfinite(value := float(word)):
            self.malformed(what)
        return value


def lines(text: str, source: str) -> list[Place]:
    """The lines of `text` that are not blank.

    Only line feeds end a line: Python's other line ends may stand in names of jobs.
    """
    return [Place(source, number, line) for number, line in enumerate(text.split("\n"), start=1) if line.strip()]
