"""A server that joins a store on several hosts while programs use the store.

The description of the store names the server from before its first step on a host until every server knows it. So a
command that died is gone on with: where a server took the new one in, the rest is done, and else the new one is taken
back.
"""

import contextlib
import copy
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from weir.deployment import asking, deployment, handover, operations, places, record, steps
from weir.deployment.operations import Member, Probed
from weir.deployment.places import Network
from weir.deployment.record import Record
from weir.store import cluster, membership
from weir.store.access import server_at, servers_at
from weir.store.answers import WantedServer, WantedTarget
from weir.store.configuration import Configuration, check
from weir.store.control import Server, ask_all
from weir.store.errors import SilentServerError, StoreError
from weir.store.home import Home
from weir.store.notices import Listener, Notice
from weir.ways import write_whole


@dataclass(frozen=True)
class Place:
    """The host on which a server is to be.

    Attributes:
        host: Name of the host, which may be new to the store.
        network: Network of the address at which the server listens; None is that of the host's address so far, or of
            its name.
        port: First port to choose from; None is the store's first one.
    """

    host: str
    network: "Network | None"
    port: int | None


@dataclass(frozen=True)
class _Joining:
    """One server on its way into a store."""

    home: Home
    before: Record
    """The store without the server."""
    after: Record
    """The store with the server."""
    document: dict[str, Any]
    """Configuration without the server."""
    grown: dict[str, Any]
    """Configuration with the server."""
    number: int

    @property
    def host(self) -> str:
        """Name of the server's host."""
        return self.after.host_of(self.number)


def add_server(home: Home, place: Place, targets: Sequence[WantedTarget], listener: Listener) -> tuple[int, str]:
    """Start one more server of a deployed store on a host, and have it join the others.

    Args:
        targets: The server's targets.
        listener: Called with further notices for the user.

    Returns:
        Number and host of the server: those of the server that an earlier command began to add, where a server knows
        that one.

    Raises:
        StoreError: A host or a server does not answer or refuses: the store is as before.
    """
    with record.folder_of(home).locked():
        described = record.read(home)
        if described is None:
            raise StoreError(f"no store was deployed from {home.root}", hint="see `weir deploy --help`")
        # Until a move has ended, its server may run nowhere.
        described = handover.finished(home, described, listener)
        if described.joining is not None:
            begun = _begun(home, described)
            if _is_known(home, begun.number):
                _complete(begun, listener)
                return begun.number, begun.host
            _take_back(begun, listener)
            described = begun.before
        joining = _planned(home, described, place, targets, listener)
        # A server is described once it is configured.
        write_whole(record.configuration_file(home), Configuration(joining.grown).text())
        record.write(home, joining.after)
        try:
            _start(joining, listener)
        except BaseException:
            _undo(joining, listener)
            raise
        try:
            tell(_others(home, joining.number), joining.number, _address(joining), targets)
        except StoreError:
            # No server has taken it in. After any other failure one may have.
            _undo(joining, listener)
            raise
        record.write(home, replace(joining.after, joining=None))
        return joining.number, joining.host


def tell(servers: Sequence[Server], number: int, address: dict[str, Any], targets: Sequence[WantedTarget]) -> None:
    """Tell the servers of a store of a new one. They tell each other, so one that is told is enough.

    Args:
        servers: The servers that are to take the new one in.
        address: Its addresses, as in cluster.json.

    Raises:
        StoreError: No server has taken it in.
    """
    wanted = WantedServer(str(address["tcp"]), str(address["control"]), tuple(targets))
    told = False
    for server in servers:
        try:
            server.add_server(number, wanted)
            told = True
        except SilentServerError:
            # The decision may have been kept: the server must not be taken back.
            told = True
        except StoreError:
            if not told:
                raise


def _planned(
    home: Home, described: Record, place: Place, targets: Sequence[WantedTarget], listener: Listener
) -> _Joining:
    """Check everything that can be checked before anything is changed."""
    states = ask_all(servers_at(home), Server.status)
    membership.check_backends(states, targets)
    membership.check_version(states, cluster.installed_version())
    number = membership.next_server(states)
    document = record.read_configuration(home, described)
    if len(document["server"]) != number:
        raise StoreError(
            f"the configuration has {len(document['server'])} of {number} servers", hint="bring it back from a copy"
        )
    hosts = tuple(dict.fromkeys((*described.hosts(), place.host)))
    probed = deployment.probe(home, hosts, described.reach())
    deployment.check_parts(probed, described.deployment, home)
    part = _part(described, place, probed[place.host], len(hosts), listener)
    grown = copy.deepcopy(document)
    listen, control = places.next_listening(document["server"], part.address, place.port)
    table = {"listen": listen, "control": control, "target": [membership.table_of(target) for target in targets]}
    grown["server"].append(table)
    check(Configuration(copy.deepcopy(grown)), None)
    part = replace(part, servers=(*part.servers, number))
    members = [part if each.host == part.host else each for each in described.members]
    members += [] if described.member(part.host) else [part]
    after = replace(described, members=tuple(members), joining=number)
    return _Joining(home, described, after, document, grown, number)


def _part(described: Record, place: Place, probed: Probed, hosts: int, listener: Listener) -> Member:
    """The part of the host, as it is without the server."""
    present = described.member(place.host)
    if present is not None and present.servers:
        if place.network is not None and places.address_of(place.host, probed, place.network, hosts) != present.address:
            raise StoreError(
                f"the servers of {place.host} listen at {present.address}", hint="leave out `network` for this host"
            )
        return present
    address = places.address_of(place.host, probed, place.network, hosts)
    if present is not None:
        return replace(present, address=address)
    points = [member.mount for member in described.members if member.mount is not None]
    mount = points[0] if points else None
    if mount is not None and probed.fuse_problem:
        listener(Notice(f"{place.host} does not mount the store: {probed.fuse_problem}"))
        mount = None
    kept = described.reach().is_allocation
    token = described.members[0].token
    return Member(described.deployment, place.host, address, (), mount, kept, token)


def _begun(home: Home, described: Record) -> _Joining:
    """The server that an earlier command began to add."""
    number = described.joining
    assert number is not None, "the caller has looked"
    grown = record.read_configuration(home, described)
    document = {**grown, "server": grown["server"][:number]}
    without = []
    for part in described.members:
        if number not in part.servers:
            without.append(part)
        elif len(part.servers) > 1:
            without.append(replace(part, servers=tuple(each for each in part.servers if each != number)))
        else:
            # The host may have been a client before: it stays one.
            without.append(replace(part, servers=(), address=""))
    before = replace(described, members=tuple(without), joining=None)
    return _Joining(home, before, described, document, grown, number)


def _is_known(home: Home, number: int) -> bool:
    """Whether a server of the store knows of the new one.

    Raises:
        StoreError: A server does not answer, and none that does knows.
    """
    states = ask_all(_others(home, number), Server.status)
    answered = [state for state in states if not isinstance(state, StoreError)]
    if any(state.servers > number for state in answered):
        return True
    for state in states:
        if isinstance(state, StoreError):
            raise StoreError(
                f"server {number} was only partly added, and {state.message}",
                hint="the same command continues when all servers answer",
            )
    return False


def _others(home: Home, number: int) -> list[Server]:
    return [server for server in servers_at(home) if server.number != number]


def _address(joining: _Joining) -> dict[str, Any]:
    table = joining.grown["server"][joining.number]
    return {"tcp": table["listen"], "control": table["control"]}


def _start(joining: _Joining, listener: Listener) -> None:
    """Start the server, and tell every host where it is: clients look there when they first hear of it."""
    home, after = joining.home, joining.after
    configuration = Configuration(joining.grown)
    asking.checked(deployment.install(home, after, configuration))
    deployment.begin_steps(home, after, [joining.host])
    request = operations.StartRequest(after.home, after.deployment, accept_journal_loss=False)
    answer = asking.ask_all(after.reach(), operations.START, {joining.host: request})[joining.host]
    asking.pass_on(joining.host, answer.notices, listener)
    new = server_at(home, joining.number, str(_address(joining)["control"]))
    others = ask_all(_others(home, joining.number), Server.status)
    membership.check_version(others, new.status().version)
    addresses = deployment.addresses_of(after, configuration, deployment.told_before(home, without=joining.number))
    asking.checked(deployment.publish(home, after, addresses))


def _complete(joining: _Joining, listener: Listener) -> None:
    """Do the rest for a server that others have taken in."""
    _start(joining, listener)
    table = joining.grown["server"][joining.number]
    targets = membership.wanted_of(table["target"])
    tell(_others(joining.home, joining.number), joining.number, _address(joining), targets)
    record.write(joining.home, replace(joining.after, joining=None))


def _undo(joining: _Joining, listener: Listener) -> None:
    """Take a server back whose way into the store failed. The failure is told by the caller."""
    try:
        _take_back(joining, listener)
    except StoreError as error:
        listener(Notice(f"what was begun is still there: {error.message}", hint="the same command takes it back"))


def _take_back(joining: _Joining, listener: Listener) -> None:
    """Leave every host as it was without the server.

    Raises:
        StoreError: The server's host does not answer: the server stays described as one that joins.
    """
    home, before, after = joining.home, joining.before, joining.after
    configuration = Configuration(joining.document)
    if before.member(joining.host) is None:
        part = operations.Part(after.home, after.deployment)
        asking.ask_all(after.reach(), operations.REMOVE, {joining.host: part})
        steps.end(home, [joining.host])
    else:
        request = operations.DropRequest(after.home, after.deployment, joining.number)
        asking.ask_all(after.reach(), operations.DROP, {joining.host: request})
    record.write(home, before)
    write_whole(record.configuration_file(home), Configuration(joining.document).text())
    # A host that does not answer gets its copies when the store comes up again.
    with contextlib.suppress(StoreError):
        asking.able(deployment.install(home, before, configuration), listener)
        told = deployment.told_before(home, without=joining.number)
        asking.able(deployment.publish(home, before, deployment.addresses_of(before, configuration, told)), listener)
