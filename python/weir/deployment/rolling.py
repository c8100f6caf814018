"""Restarts of a store's servers one after the other, while programs use the store."""

import time
from collections.abc import Callable

from weir import distribution
from weir.deployment import deployment, record
from weir.store import auditing, cluster, units
from weir.store.access import servers_at
from weir.store.audits import ToldEntry
from weir.store.control import Server
from weir.store.errors import StoreError
from weir.store.home import Home
from weir.store.notices import Listener

_HEALTHY_SECONDS = 120.0
"""Longest time until all servers answer after a restart, on a busy machine."""
_LOOK_SECONDS = 0.2


def restart_all(
    home: Home, listener: Listener, *, with_loss: bool, begun: Callable[[int, int, int], None]
) -> list[int]:
    """Restart every server in turn; the next one only when all servers answer and take changes.

    Args:
        listener: Called with further notices for the user.
        with_loss: Whether to restart also servers whose targets are in memory, and lose their bytes.
        begun: Called before a server is restarted: its number, the count of servers restarted so far, and of all.

    Returns:
        Numbers of the servers, in the order of their restarts.

    Raises:
        StoreError: A server does not answer, would lose bytes, or does not come back. The servers behind it were not
            restarted.
    """
    servers = servers_at(home)
    _await_health(servers, 0.0)
    if not with_loss:
        _refuse_loss(servers)
    described = record.read(home)
    for done, server in enumerate(servers):
        begun(server.number, done, len(servers))
        if described is not None:
            deployment.restart(home, described, server.number, listener)
        elif unit := units.unit_of(home, server.number):
            units.restart(home, server.number, unit)
        else:
            with home.locked():
                cluster.restart_server(home, server.number, listener)
        _await_health(servers, _HEALTHY_SECONDS)
    auditing.tell(home, ToldEntry("upgrade", str(home.root), after=f"weir {distribution.version()}"), listener)
    return [server.number for server in servers]


def _refuse_loss(servers: list[Server]) -> None:
    """Refuse to restart servers that have bytes in memory."""
    for server in servers:
        if any(target.backend == "ram" and target.used_bytes for target in server.status().targets):
            raise StoreError(
                f"server {server.number} has files in memory, which a restart loses",
                hint="copy them first; `yes` restarts it all the same",
            )


def _await_health(servers: list[Server], patience_seconds: float) -> None:
    """Wait until every server answers and takes changes."""
    deadline = time.monotonic() + patience_seconds
    while True:
        problems = [problem for server in servers if (problem := _problem(server))]
        if not problems:
            return
        if time.monotonic() > deadline:
            raise StoreError(
                f"no further server is restarted: {'; '.join(problems)}", hint="see `weir status` and `weir logs`"
            )
        time.sleep(_LOOK_SECONDS)


def _problem(server: Server) -> str:
    """Why a server is not whole; empty where it is."""
    try:
        journal = server.status().journal
    except StoreError as error:
        return error.message
    return f"server {server.number} takes no changes: {journal.error}" if journal and journal.state == "stopped" else ""
