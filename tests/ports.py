"""Ports of loopback for servers that tests start on fixed addresses."""

import random
import socket
from contextlib import ExitStack, suppress
from pathlib import Path

_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
_LEAST = 10_000
"""Well-known services lie below it."""


def free_ports(count: int) -> list[int]:
    """Ports on which nobody listens.

    They lie below the range from which the system serves every other program, where that range leaves any: a port of it
    may be taken between this call and the server's start.
    """
    below = range(_LEAST, int(_RANGE.read_text().split()[0]))
    # Port 0 is any port of the system's range.
    candidates = [0] * count + random.sample(below, len(below))
    with ExitStack() as held:
        ports: list[int] = []
        while len(ports) < count:
            with suppress(OSError):
                taken = held.enter_context(socket.create_server(("127.0.0.1", candidates.pop())))
                ports.append(taken.getsockname()[1])
        return ports


def on_named_ports(ports: list[int]) -> str:
    """A cluster.toml of servers whose bytes outlive them, each with two of these ports: for data and for control."""
    tables = [
        f'[[server]]\nlisten = "127.0.0.1:{data}"\ncontrol = "127.0.0.1:{control}"\n'
        '[[server.target]]\nbackend = "dir"\n'
        for data, control in zip(ports[::2], ports[1::2], strict=True)
    ]
    return "version = 1\n" + "".join(tables)
