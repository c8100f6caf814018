"""Types of parameters: a value that cannot be used is refused while the command line is read, before anything is done.

Click's own types refuse words that are no number and files that are not there. Those of this module ask the readers
that the commands themselves use, so that a parameter and the thing it is for never differ.
"""

import math
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from weir.errors import WeirError

if TYPE_CHECKING:
    Type = click.ParamType[Any]
else:
    # The base is generic to type checkers alone: before Click 8.4 it cannot be subscripted.
    Type = click.ParamType

Reader = Callable[[str], object]

PATH = click.Path(path_type=Path)
FILE = click.Path(dir_okay=False, path_type=Path)
FOLDER = click.Path(file_okay=False, path_type=Path)
EXISTING_PATH = click.Path(exists=True, path_type=Path)
EXISTING_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
EXISTING_FOLDER = click.Path(exists=True, file_okay=False, path_type=Path)


class Checked(Type):
    """A text that a reader accepts; the command gets the text itself."""

    def __init__(self, name: str, read: Reader) -> None:
        """Make the type.

        Args:
            name: Name of the kind of value, in the words of the help.
            read: Reader of the text. It raises ValueError or an error of Weir where the text cannot be used.
        """
        self.name = name
        self._read = read

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Check a value.

        Args:
            value: The text.
            param: The parameter, for the error.
            ctx: Click's context, for the error.

        Returns:
            The text.
        """
        try:
            self._read(str(value))
        except WeirError as error:
            self.fail(error.line, param, ctx)
        except ValueError as error:
            self.fail(str(error), param, ctx)
        return value


class Network(Type):
    """A network such as 10.1.0.0/16."""

    name = "network"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Read a network.

        Args:
            value: The text.
            param: The parameter, for the error.
            ctx: Click's context, for the error.

        Returns:
            The network, of the module ipaddress.
        """
        import ipaddress

        try:
            return ipaddress.ip_network(value)
        except ValueError as error:
            self.fail(f"{error}; a network is spelled as 10.1.0.0/16", param, ctx)


class Number(click.FloatRange):
    """A finite number within bounds: `nan` is neither below nor above any bound."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Read a number.

        Args:
            value: The text.
            param: The parameter, for the error.
            ctx: Click's context, for the error.
        """
        number = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value!r} is not a finite number.", param, ctx)
        return number


def each(read: Reader) -> Reader:
    """Make the reader of a list whose parts stand between commas.

    Args:
        read: Reader of one part.
    """

    def read_all(text: str) -> object:
        return [read(part) for part in text.split(",")]

    return read_all
