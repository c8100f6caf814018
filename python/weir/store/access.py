"""The proofs that this process can give to the servers of a store."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from weir.store.errors import StoreError
from weir.store.home import Home, find_cluster
from weir.store.identity import CLOCK_SKEW_SECONDS, Identity, read_claims

if TYPE_CHECKING:
    from weir.store.control import Server

_PROOF_SECONDS = CLOCK_SKEW_SECONDS
"""Time for which the proof of an administrator holds, one for each connection: the server's clock may be ahead."""


@dataclass(frozen=True)
class Access:
    """The right to ask servers for more than everybody sees.

    Attributes:
        is_administrator: Whether the holder has the site's key: all of its requests travel sealed, so that it believes
            no answer of a program that merely listens at a server's address.
    """

    is_administrator: bool
    _credential: Callable[[], str] = field(repr=False)

    def credential(self) -> str:
        """The credential that proves the right to a server.

        Returns:
            Text of the credential file.

        Raises:
            StoreError: The key is damaged.
        """
        return self._credential()


def by_key(site_key: str) -> Access:
    """The access of an administrator.

    Args:
        site_key: The site's key.
    """

    def mint() -> str:
        return replace(Identity.of_process("administration"), role="administrator").mint(site_key, _PROOF_SECONDS)

    return Access(is_administrator=True, _credential=mint)


def by_credential(text: str) -> Access:
    """The access of the user of a credential.

    Args:
        text: Text of the credential file.
    """
    return Access(is_administrator=False, _credential=lambda: text)


def access_to(home: Home, cluster: Path) -> Access | None:
    """The access of this process to a store as its administrator.

    Args:
        cluster: The store's cluster.json.

    Returns:
        The access; None where the store is not the home's, or this user may not read its key.
    """
    site_key = home.read_site_key() if home.owns(cluster) else None
    return None if site_key is None else by_key(site_key)


def own_access(home: Home) -> Access | None:
    """The access of this process to the store that its commands use.

    Returns:
        That of an administrator, else that of the user's credential; None where there is neither.

    Raises:
        StoreError: No store is up, or the credential is outside of its time.
    """
    from weir.store.launch import credential_path

    access = access_to(home, find_cluster(home))
    if access is not None:
        return access
    path = credential_path(home)
    if path is None:
        return None
    read_claims(path)
    try:
        return by_credential(path.read_text())
    except OSError as error:
        raise StoreError(f"cannot use the credential {path}: {error}") from error


def servers_at(home: Home) -> "list[Server]":
    """Read the servers of the store in a home.

    Returns:
        The servers, which were not asked.

    Raises:
        StoreError: The store is not up.
    """
    from weir.store.control import servers_of

    return servers_of(home.cluster, access_to(home, home.cluster))


def server_at(home: Home, number: int, control: str) -> "Server":
    """Name a server of the store in a home that the store's cluster.json may not have yet.

    Args:
        control: Address of its control API, `HOST:PORT`.
    """
    from weir.store.control import Server

    return Server(number, control, access=access_to(home, home.cluster))
