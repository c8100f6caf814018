"""What this process says of itself to the servers that it changes: its command, its host, and on whose request it acts.

Servers note these in their audit as claims.
"""

import os
import shlex
import socket
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from types import MappingProxyType

REQUEST_OF = "WEIR_REQUEST_OF"
"""Environment variable with the name of the user on whose request a command runs, for services that act for users."""
_LENGTH_MAX = 256
"""Longest claim, as servers keep it."""
_acting: dict[str, str] = {}
"""Claims of a service, in place of those that its command line makes."""
_for_a_while: ContextVar[Mapping[str, str]] = ContextVar("_for_a_while", default=MappingProxyType({}))
"""Claims of a service that acts for several users at a time, in place of all others."""


def act_for(command: str, request_of: str) -> None:
    """Have this process claim to do something for a user, from now on.

    Args:
        command: The service, and its present work.
        request_of: Name of the user.
    """
    _acting.update({"Weir-Command": command, "Weir-Request-Of": request_of})


@contextmanager
def acting_for(command: str, request_of: str) -> Iterator[None]:
    """Claim to do something for a user within a block, in this thread and those that ask servers for it.

    Args:
        command: The service, and its present work.
        request_of: Name of the user.

    Yields:
        Nothing.
    """
    token = _for_a_while.set({"Weir-Command": command, "Weir-Request-Of": request_of})
    try:
        yield
    finally:
        _for_a_while.reset(token)


def claims() -> dict[str, str]:
    """Describe this process.

    Returns:
        Headers of a request to the control API, in printable ASCII.
    """
    said = {
        "Weir-Command": _command(),
        "Weir-Host": socket.gethostname(),
        # sudo names the user who called it.
        "Weir-Request-Of": os.environ.get(REQUEST_OF) or os.environ.get("SUDO_USER", ""),
        **_acting,
        **_for_a_while.get(),
    }
    return {name: printable for name, text in said.items() if (printable := _printable(text))}


def _command() -> str:
    """The command line: of programs that are not `weir` the name alone, as their arguments may be secrets."""
    program = Path(sys.argv[0] if sys.argv else "")
    if program.name == "weir" or program.parts[-3:] == ("weir", "cli", "__main__.py"):
        return shlex.join(["weir", *sys.argv[1:]])
    return program.name or "python"


def _printable(text: str) -> str:
    escaped = text.encode("ascii", "backslashreplace").decode()
    return "".join(letter if letter.isprintable() else " " for letter in escaped)[:_LENGTH_MAX].strip()
