"""The configuration of a store that runs, on one host or on several, for commands that change it."""

import copy
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from weir.deployment import deployment, record
from weir.deployment.record import Record
from weir.store import cluster, membership
from weir.store.answers import WantedServer, WantedTarget
from weir.store.configuration import Configuration, read_toml
from weir.store.control import Server, ask_all, servers_of
from weir.store.errors import SilentServerError, StoreError
from weir.store.files import write_whole
from weir.store.home import Home
from weir.store.notices import Listener


class OneHost:
    """The configuration in the home of a store of one host."""

    def __init__(self, home: Home) -> None:
        """Name the configuration.

        Args:
            home: Home of the store.
        """
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
        """Read the document.

        Returns:
            The document.
        """
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
            described: The store.
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
        """Read the document.

        Returns:
            The document.
        """
        return read_toml(record.configuration_file(self._home))

    def write(self, document: dict[str, Any]) -> None:
        """Replace the document here and on the hosts.

        A host that does not answer gets it when the store comes up again.

        Args:
            document: The new document.
        """
        configuration = Configuration(document)
        write_whole(record.configuration_file(self._home), configuration.text())
        deployment.hand_out(self._home, self._described, configuration, self._listener)


def add_server(home: Home, targets: Sequence[WantedTarget], token: str, listener: Listener) -> int:
    """Start one more server of a store on this host, and have it join the others.

    Args:
        home: Home of the store.
        targets: The server's targets.
        token: Token of the site's key.
        listener: Called with further notices for the user.

    Returns:
        Number of the server.

    Raises:
        StoreError: A server does not answer or refuses, or the new one does not start: the store is as before.
    """
    if record.read(home) is not None:
        raise StoreError(
            "servers join a store of several hosts only when it is deployed anew",
            hint="`weir target add` gives the servers that are there more targets",
        )
    file = configuration_of(home, listener)
    with file.locked():
        servers = servers_of(home.cluster)
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
        shutil.rmtree(home.server(number), ignore_errors=True)
        file.write(document)

        def undo() -> None:
            cluster.publish(home, known)
            cluster.stop_servers(home, [number])
            shutil.rmtree(home.server(number), ignore_errors=True)
            file.write(before)

        try:
            started = cluster.start_servers(home, home.configuration, [number], listener)
            # Clients look for the server here when they first hear of it.
            cluster.publish(home, [*known, *started])
        except BaseException:
            undo()
            raise
        try:
            _join(servers, number, started[0], targets, token)
        except StoreError:
            # No server has taken it in. After any other failure one may have.
            undo()
            raise
    return number


def _join(
    servers: Sequence[Server], number: int, address: dict[str, Any], targets: Sequence[WantedTarget], token: str
) -> None:
    """Tell the servers of a new one. They tell each other, so one that is told is enough."""
    wanted = WantedServer(str(address["tcp"]), str(address["control"]), tuple(targets))
    told = False
    for server in servers:
        try:
            server.add_server(number, wanted, token)
            told = True
        except SilentServerError:
            # The decision may have been kept: the server must not be taken back.
            told = True
        except StoreError:
            if not told:
                raise


def configuration_of(home: Home, listener: Listener) -> OneHost | SeveralHosts:
    """Find the configuration of the store in a home.

    Args:
        home: Home of the store.
        listener: Called where a host of a deployed store does not get its copy.

    Returns:
        The configuration.

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
