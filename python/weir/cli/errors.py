"""What a user is told when a command cannot do its work: one line, and what to do about it."""

import sys

from weir.cli.plain_text import plain
from weir.errors import WeirError
from weir.store.errors import SettingsError
from weir.store.notices import Notice

FAILED = 1
"""Exit code of a command that failed or whose answer is no."""
USAGE = 2
"""Exit code of a command that was called wrongly."""


class CommandError(WeirError):
    """A command that cannot go on."""

    def __init__(self, message: str, *, hint: str = "", exit_code: int = FAILED) -> None:
        """Say `message` and `hint`, and end the program with `exit_code`."""
        super().__init__(message, hint=hint)
        self.code = exit_code


def exit_code(error: WeirError) -> int:
    """The code with which an error ends the program.

    Args:
        error: Any error of this package.

    Returns:
        `USAGE` where what the user gave cannot be used, else `FAILED`.
    """
    if isinstance(error, CommandError):
        return error.code
    return USAGE if isinstance(error, SettingsError) else FAILED


def say(words: str) -> None:
    """Tell the user something that is not data; names in it may be anybody's."""
    _tell("", words)


def warn(words: str, *, hint: str = "") -> None:
    """Tell the user of something that went wrong but does not end the command."""
    _tell(coloured("warning:", 33), words)
    if hint:
        _tell(coloured("hint:", 36), hint)


def tell(notice: Notice) -> None:
    """Tell the user what a store has to say."""
    if notice.hint:
        warn(notice.words, hint=notice.hint)
    else:
        say(notice.words)


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
