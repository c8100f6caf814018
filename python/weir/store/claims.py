"""What this process says of itself to the servers that it changes: its command, its host, and on whose request it acts.

Servers note these in their audit as claims.
"""

import os
import shlex
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

REQUEST_OF = "WEIR_REQUEST_OF"
"""Environment variable with the name of the user on whose request a command runs, for services that act for users."""
_LENGTH_MAX = 256
"""Longest claim, as servers keep it."""
_acting: dict[str, str] = {}
"""Claims of a service, in place of those that its command line makes."""
_request_of: ContextVar[str] = ContextVar("request_of", default="")
"""User on whose request the present block changes something; empty for none."""


def act_for(command: str, request_of: str) -> None:
    """Have this process claim to do something for a user, from now on.

    Args:
        command: The service, and its present work.
        request_of: Name of the user.
    """
    _acting.update({"Weir-Command": command, "Weir-Request-Of": request_of})


@contextmanager
def acting_for(user: str) -> Iterator[None]:
    """Have all that the block changes claim to be on a user's request.

    Args:
        user: Name of the user.
    """
    before = _request_of.set(user)
    try:
        yield
    finally:
        _request_of.reset(before)


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
        **({"Weir-Request-Of": user} if (user := _request_of.get()) else {}),
    }
    return {name: printable for name, text in said.items() if (printable := _printable(text))}


def _command() -> str:
    """The command line: of programs that are not `weir` the name alone, as their arguments may be secrets."""
    program = Path(sys.argv[0] if sys.argv else "").name
    if program in ("__main__.py", "weir"):
        return shlex.join(["weir", *sys.argv[1:]])
    return program or "python"


def _printable(text: str) -> str:
    escaped = text.encode("ascii", "backslashreplace").decode()
    return "".join(letter if letter.isprintable() else " " for letter in escaped)[:_LENGTH_MAX].strip()
