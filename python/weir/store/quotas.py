"""The quotas of a store: the use of each user and group over all servers, beside its limits."""

import json
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from weir.amounts import Quantity, size
from weir.store.answers import Quota, QuotaLimits
from weir.store.control import Server, ask_all
from weir.store.errors import SilentServerError, StoreError
from weir.store.values import NO_LIMIT

HEADER = ("kind", "name", "bytes", "of at most", "inodes", "of at most")
"""Header of a table of quotas."""
ATTRIBUTE = "weir.quota"
"""Extended attribute of every file of a mounted store, with the quotas of the process that reads it."""


@dataclass(frozen=True)
class OwnerQuota:
    """The use of one owner over all servers that answered, and its limits.

    Attributes:
        kind: `user` or `group`.
        id: Number of the owner; None for the limits of all owners of the kind without limits of their own.
        bytes: Bytes of its files, in whole pages.
        inodes: Its files, directories and other inodes.
        bytes_max: The most bytes; None without a limit.
        inodes_max: The most inodes; None without a limit.
        is_set: Whether the limits were set for this owner itself.
        unpublished_bytes: The part of the bytes that lies behind the ends of files and was not published yet.
    """

    kind: str
    id: int | None
    bytes: int
    inodes: int
    bytes_max: int | None
    inodes_max: int | None
    is_set: bool = False
    unpublished_bytes: int = 0

    @property
    def name(self) -> str:
        """Name of the owner on this host; its number where it has none here."""
        from weir.store.identity import group_name, user_name

        if self.id is None:
            return f"every {self.kind}"
        return user_name(self.id) if self.kind == "user" else group_name(self.id)

    def row(self) -> tuple[str, str, Quantity, Quantity, Quantity, Quantity]:
        """Give the quota as a row of a table.

        Returns:
            The cells below `HEADER`.
        """
        is_limit_alone = self.id is None
        return (
            self.kind,
            self.name,
            Quantity("-") if is_limit_alone else size(self.bytes),
            Quantity(NO_LIMIT) if self.bytes_max is None else size(self.bytes_max),
            Quantity("-") if is_limit_alone else Quantity(f"{self.inodes:,}"),
            Quantity(NO_LIMIT) if self.inodes_max is None else Quantity(f"{self.inodes_max:,}"),
        )

    def document(self) -> dict[str, Any]:
        """Give the quota as values for JSON.

        Returns:
            The fields and the name.
        """
        name = None if self.id is None else self.name
        return {"kind": self.kind, "id": self.id, "name": name, **_figures(self), "is_set": self.is_set}


def merge(answers: Iterable[Iterable[Quota]]) -> list[OwnerQuota]:
    """Add up the use of each owner over servers.

    Args:
        answers: The owners of each server.

    Returns:
        The owners: first the limits of all, then users by number, then groups.
    """
    merged: dict[tuple[str, int | None], OwnerQuota] = {}
    for answer in answers:
        for line in answer:
            key = (line.kind, line.id)
            before = merged.get(key)
            used = (0, 0, 0) if before is None else (before.bytes, before.inodes, before.unpublished_bytes)
            merged[key] = OwnerQuota(
                line.kind,
                line.id,
                used[0] + line.bytes,
                used[1] + line.inodes,
                line.bytes_max,
                line.inodes_max,
                line.is_set,
                used[2] + line.unpublished_bytes,
            )
    order = {"user": 0, "group": 1}
    return sorted(merged.values(), key=lambda quota: (quota.id is not None, order.get(quota.kind, 2), quota.id or 0))


def limits_of(servers: Sequence[Server], kind: str, number: int | None) -> QuotaLimits:
    """Find the limits that hold for an owner: its own, or those of every owner of its kind.

    Args:
        kind: `user` or `group`.
        number: Number of the owner; None is every owner of the kind without limits of its own.

    Returns:
        The limits, as the first server that answers knows them.
    """
    answer = next((each for each in ask_all(servers, Server.quotas) if not isinstance(each, StoreError)), ())
    lines = {line.id: line for line in answer if line.kind == kind}
    line = lines.get(number) or lines.get(None)
    return QuotaLimits(None, None) if line is None else QuotaLimits(line.bytes_max, line.inodes_max)


def set_limits(
    servers: Sequence[Server],
    kind: str,
    number: int | None,
    limits: QuotaLimits | None,
    silent: Callable[[Server, SilentServerError], None],
) -> list[Server]:
    """Set the limits of an owner on every server, as they are to hold at once.

    Args:
        limits: The limits; None leaves the owner to the limits of every owner of its kind.
        silent: Takes each server that does not answer, which follows when it is back.

    Returns:
        The servers that took them.

    Raises:
        StoreError: A server refuses, or none answers.
    """
    told: list[Server] = []
    answers = ask_all(servers, lambda server: server.set_quota(kind, number, limits))
    for server, answer in zip(servers, answers, strict=True):
        if isinstance(answer, SilentServerError):
            silent(server, answer)
        elif isinstance(answer, StoreError):
            raise answer
        else:
            told.append(server)
    if not told:
        raise StoreError("no server answers, so no limit was changed", hint="`weir up` starts the servers again")
    return told


def own(place: Path) -> list[OwnerQuota]:
    """Read the quotas of this process's user and groups from a mounted store.

    Args:
        place: The mount point, or any file below it.

    Returns:
        The user, then the groups by number.

    Raises:
        StoreError: The place is not on a mounted store.
    """
    try:
        document = json.loads(os.getxattr(place, ATTRIBUTE))
        lines = [("user", document["user"]), *(("group", line) for line in document["groups"])]
        return [
            OwnerQuota(kind, line["id"], line["bytes"], line["inodes"], line["bytes_max"], line["inodes_max"])
            for kind, line in lines
        ]
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise StoreError(
            f"{place} does not tell your quota: {error}", hint="name a directory of a mounted store; see `weir status`"
        ) from error


def _figures(quota: OwnerQuota) -> dict[str, Any]:
    return {
        "bytes": quota.bytes,
        "inodes": quota.inodes,
        "unpublished_bytes": quota.unpublished_bytes,
        "bytes_max": quota.bytes_max,
        "inodes_max": quota.inodes_max,
    }
