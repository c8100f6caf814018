"""The audit of a whole store: the entries of its servers in the order of time, those of one command as one."""

from collections.abc import Iterable
from dataclasses import dataclass

from weir.store.audits import AuditEntry

_TOGETHER_SECONDS = 10.0
"""A command asks all servers at once: equal entries of several servers within this time are of one command."""


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
