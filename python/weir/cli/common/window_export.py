"""`--listen` of the commands that record windows: the windows as metrics of Prometheus."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from weir.cli.common.errors import say
from weir.cli.common.interference_packages import needed
from weir.cli.common.parameters import FILE, Checked

if TYPE_CHECKING:
    from weir.interference.export import Board

_LOOPBACK = "127.0.0.1"
_PORT_MAX = 65535
_ADDRESS = re.compile(r"(?:(?P<host>[A-Za-z0-9.-]{1,253}|\[[0-9a-fA-F:.]{2,45}\]):)?(?P<port>\d{1,5})", re.ASCII)
TOKEN = "metrics.token"
"""File of the token in the folder of the windows, where none was given."""


def read_address(text: str) -> tuple[str, int]:
    """Read `PORT` or `HOST:PORT`.

    Returns:
        Host and port; the host is loopback where none is given.

    Raises:
        ValueError: The text is no address.
    """
    found = _ADDRESS.fullmatch(text)
    if found is None or int(found["port"]) > _PORT_MAX:
        raise ValueError(f"{text!r} is no address such as 9400 or {_LOOPBACK}:9400")
    return (found["host"] or _LOOPBACK).strip("[]"), int(found["port"])


listen_option = click.option(
    "--listen",
    type=Checked("address", read_address),
    help=f"Serve the windows as metrics at PORT or HOST:PORT; without a host at {_LOOPBACK}.",
)


token_file_option = click.option(
    "--token-file",
    type=FILE,
    help="File of the token that callers of --listen must send; it is made if it does not exist.  [default:"
    f" {TOKEN} in --to]",
)


@contextmanager
def exported(listen: str | None, token_file: Path) -> "Iterator[Board | None]":
    """Serve windows while the block runs.

    Args:
        listen: Address; None serves nothing.
        token_file: File of the token that a caller has to show.

    Yields:
        The board that takes the windows; None where nothing is served.

    Raises:
        CommandError: The package that writes the metrics is missing.
        InterferenceError: The address or the token cannot be used.
    """
    if listen is None:
        yield None
        return
    needed("prometheus_client")
    from weir.interference.export import Board, served, token_of

    board = Board()
    with served(board, read_address(listen), token_of(token_file)) as (host, port, *_):
        say(f"metrics at http://{host}:{port}/metrics, for callers with the token in {token_file}")
        yield board
