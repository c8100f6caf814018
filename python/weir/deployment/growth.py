"""The configuration of a store that runs, on one host or on several, for commands that change it."""

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from weir.deployment import deployment, handover, joining, record
from weir.deployment.joining import Place
from weir.deployment.record import Record
from weir.store import cluster, membership
from weir.store.access import servers_at
from weir.store.answers import WantedTarget
from weir.store.configuration import Configuration, read_toml
from weir.store.control import Server, ask_all
from weir.store.errors import StoreError
from weir.store.home import Home
from weir.store.notices import Listener
from weir.ways import write_whole


class OneHost:
    """The configuration in the home of a store of one host."""

    def __init__(self, home: Home) -> None:
        """Name the configuration."""
        self._home = home

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other commands from the home.

        Yields:
            Nothing.
        """
        with self._home.locked():
            yield

    def read(self) -> dict[str, Any]:
        """Read the document."""
        return read_toml(self._home.configuration)

    def write(self, document: dict[str, Any]) -> None:
        """Replace the document.

        Args:
            document: The new document.
        """
        write_whole(self._home.configuration, Configuration(document).text())


class SeveralHosts:
    """The configuration of a deployed store, of which every host has a copy."""

    def __init__(self, home: Home, described: Record, listener: Listener) -> None:
        """Name the configuration.

        Args:
            home: Home of the host that the store is deployed from.
            listener: Called where a host does not get its copy.
        """
        self._home = home
        self._described = described
        self._listener = listener

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other commands from the store's description.

        Yields:
            Nothing.
        """
        with record.folder_of(self._home).locked():
            yield

    def read(self) -> dict[str, Any]:
        """Read the document."""
        return record.read_configuration(self._home, record.read(self._home) or self._described)

    def write(self, document: dict[str, Any]) -> None:
        """Replace the document here and on the hosts.

        A host that does not answer gets it when the store comes up again.

        Args:
            document: The new document.
        """
        configuration = Configuration(document)
        write_whole(record.configuration_file(self._home), configuration.text())
        # A server may have joined since the command began.
        described = record.read(self._home) or self._described
        deployment.hand_out(self._home, described, configuration, self._listener)


def add_server(
    home: Home, place: Place | None, targets: Sequence[WantedTarget], listener: Listener
) -> tuple[int, str | None]:
    """Start one more server of a store, and have it join the others.

    Args:
        place: Host of the server; None is this host, which has the whole store.
        targets: The server's targets.
        listener: Called with further notices for the user.

    Returns:
        Number of the server, and its host; None is this one.

    Raises:
        StoreError: A server does not answer or refuses, or the new one does not start: the store is as before.
    """
    file = configuration_of(home, listener)
    if isinstance(file, OneHost):
        if place is not None:
            raise StoreError(
                "the store was not deployed to hosts, so no host can join it",
                hint="leave out `host`, `network` and `port`",
            )
        return _add_here(home, file, targets, listener), None
    if place is None:
        raise StoreError("the store has several hosts", hint="name that of the server with `host`")
    return joining.add_server(home, place, targets, listener)


def check_move(home: Home, number: int, goal: str | None, listener: Listener) -> str | None:
    """Check whether a server can retire where it is, and choose the host that takes its trees.

    Args:
        goal: Name of a host of the store; None leaves the choice.
        listener: Called with further notices for the user.

    Returns:
        Name of the host; None in a store of one host, where the trees stay.

    Raises:
        StoreError: There is no such host, or a server or a host does not answer.
    """
    if record.read(home) is not None:
        return handover.check_move(home, number, goal, listener)
    if goal is not None:
        raise StoreError("the store has one host, where its trees stay", hint="leave out `to`")
    for state in ask_all(servers_at(home), Server.status):
        if isinstance(state, StoreError):
            raise StoreError(
                f"a server can retire only if all servers answer: {state.message}",
                hint=state.hint or "see `weir status`",
            )
    return None


def _add_here(home: Home, file: OneHost, targets: Sequence[WantedTarget], listener: Listener) -> int:
    with file.locked():
        servers = servers_at(home)
        states = ask_all(servers, Server.status)
        membership.check_backends(states, targets)
        membership.check_version(states, cluster.installed_version())
        number = membership.next_server(states)
        document = file.read()
        tables = document["server"]
        if len(tables) < number:
            raise StoreError(
                f"the configuration has {len(tables)} of {number} servers", hint="bring it back from a copy"
            )
        before = copy.deepcopy(document)
        # A command that died may have left a server that did not join.
        tables[number:] = [{"target": [membership.table_of(target) for target in targets]}]
        known = [address for address in cluster.published(home) if address["server"] < number]
        cluster.stop_servers(home, [number])
        cluster.forget_server(home, number)
        file.write(document)

        def undo() -> None:
            cluster.publish(home, known)
            cluster.stop_servers(home, [number])
            cluster.forget_server(home, number)
            file.write(before)

        try:
            started = cluster.start_servers(home, home.configuration, [number], listener)
            # Clients look for the server here when they first hear of it.
            cluster.publish(home, [*known, *started])
        except BaseException:
            undo()
            raise
        try:
            joining.tell(servers, number, started[0], targets)
        except StoreError:
            # No server has taken it in. After any other failure one may have.
            undo()
            raise
    return number


def configuration_of(home: Home, listener: Listener) -> OneHost | SeveralHosts:
    """Find the configuration of the store in a home.

    Args:
        listener: Called where a host of a deployed store does not get its copy.

    Raises:
        StoreError: This host is a part of a store that was deployed from another one.
    """
    described = record.read(home)
    if described is not None:
        return SeveralHosts(home, described, listener)
    if (home.root / "member.json").exists():
        raise StoreError(
            f"the store of {home.root} was deployed from another host", hint="change it where it was deployed from"
        )
    return OneHost(home)
