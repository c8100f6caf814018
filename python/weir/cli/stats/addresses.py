"""Addresses and errors of ZeroMQ, for publishers and subscribers."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

import click

from weir.cli.common.errors import CommandError
from weir.cli.common.parameters import EXISTING_FOLDER, Checked
from weir.distribution import install_command

ENDPOINT = "tcp://127.0.0.1:4710"
_ENDPOINT_FORM = re.compile(r"tcp://[^/\s]+:(?:(?P<port>\d{1,5})|\*)|ipc://.+", re.ASCII)
_PORT_MAX = 65535


def _endpoint(text: str) -> None:
    """Refuse a text that ZeroMQ takes for no address: `tcp://HOST:PORT`, or `ipc://PATH`."""
    found = _ENDPOINT_FORM.fullmatch(text)
    if found is None or int(found["port"] or 0) > _PORT_MAX:
        raise ValueError(f"`{text}` is no address; give tcp://HOST:PORT or ipc://PATH")


ADDRESS = Checked("address", _endpoint)
root_option = click.option(
    "--root",
    type=EXISTING_FOLDER,
    default="/",
    help="Directory that holds /proc and /sys.",
)


@contextmanager
def zmq_errors(doing: str) -> Iterator[None]:
    """Turn ZeroMQ's error about an address into one of a command.

    Raises:
        CommandError: ZeroMQ is not installed, or does not take the address.
    """
    try:
        import zmq
    except ImportError as error:
        raise CommandError("ZeroMQ is not installed", hint=install_command("placement")) from error
    try:
        yield
    except zmq.ZMQError as error:
        hint = "an address is tcp://HOST:PORT with a port that is free, or ipc://PATH"
        raise CommandError(f"cannot {doing}: {error.strerror}", hint=hint) from error
