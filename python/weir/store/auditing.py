"""The audit of a whole store: the entries of its servers in the order of time, those of one command as one."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from weir.store.audits import AuditEntry, ToldEntry
from weir.store.errors import StoreError
from weir.store.home import Home
from weir.store.notices import Listener, Notice

_TOGETHER_SECONDS = 10.0
"""A command asks all servers at once: equal entries of several servers within this time are of one command."""
_TELL_SECONDS = 2.0
"""Longest wait for a server that is told of a change: the change was made, and does not depend on it."""


@dataclass(frozen=True)
class StoreEntry:
    """An entry, and the servers that have it."""

    entry: AuditEntry
    servers: tuple[int, ...]


def merged(asked: Iterable[tuple[int, Iterable[AuditEntry]]]) -> list[StoreEntry]:
    """Put the entries of servers in the order of time.

    Args:
        asked: Number and entries of each server.

    Returns:
        The entries; equal ones of several servers are one, with the time of the first.
    """
    of_all = sorted(
        ((entry, number) for number, entries in asked for entry in entries), key=lambda each: (each[0].at, each[1])
    )
    found: list[StoreEntry] = []
    latest: dict[tuple[object, ...], int] = {}
    for entry, number in of_all:
        key = _key(entry)
        place = latest.get(key)
        if place is not None:
            known = found[place]
            if number not in known.servers and entry.at - known.entry.at < _TOGETHER_SECONDS:
                found[place] = StoreEntry(known.entry, (*known.servers, number))
                continue
        latest[key] = len(found)
        found.append(StoreEntry(entry, (number,)))
    return found


def tell(home: Home, entry: ToldEntry, listener: Listener | None = None) -> None:
    """Tell the servers of a store of a change that no server makes. It is no failure where none takes the entry.

    Args:
        home: Home of the store, with its key.
        listener: Told where no server has the entry; None is nobody.
    """
    from weir.store.access import servers_at
    from weir.store.control import ask_all

    try:
        servers = [replace(server, timeout_seconds=_TELL_SECONDS) for server in servers_at(home)]
    except StoreError:
        servers = []
    answers = ask_all(servers, lambda server: server.tell_audit(entry))
    if listener is not None and all(isinstance(answer, StoreError) for answer in answers):
        words = f"no server has noted this {entry.kind} in its audit"
        errors = [answer for answer in answers if isinstance(answer, StoreError)]
        listener(Notice(f"{words}: {errors[0].message}" if errors else words, hint="see `weir status`"))


def _key(entry: AuditEntry) -> tuple[object, ...]:
    """What entries of one command have in common.

    The value before is not among it: a server that heard of the change from another one first had the new value.
    Neither is the address, as servers see a caller by the network on which it reached them.
    """
    return (
        *(entry.role, entry.uid, entry.user),
        *(entry.claimed_command, entry.claimed_host, entry.claimed_request_of),
        *(entry.kind, entry.object, entry.after, entry.is_told),
        *(entry.outcome, entry.reason, entry.times),
    )
