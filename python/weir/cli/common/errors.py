"""Words on standard error: failures of commands, each with a remedy, warnings and notices."""

import re
import sys
from types import TracebackType

import click

from weir.errors import WeirError
from weir.plain_text import plain
from weir.store.errors import SettingsError
from weir.store.notices import Notice

FAILED = 1
"""Exit code of a command that failed, or whose answer is negative."""
USAGE = 2
"""Exit code of a command with wrong arguments or settings."""
_LINE_BEGIN = "\r\x1b[K"
"""Goes to the begin of the line and clears it (ECMA-48, EL)."""
_EXTRAS = (
    *("planner", "provisioning", "interference", "adaptive", "deployment", "staging", "simulation", "placement"),
    "plots",
    "report",
)
"""Packages of Weir whose extras have the same names."""
_ARGUMENT = re.compile(r"`([a-z]+(?:_[a-z]+)*)`")
"""The name of an argument in a message."""


class CommandError(WeirError):
    """A failure of a command.

    Attributes:
        code: Exit code of the program.
    """

    def __init__(self, message: str, *, hint: str = "", exit_code: int = FAILED) -> None:
        """Report a failure.

        Args:
            message: The failure, with the thing that it concerns.
            hint: A remedy; empty where none is known.
            exit_code: Exit code of the program.
        """
        super().__init__(message, hint=hint)
        self.code = exit_code


def exit_code(error: WeirError) -> int:
    """Find the exit code of an error.

    Args:
        error: Any error of this package.

    Returns:
        `USAGE` where the user's arguments, settings or scenario cannot be used, else `FAILED`.
    """
    from weir.simulation.errors import ScenarioError

    if isinstance(error, CommandError):
        return error.code
    return USAGE if isinstance(error, SettingsError | ScenarioError) else FAILED


def lacking(error: ModuleNotFoundError) -> CommandError:
    """Name the packages that a command needs.

    Args:
        error: The failure of an import.

    Returns:
        The error, whose hint installs the extra of that package of Weir which needs the module.
    """
    from traceback import walk_tb

    from weir.distribution import install_command

    places = (frame.f_globals.get("__name__", "").split(".") for frame, _ in walk_tb(error.__traceback__))
    extra = next((place[1] for place in places if place[0] == "weir" and place[1:2] and place[1] in _EXTRAS), None)
    hint = f"pip install {error.name}" if extra is None else install_command(extra)
    return CommandError(f"{error.name} is not installed", hint=hint)


def say(words: str) -> None:
    """Print words that are not data. Names in them may be foreign, and are escaped."""
    _tell("", words)


def with_flags(words: str, context: click.Context | None) -> str:
    """Name the options of a command in place of the arguments that they are for functions of the package.

    Args:
        words: A message, in which the name of an argument stands in backquotes.
        context: The running command; None where there is none.

    Returns:
        The message, in which an argument that the command has an option for is that option, in backquotes.
    """
    flags: dict[str, str] = {}
    while context is not None:
        for parameter in context.command.params:
            if isinstance(parameter, click.Option):
                flag = max(parameter.opts, key=len)
                for name in (parameter.name or "", flag.lstrip("-").replace("-", "_")):
                    flags.setdefault(name, flag)
        context = context.parent
    return _ARGUMENT.sub(lambda found: f"`{flags.get(found[1], found[1])}`", words)


def context_of(traceback: TracebackType | None) -> click.Context | None:
    """Find the command in which an error was raised.

    Args:
        traceback: The error's.

    Returns:
        The innermost command's context; None where no command ran.
    """
    found = None
    while traceback is not None:
        context = traceback.tb_frame.f_locals.get("ctx")
        found = context if isinstance(context, click.Context) else found
        traceback = traceback.tb_next
    return found


def warn(words: str, *, hint: str = "") -> None:
    """Print a warning: a failure that does not end the command.

    Args:
        words: The failure.
        hint: A remedy; empty where none is known.
    """
    context = click.get_current_context(silent=True)
    _tell(coloured("warning:", 33), with_flags(words, context))
    if hint:
        _tell(coloured("hint:", 36), with_flags(hint, context))


def tell(notice: Notice) -> None:
    """Print a notice of a store.

    Args:
        notice: The notice; one that has a hint is a warning.
    """
    if notice.hint:
        warn(notice.words, hint=notice.hint)
    else:
        say(notice.words)


def report(message: str, hint: str, context: click.Context | None = None) -> None:
    """Print an error in its two lines.

    Args:
        message: The failure.
        hint: A remedy; empty where none is known.
        context: The command in which the failure happened, if it is not the running one.
    """
    context = context or click.get_current_context(silent=True)
    _tell(coloured("error:", 31), with_flags(message, context))
    if hint:
        _tell(coloured("hint:", 36), with_flags(hint, context))


def coloured(text: str, colour: int) -> str:
    """Colour a text, if standard error is a terminal that wants colours.

    Args:
        colour: Number of the ANSI colour.

    Returns:
        The text with its colour, or as it is.
    """
    import os

    if sys.stderr.isatty() and not os.environ.get("NO_COLOR"):
        return f"\x1b[1;{colour}m{text}\x1b[0m"
    return text


def _tell(mark: str, words: str) -> None:
    # Words take the place of a line of progress that is there.
    begin = _LINE_BEGIN if sys.stderr.isatty() else ""
    print(f"{begin}{mark} {plain(words)}" if mark else f"{begin}{plain(words)}", file=sys.stderr)
