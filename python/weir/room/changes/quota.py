"""Other limits of a user or a group."""

from collections.abc import Callable, Mapping

from weir.amounts import size_text
from weir.room.changes.offers import Proposal, noting, proposal
from weir.room.errors import RoomError
from weir.room.panels import Mark, Page, Panel, Text, table_of
from weir.room.sources import Sources
from weir.store import values
from weir.store.answers import QuotaLimits
from weir.store.quotas import limits_of, set_limits

KINDS = ("user", "group", "every user", "every group")
"""Owners that the page offers; `every` is for owners without limits of their own."""


def propose(sources: Sources, query: Mapping[str, str]) -> Proposal:
    """Propose other limits.

    Args:
        query: Has the `kind` and, of one owner, the `name`; `bytes` and `inodes` are as they are where they are empty.

    Raises:
        RoomError: There is no such owner, a limit is none, or nothing would change.
        StoreError: No store is up.
    """
    kind, number, name = _owner(query)
    before = limits_of(sources.find(), kind, number)
    wanted = QuotaLimits(
        bytes_max=_limit(query, "bytes", before.bytes_max, values.size_limit),
        inodes_max=_limit(query, "inodes", before.inodes_max, values.count_limit),
    )
    if wanted == before:
        raise RoomError(f"these are the limits of {name} now", hint="give bytes, such as 10GiB, inodes, or both")
    rows: list[tuple[Text, ...]] = [
        (what, was, then if was == then else Mark(then, "odd"))
        for what, was, then in zip(("bytes", "inodes"), _words(before), _words(wanted), strict=True)
    ]
    return proposal(
        f"Change the limits of {name}",
        f"quota of {name}: {', '.join(_words(before))} -> {', '.join(_words(wanted))}",
        rows,
        warning="They hold at once, on every server, and over restarts. Who is above a limit keeps its files, and gets "
        "no more until it is below. The owner has these limits of its own from then on.",
        shown=before,
        look=lambda: limits_of(sources.find(), kind, number),
        change=lambda: _changed(sources, kind, number, wanted),
    )


def _owner(query: Mapping[str, str]) -> tuple[str, int | None, str]:
    """The kind, the number and the name of the owner."""
    chosen, name = query.get("kind", ""), query.get("name", "").strip()
    if chosen not in KINDS:
        raise RoomError(f"{chosen or 'nothing'} has no quota", hint=f"one of {', '.join(KINDS)}")
    kind = chosen.removeprefix("every ")
    if chosen != kind:
        return kind, None, chosen
    try:
        return kind, (values.user if kind == "user" else values.group)(name), f"{kind} {name}"
    except ValueError as error:
        raise RoomError(str(error)) from error


def _limit(query: Mapping[str, str], name: str, now: int | None, read: Callable[[str], int | None]) -> int | None:
    text = query.get(name, "").strip()
    try:
        return read(text) if text else now
    except ValueError as error:
        raise RoomError(str(error)) from error


def _words(limits: QuotaLimits) -> tuple[str, str]:
    return (
        values.NO_LIMIT if limits.bytes_max is None else size_text(limits.bytes_max),
        values.NO_LIMIT if limits.inodes_max is None else f"{limits.inodes_max:,}",
    )


def _changed(sources: Sources, kind: str, number: int | None, wanted: QuotaLimits) -> Page:
    silent: list[Mark] = []
    told = set_limits(sources.find(), kind, number, wanted, noting(silent))
    rows: list[tuple[Text, ...]] = [
        (what, Mark(now, "good")) for what, now in zip(("bytes", "inodes"), _words(wanted), strict=True)
    ]
    words = f"{len(told)} servers have them."
    panel = Panel("limits", "The limits now", words, table_of(("of at most", "is"), rows))
    return Page("The limits are changed", (panel,), (), tuple(silent))
