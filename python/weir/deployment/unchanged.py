"""The parts of a store on several hosts that another `weir deploy` cannot change."""

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from weir.deployment import places, record
from weir.deployment.operations import Member
from weir.deployment.places import Network
from weir.deployment.record import Record
from weir.store.configuration import DECIDED, Configuration
from weir.store.errors import StoreError
from weir.store.home import Home

_LEAVE_OUT = "leave out what it cannot take; `weir config show` shows what it has"


@dataclass(frozen=True)
class Given:
    """Options of `weir deploy` beside the settings of a store. None is an option that was not given.

    Attributes:
        clients: Names of hosts that only mount the store.
        network: Network of the servers' addresses.
        port: First port of each host's servers.
        mount: Mount point on every host; empty is no mount.
        via: Program that reaches the hosts.
        ssh_options: Further options of ssh.
        program: Path of `weir` on the hosts.
    """

    clients: tuple[str, ...] | None
    network: Network | None
    port: int | None
    mount: str | None
    via: str | None
    ssh_options: str | None
    program: str | None


def is_up(home: Home) -> bool:
    """Decide whether a store is up, as far as the host knows that it is deployed from.

    Returns:
        Whether it was deployed and not taken down.
    """
    return home.cluster.is_file()


def refuse(home: Home, present: Record, unlike: Sequence[str], given: Given, *, is_described: bool) -> None:
    """Refuse options that a store has otherwise, and cannot take.

    Args:
        home: Home of the host that the store is deployed from.
        unlike: Its settings that were given with other values, in words.
        given: The other options.
        is_described: Whether hosts or a file are given too: then a store that is down takes all but its ports.

    Raises:
        StoreError: The store does not take an option; nothing was changed.
    """
    up = is_up(home)
    refused = _ports(home, present, given)
    if up or not is_described:
        refused += [*unlike, *_of_members(present, given)]
    if not is_described:
        refused += _of_reach(present, given)
    if refused:
        hint = _LEAVE_OUT if up or is_described else "name its hosts with `nodes`, too, or leave the options out"
        raise StoreError(
            f"the store of {home.root} is {'up' if up else 'there already'}, and does not take {', '.join(refused)}",
            hint=hint,
        )


def refuse_configuration(home: Home, present: Record, wanted: Configuration, members: Sequence[Member]) -> None:
    """Refuse another configuration than that of a store that is up, or other targets than those that hold its files.

    Args:
        home: Home of the host that the store is deployed from.
        wanted: The configuration, with addresses.
        members: The parts that its hosts would have.

    Raises:
        StoreError: The store cannot take the configuration, or a host its part; nothing was changed.
    """
    now = Configuration(record.read_configuration(home, present))
    if is_up(home):
        if _told(now) != _told(wanted):
            raise StoreError(
                f"the store of {home.root} is up, with another configuration than the wanted one",
                hint="`weir deploy` without a file and options brings it up as it is",
            )
        for part in present.members:
            other = next((each for each in members if each.host == part.host), None)
            if other is None or other.mount != part.mount:
                place = "does not mount it" if part.mount is None else f"mounts it at {part.mount}"
                raise StoreError(
                    f"the store of {home.root} is up, and {part.host} {place}",
                    hint="name its `clients` and its `mount` as they are, or leave out `nodes`",
                )
    elif now.keeps_bytes() and (now.shape(), _states(now)) != (wanted.shape(), _states(wanted)):
        raise StoreError(
            f"the store of {home.root} has its files on other servers and targets",
            hint="`weir deploy` without a file and options brings it up as it is",
        )


def _ports(home: Home, present: Record, given: Given) -> list[str]:
    tables = record.read_configuration(home, present)["server"]
    has_port = given.port is None or any(places.port_of(table.get("listen")) == given.port for table in tables)
    return [] if has_port else [f"`port` {given.port}"]


def _of_members(present: Record, given: Given) -> list[str]:
    """The options that the hosts' parts have otherwise."""
    import ipaddress

    found = []
    addresses = [part.address for part in present.members if part.servers]
    network = given.network
    if network is not None and not all(ipaddress.ip_address(address) in network for address in addresses):
        found.append(f"`network` {network}")
    points = {part.mount for part in present.members} - {None}
    if given.mount == "" and points:
        found.append("no `mount`")
    if given.mount and points != {given.mount}:
        found.append(f"`mount` {given.mount}")
    return found


def _of_reach(present: Record, given: Given) -> list[str]:
    """The options that only a deployment with hosts takes, and that the store has otherwise."""
    found = []
    if given.clients is not None and set(given.clients) - set(present.hosts()):
        found.append(f"`clients` {','.join(given.clients)}")
    for name, value, now in (
        ("via", given.via, present.via),
        ("ssh_options", given.ssh_options, present.options),
        ("program", given.program, present.program),
    ):
        if value is not None and value != now:
            found.append(f"`{name}` '{value}'" if " " in value else f"`{name}` {value}")
    return found


def _told(configuration: Configuration) -> dict[str, Any]:
    """The document without the moment of its decisions."""
    document = copy.deepcopy(configuration.document)
    document.pop(DECIDED, None)
    return document


def _states(configuration: Configuration) -> list[tuple[object, list[object]]]:
    return [
        (server.get("state"), [target.get("state") for target in server["target"]]) for server in configuration.servers
    ]
