"""The check of a store's tree over all servers: what two servers say of the same directory is compared here.

Each server judges its own names and inodes by itself, in one turn of its loop, so those faults are no traces of
operations under way. An entry on one server of a directory on another one is a suspect at first. It is a finding if
the directory's home says the same before and after the entry's server has said that no operation is under way: a home
hears of each move under a new number.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from weir.store.trees import AwayEntry, Fault, Position, Tree

ROOT = 1
"""Number of the root directory."""
HOME_SHIFT = 48
"""Bits of an inode's number below the number of its home."""
_DEPTH_MAX = 4096
"""Directories on the way of a path that is shown."""

UNREACHABLE, DANGLING, MISTYPED, LINKS = "unreachable", "dangling", "mistyped", "links"
PARENT, DOUBLED, CYCLE, LEFTOVER, SUMS = "parent", "doubled", "cycle", "leftover", "sums"
MEANINGS = {
    UNREACHABLE: "an inode that no name leads to",
    DANGLING: "a name that leads to no inode",
    MISTYPED: "a name of another kind than its inode",
    LINKS: "an inode that counts another number of names than it has",
    PARENT: "a directory that has its name in another place than it says",
    DOUBLED: "a second name of a directory",
    CYCLE: "a directory that is above itself",
    LEFTOVER: "an inode without a name that nobody has open",
    SUMS: "a sum of a user or group that is not the use of its inodes",
}
"""The kinds of faults of a tree."""
_EXPLAINING = (PARENT, MISTYPED)
"""Faults that make others of the same inode: those are judged again when these are mended."""

Key = tuple[str, int, int | None, str | None]
"""Kind, inode, directory and name of a fault."""


@dataclass(frozen=True)
class TreeFinding:
    """A fault of the tree.

    Attributes:
        kind: One of `MEANINGS`.
        server: The server that mends it.
        ino: Number of the inode, or of the one that the entry names; for sums, of the user or group.
        parent: Directory of the entry at fault, or of the one that the directory misses.
        name: Name of that entry, in hexadecimal; for sums `user` or `group`.
        found: What is recorded: names, or bytes of an owner.
        wanted: What was counted.
        place: For a directory whose entry another server lacks: its own record.
        path: Path of the entry, or of the directory; None where no way from the root is known.
    """

    kind: str
    server: int
    ino: int
    parent: int | None = None
    name: str | None = None
    found: int | None = None
    wanted: int | None = None
    place: Position | None = None
    path: str | None = None

    @property
    def key(self) -> Key:
        """The key by which findings differ."""
        return self.kind, self.ino, self.parent, self.name

    def document(self) -> dict[str, Any]:
        """Give the finding as values for JSON.

        Returns:
            The fields.
        """
        return {
            "kind": self.kind,
            "server": self.server,
            "ino": self.ino,
            "parent": self.parent,
            "name": self.name,
            "found": self.found,
            "wanted": self.wanted,
            "path": self.path,
        }


class Asked(Protocol):
    """Servers that answer about directories and entries."""

    @property
    def is_whole(self) -> bool:
        """Whether every server of the store answers."""
        ...

    def positions(self, inos: Iterable[int]) -> dict[int, Position]:
        """Ask the homes of directories for their places.

        Args:
            inos: The directories.

        Returns:
            The places of those that are there and have a name.
        """
        ...

    def entries(self, wanted: Sequence[tuple[int, str, int, int]]) -> list[AwayEntry | None]:
        """Ask servers for entries.

        Args:
            wanted: Directory, name, inode that is expected there, and the intent that placed that.

        Returns:
            The entries; None for those of servers that do not answer.
        """
        ...

    def answers(self, server: int) -> bool:
        """Tell whether a server answers.

        Args:
            server: Its number.

        Returns:
            Whether it does.
        """
        ...


@dataclass(frozen=True)
class Suspect:
    """A difference between two servers, with the entry that it is about, if there is one."""

    kind: str
    ino: int
    parent: int
    name: str


def judge(trees: Mapping[int, Tree], asked: Asked) -> list[TreeFinding]:
    """Find the faults of the tree.

    Args:
        trees: The trees of servers. What concerns missing ones is not judged.
        asked: The servers, for what must be looked at once more.

    Returns:
        The faults, by inode.
    """
    tops = {top.ino: top for tree in trees.values() for top in tree.tops}
    away: dict[int, list[AwayEntry]] = {}
    for tree in trees.values():
        for entry in tree.away:
            if entry.ino is not None:
                away.setdefault(entry.ino, []).append(entry)
    suspects = [*_suspects(trees, tops, away, asked), *_rings(trees, tops, away)]
    found = [*_own_faults(trees, tops, away), *_verified(suspects, asked)]
    explained = {finding.ino for finding in found if finding.kind in _EXPLAINING}
    kept = (each for each in found if each.kind in _EXPLAINING or each.ino not in explained or each.kind == DANGLING)
    return sorted(kept, key=lambda finding: (finding.ino, finding.kind, finding.parent or 0, finding.name or ""))


def with_paths(findings: Iterable[TreeFinding], asked: Asked) -> list[TreeFinding]:
    """Give findings their paths."""
    findings = list(findings)
    known: dict[int, Position | None] = {ROOT: None}
    wanted = {finding.parent for finding in findings if finding.parent is not None}
    wanted |= {finding.ino for finding in findings if finding.kind in (LINKS, LEFTOVER)}
    for _ in range(_DEPTH_MAX):
        wanted = {ino for ino in wanted if ino not in known}
        if not wanted:
            break
        told = asked.positions(wanted)
        known.update({ino: told.get(ino) for ino in wanted})
        wanted = {position.parent for position in told.values()}

    def path(ino: int | None) -> str | None:
        names: list[str] = []
        while ino is not None and ino != ROOT and len(names) < _DEPTH_MAX:
            position = known.get(ino)
            if position is None:
                return None
            names.append(shown(position.name))
            ino = position.parent
        return None if ino != ROOT else "".join(f"/{name}" for name in reversed(names))

    def of(finding: TreeFinding) -> str | None:
        if finding.parent is None or finding.name is None:
            return path(finding.ino)
        above = path(finding.parent)
        return None if above is None else f"{above}/{shown(finding.name)}"

    return [finding if finding.kind == SUMS else replace(finding, path=of(finding)) for finding in findings]


def shown(name: str) -> str:
    """Give a name of the control API as text.

    Args:
        name: The name's bytes in hexadecimal.
    """
    import os

    return os.fsdecode(bytes.fromhex(name))


def _own_faults(
    trees: Mapping[int, Tree], tops: Mapping[int, Position], away: Mapping[int, list[AwayEntry]]
) -> list[TreeFinding]:
    """The faults that one server can find alone. Another server may know of further names of a directory."""

    def kind(fault: Fault) -> str:
        top = tops.get(fault.ino)
        is_elsewhere = top is not None and any(_is_at(entry, top) for entry in away.get(fault.ino, ()))
        return DOUBLED if fault.kind == PARENT and is_elsewhere else fault.kind

    return [
        TreeFinding(kind(fault), server, fault.ino, fault.parent, fault.name, fault.recorded, fault.counted)
        for server, tree in trees.items()
        for fault in tree.faults
    ]


def _suspects(
    trees: Mapping[int, Tree], tops: Mapping[int, Position], away: Mapping[int, list[AwayEntry]], asked: Asked
) -> list[Suspect]:
    """Directories of which two servers say different things."""
    others = asked.positions(ino for ino in away if ino not in tops)
    found = []
    for ino in away.keys() | tops.keys():
        entries, position = away.get(ino, []), tops.get(ino) or others.get(ino)
        if any(entry.is_changing for entry in entries) or not asked.answers(ino >> HOME_SHIFT):
            continue
        if position is None:
            found += [Suspect(DANGLING, ino, entry.parent, entry.name) for entry in entries]
            continue
        if position.is_entered is None and position.parent >> HOME_SHIFT not in trees:
            continue
        own = [entry for entry in entries if _is_at(entry, position)]
        if own or position.is_entered:
            found += [Suspect(DOUBLED, ino, entry.parent, entry.name) for entry in entries if entry not in own]
        elif entries:
            found.append(Suspect(PARENT, ino, entries[0].parent, entries[0].name))
        elif asked.is_whole and not _local_parent(trees, ino):
            # A server that is silent may have the entry.
            found.append(Suspect(UNREACHABLE, ino, position.parent, position.name))
    return found


def _local_parent(trees: Mapping[int, Tree], ino: int) -> bool:
    """Whether the directory has an entry on its own server, at another place than it says."""
    tree = trees.get(ino >> HOME_SHIFT)
    return tree is not None and any(fault.ino == ino and fault.kind == PARENT for fault in tree.faults)


def _rings(
    trees: Mapping[int, Tree], tops: Mapping[int, Position], away: Mapping[int, list[AwayEntry]]
) -> list[Suspect]:
    """Directories of several servers that are above each other; one of each ring."""
    above = {ino: entry.above for ino, top in tops.items() for entry in away.get(ino, ()) if _is_at(entry, top)}
    found, done = [], set()
    for first in above:
        way: list[int] = []
        here = first
        while here in above and here not in done:
            done.add(here)
            way.append(here)
            here = above[here]
        if here in way:
            least = min(way[way.index(here) :])
            found.append(Suspect(CYCLE, least, tops[least].parent, tops[least].name))
    return found


def _verified(suspects: list[Suspect], asked: Asked) -> list[TreeFinding]:
    """The suspects whose servers say the same once more, in an order without room for an operation in between."""
    if not suspects:
        return []
    inos = [suspect.ino for suspect in suspects]
    before = asked.positions(inos)

    def look() -> list[tuple[AwayEntry | None, AwayEntry | None]]:
        """The entry that a suspect is about, and the one at the directory's own place."""
        wanted = [(each.parent, each.name, each.ino, _placed_by(before, each.ino)) for each in suspects]
        places = [before[each.ino] for each in suspects if each.ino in before]
        own = asked.entries([(each.parent, each.name, each.ino, each.placed_by) for each in places])
        at_place = dict(zip((each.ino for each in places), own, strict=True))
        return [(entry, at_place.get(each.ino)) for each, entry in zip(suspects, asked.entries(wanted), strict=True)]

    looks = zip(look(), look(), strict=True)
    after = asked.positions(inos)
    return [
        _finding(suspect, before.get(suspect.ino))
        for suspect, seen in zip(suspects, looks, strict=True)
        if before.get(suspect.ino) == after.get(suspect.ino)
        and asked.answers(suspect.ino >> HOME_SHIFT)
        and all(_holds(suspect, before.get(suspect.ino), entry, own) for entry, own in seen)
    ]


def _holds(suspect: Suspect, position: Position | None, entry: AwayEntry | None, own: AwayEntry | None) -> bool:
    """Whether a suspect is what one look shows, too."""
    if entry is None or entry.is_changing or (own is not None and own.is_changing):
        return False
    if suspect.kind == DANGLING:
        return position is None and entry.ino == suspect.ino
    if position is None or (own is None and position.is_entered is None):
        return False
    is_entered = position.is_entered or (own is not None and own.ino == suspect.ino)
    if suspect.kind == UNREACHABLE:
        return not is_entered
    if entry.ino != suspect.ino:
        return False
    if suspect.kind == CYCLE:
        return (suspect.parent, suspect.name) == (position.parent, position.name)
    return is_entered == (suspect.kind == DOUBLED)


def _finding(suspect: Suspect, position: Position | None) -> TreeFinding:
    is_of_inode = suspect.kind in (UNREACHABLE, PARENT)
    server = (suspect.ino if is_of_inode else suspect.parent) >> HOME_SHIFT
    return TreeFinding(suspect.kind, server, suspect.ino, suspect.parent, suspect.name, place=position)


def _placed_by(positions: Mapping[int, Position], ino: int) -> int:
    position = positions.get(ino)
    return 0 if position is None else position.placed_by


def _is_at(entry: AwayEntry, position: Position) -> bool:
    return (entry.parent, entry.name) == (position.parent, position.name)
