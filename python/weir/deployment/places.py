"""The addresses and ports at which the servers of a store on several hosts listen."""

import ipaddress
import socket
from collections.abc import Iterable, Mapping
from typing import Any

from weir.deployment.operations import Probed
from weir.store.errors import SettingsError

PORT_MAX = 65535
Network = ipaddress.IPv4Network | ipaddress.IPv6Network


def address_of(host: str, probed: Probed, network: "Network | None", hosts: int) -> str:
    """Find the address at which a host's servers listen.

    Args:
        host: Name of the host.
        probed: What the host is.
        network: Network of the address; None is that of the host's name.
        hosts: Number of the store's hosts.

    Raises:
        SettingsError: The host has no such address, or other hosts could not reach it.
    """
    if network is not None:
        for text in probed.addresses:
            if ipaddress.ip_address(text) in network:
                return text
        known = ", ".join(probed.addresses) or "unknown, because it has no `ip`"
        raise SettingsError(f"{host} has no address in {network}", hint=f"its addresses are {known}")
    address = _resolved(host)
    if ipaddress.ip_address(address).is_loopback and hosts > 1:
        raise SettingsError(
            f"{host} is {address} here, which is no address for other hosts",
            hint="name the network of the store's traffic with `network`, such as 10.1.0.0/16",
        )
    if probed.addresses and address not in probed.addresses:
        raise SettingsError(
            f"{host} is {address} here, but has no such address there: {', '.join(probed.addresses)}",
            hint="name the network of the store's traffic with `network`, such as 10.1.0.0/16",
        )
    return address


def port_of(address: object) -> int:
    """Read the port of a `HOST:PORT` that a file names.

    Args:
        address: The address, or None.

    Returns:
        The port; 0 where none is named.
    """
    _, _, port = str(address or "").rpartition(":")
    return int(port) if port.isdecimal() else 0


def joined(address: str, port: int) -> str:
    """Write an address and a port.

    Returns:
        `HOST:PORT`.
    """
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def next_listening(tables: Iterable[Mapping[str, Any]], address: str, port: int | None) -> tuple[str, str]:
    """Choose where one more server of a host listens: at the first two ports that no server of the store has there.

    Args:
        tables: The servers' tables in the configuration.
        port: First port to choose from; None is the store's first one.

    Returns:
        The addresses for data and for the control API.

    Raises:
        SettingsError: No ports are left.
    """
    taken, all_ports = set(), set()
    for table in tables:
        for key in ("listen", "control"):
            named = port_of(table.get(key))
            all_ports.add(named)
            if table.get(key) == joined(address, named):
                taken.add(named)
    first = port if port is not None else min(all_ports - {0}, default=1)
    while first in taken or first + 1 in taken:
        first += 2
    if first + 1 > PORT_MAX:
        raise SettingsError(f"no ports are left at {address}", hint="name a lower one with `port`")
    return joined(address, first), joined(address, first + 1)


def _resolved(host: str) -> str:
    try:
        return str(socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)[0][4][0])
    except OSError as error:
        raise SettingsError(
            f"the name {host} has no address here: {error.strerror or error}",
            hint="name the network of the store's traffic with `network`, such as 10.1.0.0/16",
        ) from error
