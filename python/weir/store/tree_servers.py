"""The check of a tree by the servers of a store that is up, and by the inventories of one that is down."""

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from weir.store.answers import StoppedInventory
from weir.store.control import Server, ask_all
from weir.store.errors import NotYetError, StoreError
from weir.store.tree_check import HOME_SHIFT, LEFTOVER, SUMS, TreeFinding, judge, with_paths
from weir.store.trees import AwayEntry, Position, Sums, Tree

PAUSE_SECONDS = 1.5
"""Pause between two looks at what a server may be about to remove."""
_PART_INODES = 1_000_000
"""Inodes of one server that are judged for one answer: seconds, and for each part the server lists its numbers once."""
_DIRECTORIES_AT_ONCE, _ENTRIES_AT_ONCE = 256, 8
"""Directories and entries in one question, as the servers take them."""
_LOOKS = 4
"""Looks at inodes without names, which go bit by bit, and tries of a sum that another check stopped."""

Item = TypeVar("Item")
Told = TypeVar("Told")


@dataclass(frozen=True)
class CheckedTree:
    """The result of a check of the tree.

    Attributes:
        findings: The faults, by inode; then those of sums.
        inodes: Number of inodes that were judged.
        silent: Servers without an answer. What concerns them was not judged.
    """

    findings: tuple[TreeFinding, ...]
    inodes: int
    silent: frozenset[int]


class RunningServers:
    """Servers that are asked. One that does not answer is not asked again.

    Attributes:
        silent: Servers that did not answer.
    """

    def __init__(self, servers: Sequence[Server]) -> None:
        """Begin with all servers, which are taken to answer.

        Args:
            servers: The servers of the store.
        """
        self.silent: set[int] = set()
        self._servers = {server.number: server for server in servers}

    @property
    def is_whole(self) -> bool:
        """Whether every server has answered so far."""
        return not self.silent

    def answers(self, server: int) -> bool:
        """Tell whether a server answers, or whether the store has none of this number.

        Args:
            server: The number.

        Returns:
            False for a server that is silent.
        """
        return server not in self.silent

    def positions(self, inos: Iterable[int]) -> dict[int, Position]:
        """Ask the homes of directories for their places.

        Args:
            inos: The directories.

        Returns:
            The places of those that are there and have a name.
        """
        told: dict[int, Position] = {}
        for number, own in _by_home((ino, ino) for ino in sorted(set(inos))).items():
            answer = self._ask(number, own, _DIRECTORIES_AT_ONCE, lambda server, some: server.directories(some))
            told.update({position.ino: position for position in answer or ()})
        return told

    def entries(self, wanted: Sequence[tuple[int, str, int, int]]) -> list[AwayEntry | None]:
        """Ask servers for entries.

        Args:
            wanted: Directory, name, inode that is expected there, and the intent that placed that.

        Returns:
            The entries; None for those of servers that do not answer.
        """
        found: dict[int, AwayEntry] = {}
        for number, own in _by_home((each[0], index) for index, each in enumerate(wanted)).items():
            questions = [wanted[index] for index in own]
            answer = self._ask(number, questions, _ENTRIES_AT_ONCE, lambda server, some: server.entries(some))
            found.update(zip(own, answer or (), strict=False))
        return [found.get(index) for index in range(len(wanted))]

    def trees(self, parts: int) -> dict[int, Tree]:
        """Have the servers judge their inodes.

        Args:
            parts: Number of parts of the inodes; each is one request.
        """

        def ask(server: Server) -> Tree:
            return merged(server.tree(part, parts) for part in range(parts))

        return self._ask_all(ask)

    def sums(self) -> dict[int, Sums]:
        """Have the servers compare what they account with their inodes.

        Returns:
            The sums that are wrong, by server.
        """

        def ask(server: Server) -> Sums:
            for _ in range(_LOOKS - 1):
                try:
                    return server.sums()
                except NotYetError:
                    time.sleep(PAUSE_SECONDS)
            return server.sums()

        return self._ask_all(ask)

    def inodes_max(self) -> int:
        """Ask how many inodes the servers have.

        Returns:
            The number of the server with most.
        """
        return max((status.inodes for status in self._ask_all(Server.status).values()), default=0)

    def _ask_all(self, question: Callable[[Server], Told]) -> dict[int, Told]:
        servers = [server for number, server in self._servers.items() if number not in self.silent]
        answers = dict(zip((server.number for server in servers), ask_all(servers, question), strict=True))
        told = {number: answer for number, answer in answers.items() if not isinstance(answer, StoreError)}
        self.silent |= answers.keys() - told.keys()
        return told

    def _ask(
        self,
        number: int,
        items: Sequence[Item],
        at_once: int,
        question: Callable[[Server, Sequence[Item]], Sequence[Told]],
    ) -> list[Told] | None:
        server = self._servers.get(number)
        if server is None or number in self.silent:
            return None
        told: list[Told] = []
        try:
            for first in range(0, len(items), at_once):
                told += question(server, items[first : first + at_once])
        except StoreError:
            self.silent.add(number)
            return None
        return told


class StoppedServers:
    """The inventories of servers that are down."""

    def __init__(self, inventories: Mapping[int, StoppedInventory], servers: int) -> None:
        """Index inventories.

        Args:
            inventories: Inventories by server.
            servers: Number of servers of the store; those without an inventory are silent.
        """
        self._silent = set(range(servers)) - inventories.keys()
        self._positions = {place.ino: place for each in inventories.values() for place in each.directories}
        self._away = {(entry.parent, entry.name): entry for each in inventories.values() for entry in each.tree.away}

    @property
    def is_whole(self) -> bool:
        """Whether there is an inventory of every server."""
        return not self._silent

    def answers(self, server: int) -> bool:
        """Tell whether there is an inventory of a server, or no such server.

        Args:
            server: The number.

        Returns:
            False for a server of another host.
        """
        return server not in self._silent

    def positions(self, inos: Iterable[int]) -> dict[int, Position]:
        """Look directories up.

        Args:
            inos: The directories.

        Returns:
            The places of those that are there and have a name.
        """
        return {ino: self._positions[ino] for ino in inos if ino in self._positions}

    def entries(self, wanted: Sequence[tuple[int, str, int, int]]) -> list[AwayEntry | None]:
        """Look entries up.

        Args:
            wanted: Directory, name, inode that is expected there, and the intent that placed that.

        Returns:
            The entries; None for those of servers without an inventory.
        """
        missing = [AwayEntry(parent, name, None, parent, is_changing=False) for parent, name, _, _ in wanted]
        return [
            self._away.get((each.parent, each.name), each) if self.answers(each.parent >> HOME_SHIFT) else None
            for each in missing
        ]


def check_running_tree(servers: Sequence[Server], *, pause: Callable[[float], None] = time.sleep) -> CheckedTree:
    """Check the tree of a store that is up.

    Args:
        servers: Servers of the store, with the access of its administrator.
        pause: Waits between two looks.
    """
    asked = RunningServers(servers)
    parts = max(1, math.ceil(asked.inodes_max() / _PART_INODES))
    trees = asked.trees(parts)
    findings = judge(trees, asked)
    leftovers = {finding.key for finding in findings if finding.kind == LEFTOVER}
    for _ in range(_LOOKS - 1):
        if not leftovers:
            break
        pause(PAUSE_SECONDS)
        leftovers &= {finding.key for finding in judge(asked.trees(parts), asked)}
    findings = [finding for finding in findings if finding.kind != LEFTOVER or finding.key in leftovers]
    findings += sum_findings(asked.sums())
    inodes = sum(tree.inodes for tree in trees.values())
    return CheckedTree(tuple(with_paths(findings, asked)), inodes, frozenset(asked.silent))


def check_stopped_tree(inventories: Mapping[int, StoppedInventory], servers: int) -> CheckedTree:
    """Check the tree of a store that is down.

    Args:
        inventories: Inventories of servers.
        servers: Number of servers of the store.
    """
    asked = StoppedServers(inventories, servers)
    findings = judge({number: each.tree for number, each in inventories.items()}, asked)
    findings += sum_findings({number: Sums(each.sums) for number, each in inventories.items()})
    inodes = sum(each.tree.inodes for each in inventories.values())
    return CheckedTree(tuple(with_paths(findings, asked)), inodes, frozenset())


def sum_findings(sums: Mapping[int, Sums]) -> list[TreeFinding]:
    """Give wrong sums as findings.

    Args:
        sums: Sums by server.

    Returns:
        One finding for each owner on each server.
    """
    return [
        TreeFinding(SUMS, server, each.id, None, each.kind, each.bytes, each.bytes_counted)
        for server, told in sorted(sums.items())
        for each in told.sums
    ]


def merged(parts: Iterable[Tree]) -> Tree:
    """Join the parts of a server's tree."""
    parts = list(parts)
    return Tree(
        sum(part.inodes for part in parts),
        tuple(fault for part in parts for fault in part.faults),
        tuple(entry for part in parts for entry in part.away),
        tuple(top for part in parts for top in part.tops),
    )


def _by_home(items: Iterable[tuple[int, Item]]) -> dict[int, list[Item]]:
    """Items by the home of the inode that stands before each."""
    found: dict[int, list[Item]] = {}
    for ino, item in items:
        found.setdefault(ino >> HOME_SHIFT, []).append(item)
    return found
