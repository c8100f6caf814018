"""Ports of servers that other programs have: no user keeps a server down by taking its ports."""

import pwd
from typing import TYPE_CHECKING

from weir.store.notices import Notice

if TYPE_CHECKING:
    from weir.store.answers import Status, TakenPort


def notices(state: "Status") -> list[Notice]:
    """Tell of the ports of a server that other programs had when it started.

    Returns:
        A warning for each port, which names the program's user and the way out.
    """
    return [_notice(state.server, taken) for taken in state.taken_ports]


def _notice(server: int, taken: "TakenPort") -> Notice:
    port = taken.wanted.rpartition(":")[2]
    return Notice(
        f"{_holder(taken.holder)} has the {taken.name} port {taken.wanted} of server {server}, which listens at "
        f"{taken.address} instead; clients and servers find it there",
        hint=f"`ss -ltnp 'sport = :{port}'` shows the program: end it, and start the server anew. Nobody can take a "
        "port for which systemd has a socket unit",
    )


def _holder(user: int | None) -> str:
    if user is None:
        return "another program"
    try:
        return f"a program of user {user} ({pwd.getpwuid(user).pw_name})"
    except (KeyError, OverflowError):
        return f"a program of user {user}"
