"""A store as a table for notebooks: its targets, and what is in force."""

from collections.abc import Sequence
from pathlib import Path

from weir.amounts import seconds, share, size
from weir.html_table import html_table
from weir.store.answers import Status, Target
from weir.store.control import Server, ask_all, servers_of
from weir.store.errors import StoreError

ANSWER_SECONDS = 2.0
"""Longest time until a server answers for a table: a cell of a notebook waits for it."""
_HEADER = ("target", "backend", "used", "capacity", "fill", "load", "queued")


def store_html(home: Path, cluster: Path, mount: Path | None) -> str:
    """Show a store as HTML. Servers that do not answer, and a store that is down, are told below the table.

    Args:
        cluster: The store's cluster.json.
        mount: The mount point; None where the store is not mounted.
    """
    try:
        servers = servers_of(cluster, None, timeout_seconds=ANSWER_SECONDS)
    except StoreError:
        return html_table(f"Store in {home}", _HEADER, [], notes=["The store is down."])
    answers = ask_all(servers, Server.status)
    known = [answer for answer in answers if not isinstance(answer, StoreError)]
    notes = [f"Mounted at {mount}." if mount is not None else "Not mounted; programs of `run` see it below a prefix."]
    notes += [answer.message for answer in answers if isinstance(answer, StoreError)]
    rows = [_row(target) for answer in known for target in answer.targets]
    policies = " and ".join(sorted({answer.policy for answer in known})) or "no policy known"
    title = f"Store in {home}: {len(servers)} servers, {len(rows)} targets, {policies}"
    return html_table(title, _HEADER, rows, notes=notes)


def server_html(status: Status) -> str:
    """Show the state of a server as HTML."""
    title = f"Server {status.server}: {status.state}, {status.policy}, up for {seconds(status.uptime_seconds)}"
    notes = [f"{status.inodes:,} inodes, {status.connections:,} connections, version {status.version}"]
    return html_table(title, _HEADER, [_row(target) for target in status.targets], notes=notes)


def _row(target: Target) -> Sequence[object]:
    capacity = target.capacity_bytes
    return (
        *(target.target, target.backend, size(target.used_bytes), size(capacity)),
        *(share(target.used_bytes / capacity if capacity else 0.0), share(target.load), target.queued),
    )
