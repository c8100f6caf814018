"""The check of the folders of a store: each target, journal and home is the one that the store's servers wrote."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from weir.store.answers import Status, StoppedInventory
from weir.store.control import Server, ask_all
from weir.store.errors import StoreError

IDENTITY = "identity"
"""Kind of a finding about a folder."""


@dataclass(frozen=True)
class FolderFinding:
    """A folder that a start would refuse, or that does not work.

    Attributes:
        server: The server.
        place: The folder in words, such as `target 0.1`.
        found: What was found there.
        way_out: The remedy, in words.
    """

    server: int
    place: str
    found: str
    way_out: str

    def document(self) -> dict[str, Any]:
        """Give the finding as values for JSON.

        Returns:
            The fields.
        """
        return {
            "kind": IDENTITY,
            "server": self.server,
            "place": self.place,
            "found": self.found,
            "way_out": self.way_out,
        }


def check_running_folders(servers: Sequence[Server]) -> tuple[FolderFinding, ...]:
    """Check the folders of servers that run, by their word.

    Args:
        servers: The servers; those without an answer are passed over.

    Returns:
        The targets that do not work, and servers of another store.
    """
    return folders_of([state for state in ask_all(servers, Server.status) if not isinstance(state, StoreError)])


def folders_of(states: Sequence[Status]) -> tuple[FolderFinding, ...]:
    """Judge the folders of servers by their states.

    Args:
        states: States of servers of one store.

    Returns:
        The targets that do not work, and servers of another store than the first.
    """
    return (*_failed(states), *strangers(states))


def check_stopped_folders(inventories: Mapping[int, StoppedInventory]) -> tuple[FolderFinding, ...]:
    """Check the folders of servers that are down.

    Returns:
        The folders that a start would refuse.
    """
    return tuple(
        FolderFinding(number, fault.place, fault.found, fault.way_out)
        for number, inventory in inventories.items()
        for fault in inventory.identities
    )


def _failed(states: Sequence[Status]) -> list[FolderFinding]:
    return [
        FolderFinding(state.server, f"target {target.target}", target.trouble, "see `weir status`")
        for state in states
        for target in state.targets
        if target.trouble is not None
    ]


def strangers(states: Sequence[Status]) -> list[FolderFinding]:
    """Find the servers whose folders are those of another store than the folders of the first server."""
    known = [(state.server, state.identity.store) for state in states if state.identity is not None]
    return [
        FolderFinding(
            number,
            "home",
            f"it is of store {store}, and that of server {known[0][0]} is of store {known[0][1]}",
            "end the server, and start the one of this store",
        )
        for number, store in known
        if store != known[0][1]
    ]
