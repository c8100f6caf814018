"""The description of a store on several hosts, as the host keeps it that the store was deployed from."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from weir.deployment.fanout import Reach, Via
from weir.deployment.operations import Member
from weir.store.configuration import read_toml
from weir.store.decoding import decode, encode
from weir.store.errors import StoreError
from weir.store.files import make_folder
from weir.store.home import Home
from weir.ways import write_whole

VERSION = 1
"""Version of the file's format."""


@dataclass(frozen=True)
class Move:
    """The way of a server from one host to another."""

    server: int
    """Number of the server."""
    source: str
    """Name of the host that it comes from."""
    listen: str
    """Address at which it listens on the new host."""
    control: str
    """Address of its control API there."""


@dataclass(frozen=True)
class Record:
    """A store on several hosts.

    Attributes:
        version: Version of the format.
        deployment: Identity of the store.
        home: Path of the home on every host.
        via: Program that reaches the hosts.
        program: Path of the program `weir` on the hosts.
        options: Further options of the program that reaches the hosts.
        ranks: Rank of each host in a Flux instance.
        members: The hosts' parts.
        joining: Number of a server that was begun to be added, until it has joined; None without one.
        moving: A server on its way to another host, to which the parts give it already; None without one.
    """

    version: int
    deployment: str
    home: str
    via: str
    program: str
    options: str
    ranks: dict[str, int]
    members: tuple[Member, ...]
    joining: int | None = None
    moving: Move | None = None

    def reach(self) -> Reach:
        """Find the way to the hosts."""
        return Reach(cast("Via", self.via), self.program, self.options, self.ranks)

    def hosts(self) -> tuple[str, ...]:
        """List the hosts.

        Returns:
            Their names.
        """
        return tuple(member.host for member in self.members)

    def host_of(self, server: int) -> str:
        """Find the host of a server.

        Args:
            server: Number of the server.

        Returns:
            Name of the host.

        Raises:
            StoreError: The store has no such server.
        """
        for member in self.members:
            if server in member.servers:
                return member.host
        raise StoreError(f"the store has no server {server}")

    def member(self, host: str) -> Member | None:
        """Find the part of a host.

        Args:
            host: Name of the host.

        Returns:
            The part; None where the host has none.
        """
        return next((member for member in self.members if member.host == host), None)


def hosts_by_server(record: Record) -> dict[int, str]:
    """Find the host of each server.

    Returns:
        Name of the host by the number of the server.
    """
    return {number: part.host for part in record.members for number in part.servers}


def folder_of(home: Home) -> Home:
    """Find the folder that a command locks while it changes a store on several hosts.

    The home itself is not locked: this host may have a part of the store in it, which its agent changes.

    Returns:
        The folder, which need not exist.
    """
    return Home(home.root / "deployment")


def read(home: Home) -> Record | None:
    """Read the description of a store on several hosts.

    Returns:
        The store; None where none was deployed from this home.

    Raises:
        StoreError: The file is damaged.
    """
    path = _file(home)
    try:
        document = json.loads(path.read_text())
        if isinstance(document, dict) and document.get("version") != VERSION:
            raise ValueError(f"its format has version {document.get('version')}, and this weir knows {VERSION}")
        if isinstance(document, dict):
            document = {"joining": None, "moving": None, **document}
            if isinstance(parts := document.get("members"), list):
                # Parts of before have no mark.
                marked = [{"token": "", **part} if isinstance(part, dict) else part for part in parts]
                document = {**document, "members": marked}
        return decode(Record, document, place="the store")
    except (FileNotFoundError, NotADirectoryError):
        return None
    except PermissionError as error:
        raise StoreError(f"permission denied: {path}", hint="use the account that deployed the store") from error
    except (OSError, ValueError) as error:
        raise StoreError(f"cannot use {path}: {error}", hint="bring it back from a copy") from error


def write(home: Home, record: Record) -> None:
    """Write the description of a store on several hosts.

    Raises:
        OSError: The file cannot be written.
    """
    make_folder(_file(home).parent, 0o700)
    write_whole(_file(home), json.dumps(encode(record), indent=2) + "\n")


def forget(home: Home) -> None:
    """Remove the description of a store on several hosts, and its configuration."""
    _file(home).unlink(missing_ok=True)
    configuration_file(home).unlink(missing_ok=True)


def configuration_file(home: Home) -> Path:
    """Name the configuration of a store on several hosts, from which each host gets its copy."""
    return folder_of(home).root / "cluster.toml"


def read_configuration(home: Home, described: Record) -> dict[str, Any]:
    """Read the configuration of a store on several hosts, as it belongs to the store's description.

    A command that died between the two files may have left a server in the configuration that is not described, or the
    address of one before its move.

    Returns:
        The document.

    Raises:
        StoreError: The configuration cannot be read.
    """
    document = read_toml(configuration_file(home))
    count = sum(len(part.servers) for part in described.members)
    del document["server"][count:]
    if described.moving is not None:
        document["server"][described.moving.server].update(
            listen=described.moving.listen, control=described.moving.control
        )
    return document


def _file(home: Home) -> Path:
    return folder_of(home).root / "store.json"
