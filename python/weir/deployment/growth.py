"""The configuration of a store that runs, on one host or on several, for commands that change it."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from weir.deployment import deployment, record
from weir.deployment.record import Record
from weir.store.configuration import Configuration, read_toml
from weir.store.errors import StoreError
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
        """Replace the document here and on the hosts. A host that does not answer gets it when the store comes up again.

        Args:
            document: The new document.
        """
        configuration = Configuration(document)
        write_whole(record.configuration_file(self._home), configuration.text())
        deployment.hand_out(self._home, self._described, configuration, self._listener)


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
