"""Questions to all servers of a store, some of which may be down."""

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from weir.cli.common.errors import CommandError, warn
from weir.store.errors import StoreError, UnprovenServerError
from weir.store.home import Home, find_cluster

if TYPE_CHECKING:
    from weir.store.answers import Target
    from weir.store.control import Server

Answer = TypeVar("Answer")


def servers_up(home: Home) -> "list[Server]":
    """Find the servers of the store that is up; a user who can read its key asks them as its administrator.

    Returns:
        The servers, which were not asked.

    Raises:
        StoreError: No store is up.
    """
    from weir.store.access import access_to
    from weir.store.control import servers_of

    cluster = find_cluster(home)
    return servers_of(cluster, access_to(home, cluster))


def administered(home: Home, change: str) -> "list[Server]":
    """Find the servers of the store that is up for a command of its administrator.

    Args:
        change: The change in words, for the error of a caller who may not do it.

    Returns:
        The servers, which were not asked.

    Raises:
        CommandError: The caller cannot read the store's key.
        StoreError: No store is up.
    """
    from weir.store.access import access_to
    from weir.store.control import servers_of

    cluster = find_cluster(home)
    access = access_to(home, cluster)
    if access is None:
        raise CommandError(
            f"permission denied: only a user who can read the key of {cluster} may {change}",
            hint="ask the owner of the store, or set --home to it",
        )
    return servers_of(cluster, access)


def observed(home: Home) -> "list[Server]":
    """Find the servers of the store that is up for a command that shows jobs: all to an administrator, else the own.

    Returns:
        The servers, which were not asked.

    Raises:
        CommandError: The caller has neither the key nor a credential.
        StoreError: No store is up, or the credential is outside of its time.
    """
    from weir.store.access import own_access
    from weir.store.control import servers_of

    access = own_access(home)
    if access is None:
        raise CommandError(
            "there is neither a key nor a credential here", hint="ask the holder of the site key: `weir grant`"
        )
    return servers_of(find_cluster(home), access)


def ask_store(home: Home, question: "Callable[[Server], Answer]") -> "list[tuple[Server, Answer | None]]":
    """Ask every server of the store that is up. A server that does not answer is warned of.

    Args:
        question: Method of a server, such as `Server.status`.

    Returns:
        The servers by number, each with its answer; None in place of an answer that did not come.

    Raises:
        StoreError: No store is up.
    """
    from weir.store.control import ask_all

    servers = servers_up(home)
    answers: list[tuple[Server, Answer | None]] = []
    for server, answer in zip(servers, ask_all(servers, question), strict=True):
        if isinstance(answer, StoreError):
            warn_of_silence(home, server, answer)
            answers.append((server, None))
        else:
            answers.append((server, answer))
    return answers


def warn_of_silence(home: Home, server: "Server", error: StoreError, *, then: str = "") -> None:
    """Warn of a server that does not answer.

    Args:
        then: What the server does when it is started again, in words that follow a comma.
    """
    if isinstance(error, UnprovenServerError):
        warn(error.message, hint=error.hint)
        return
    host = hosts_of(home).get(server.number)
    place, starter = ("", "up") if host is None else (f" on {host}", "deploy")
    hint = f"see `weir logs {server.number}`{place}; `weir {starter}` starts it again if it ended{then}"
    warn(error.message, hint=hint)


def hosts_of(home: Home) -> dict[int, str]:
    """Find the hosts of the servers of a store that was deployed from this host.

    Returns:
        Name of the host by the number of the server; none where the store is on one host, was deployed from another,
        or by another user.
    """
    from weir.deployment import record

    try:
        described = record.read(home)
    except StoreError:
        return {}
    return {} if described is None else record.hosts_by_server(described)


def backend_words(target: "Target") -> str:
    """Describe what a target is, and what is unusual about it.

    Returns:
        Its backend in words, such as `dir, retiring`.
    """
    unusual = {
        "emulated speed": target.speed is not None,
        "retiring": target.state == "retiring",
        "failed": target.trouble is not None,
    }
    return ", ".join([target.backend, *(word for word, is_so in unusual.items() if is_so)])
