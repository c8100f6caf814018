"""What a user is told when a command cannot do its work: one line, and what to do about it."""

import sys
from typing import NoReturn

import click

from weir.cli.foreign import plain

FAILED = 1
"""Exit code of a command that failed or whose answer is no."""
USAGE = 2
"""Exit code of a command that was called wrongly."""


class Failure(click.ClickException):
    """A command that cannot go on: what happened, and a hint what to do."""

    def __init__(self, message: str, *, hint: str = "", exit_code: int = FAILED) -> None:
        """Say `message` and `hint`, and end the program with `exit_code`."""
        super().__init__(message)
        self.hint = hint
        self.code = exit_code


def say(words: str) -> None:
    """Tell the user something that is not data; names in it may be anybody's."""
    _tell("", words)


def warn(words: str, *, hint: str = "") -> None:
    """Tell the user of something that went wrong but does not end the command."""
    _tell(coloured("warning:", 33), words)
    if hint:
        _tell(coloured("hint:", 36), hint)


def report(message: str, hint: str) -> None:
    """Print an error in its two lines."""
    _tell(coloured("error:", 31), message)
    if hint:
        _tell(coloured("hint:", 36), hint)


def coloured(text: str, colour: int) -> str:
    """`text` in an ANSI colour where standard error is a terminal that wants colours."""
    import os

    if sys.stderr.isatty() and not os.environ.get("NO_COLOR"):
        return f"\x1b[1;{colour}m{text}\x1b[0m"
    return text


def _tell(mark: str, words: str) -> None:
    print(f"{mark} {plain(words)}" if mark else plain(words), file=sys.stderr)


def not_installed(error: Exception) -> NoReturn:
    """Fail because a part of the package is missing."""
    raise Failure(str(error), hint="install the package with `pip install .`, or set WEIR_PROGRAMS") from error
