"""Questions to all servers of a store, some of which may be down."""

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from weir.cli.errors import warn
from weir.store.errors import StoreError
from weir.store.home import Home

if TYPE_CHECKING:
    from weir.store.control import Server

Answer = TypeVar("Answer")


def ask_store(home: Home, question: "Callable[[Server], Answer]") -> "list[tuple[Server, Answer | None]]":
    """Ask every server of the store that is up. A server that does not answer is warned of.

    Args:
        home: The chosen home.
        question: Method of a server, such as `Server.status`.

    Returns:
        The servers by number, each with its answer; None in place of an answer that did not come.

    Raises:
        StoreError: No store is up.
    """
    from weir.store.control import ask_all, servers_of
    from weir.store.home import find_cluster

    servers = servers_of(find_cluster(home))
    answers: list[tuple[Server, Answer | None]] = []
    for server, answer in zip(servers, ask_all(servers, question), strict=True):
        if isinstance(answer, StoreError):
            warn_of_silence(server, answer.message)
            answers.append((server, None))
        else:
            answers.append((server, answer))
    return answers


def warn_of_silence(server: "Server", why: str, *, then: str = "") -> None:
    """Warn of a server that does not answer.

    Args:
        server: The server.
        why: The failure.
        then: What the server does when it is started again, in words that follow a comma.
    """
    warn(why, hint=f"see `weir logs {server.number}`; `weir up` starts it again if it ended{then}")
