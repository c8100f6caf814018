"""The repair of a store's tree, by orders to its servers, which look for the fault once more and journal the change.

What no name leads to gets one in `lost+found`, by its number. Files stay with their home, so each server but that of
the root has a folder of its own in there.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from weir.store.control import Server
from weir.store.errors import NotYetError, StoreError
from weir.store.tree_check import (
    CYCLE,
    DANGLING,
    DOUBLED,
    HOME_SHIFT,
    LEFTOVER,
    LINKS,
    MISTYPED,
    PARENT,
    SUMS,
    UNREACHABLE,
    TreeFinding,
)
from weir.store.tree_servers import CheckedTree, check_running_tree
from weir.store.trees import SeenPlace, WantedMend

ROUNDS_MAX = 16
"""Checks of one repair, as a fault may hide another: of a ring of directories one entry goes, and then it is named."""
_ROOT_SERVER = 0
"""The server of the root directory."""


@dataclass(frozen=True)
class MendedFault:
    """A fault that was mended, or that stays.

    Attributes:
        finding: The fault.
        done: What was done; None where nothing was.
        why: Why nothing was done.
    """

    finding: TreeFinding
    done: str | None
    why: str | None = None


@dataclass(frozen=True)
class RepairedTree:
    """The result of a repair.

    Attributes:
        mended: Faults that were mended, in the order of the repair.
        left: Faults that stay, with the reason.
        checked: The check after the repair.
    """

    mended: tuple[MendedFault, ...]
    left: tuple[MendedFault, ...]
    checked: CheckedTree


def repair_tree(
    servers: Sequence[Server],
    *,
    told: Callable[[MendedFault], None] = lambda _: None,
    pause: Callable[[float], None] = time.sleep,
) -> RepairedTree:
    """Mend the faults of a tree, of a store that is up.

    Args:
        servers: Servers of the store, with the access of its administrator.
        told: Is told of each fault that was mended.
        pause: Waits between two looks.

    Returns:
        What was mended, and what stays.
    """
    repair = _Repair({server.number: server for server in servers})
    mended: list[MendedFault] = []
    left: list[MendedFault] = []
    checked = check_running_tree(servers, pause=pause)
    for _ in range(ROUNDS_MAX):
        outcomes = [repair.mend(finding) for finding in checked.findings]
        done = [outcome for outcome in outcomes if outcome.done is not None]
        left = [outcome for outcome in outcomes if outcome.done is None]
        for outcome in done:
            told(outcome)
        mended += done
        if not done:
            break
        checked = check_running_tree(servers, pause=pause)
        if not checked.findings:
            left = []
            break
    still = {finding.key for finding in checked.findings}
    return RepairedTree(tuple(mended), tuple(each for each in left if each.finding.key in still), checked)


class _Repair:
    """The orders of one repair, and the folders that take what has no name."""

    def __init__(self, servers: dict[int, Server]) -> None:
        self._servers = servers
        self._shelters: dict[int, int] = {}

    def mend(self, finding: TreeFinding) -> MendedFault:
        """Mend one fault.

        Returns:
            What was done, or why nothing was.
        """
        try:
            return MendedFault(finding, self._carry_out(finding))
        except NotYetError as error:
            return MendedFault(finding, None, f"the server takes no changes now: {error}")
        except StoreError as error:
            return MendedFault(finding, None, str(error))

    def _carry_out(self, finding: TreeFinding) -> str:
        server, ino, parent, name = finding.server, finding.ino, finding.parent, finding.name
        at = {"parent": parent, "name": name, "ino": ino}
        if finding.kind == UNREACHABLE or (finding.kind == CYCLE and server == ino >> HOME_SHIFT):
            shelter = self._shelter(server)
            place = finding.place
            seen = None if place is None else SeenPlace(place.parent, place.name, place.placed_by)
            if finding.kind == CYCLE:
                self._order(server, WantedMend("cut", ino=ino, shelter=shelter))
            else:
                self._order(server, WantedMend("name", ino=ino, shelter=shelter, place=seen))
            return f"it is {self._sheltered(server)}/{ino:016x}"
        if finding.kind in (DANGLING, DOUBLED, CYCLE):
            self._order(server, WantedMend("unname", **at))  # type: ignore[arg-type]
            return "the name is removed"
        if finding.kind == MISTYPED:
            self._order(server, WantedMend("retype", **at))  # type: ignore[arg-type]
            return "the name has the kind of its inode"
        if finding.kind == PARENT:
            self._order(ino >> HOME_SHIFT, WantedMend("place", **at))  # type: ignore[arg-type]
            return "the directory knows its place"
        if finding.kind == LINKS:
            self._order(server, WantedMend("count", ino=ino))
            return f"it counts {finding.wanted} names"
        if finding.kind == LEFTOVER:
            self._order(server, WantedMend("dispose", ino=ino))
            return "it is removed"
        assert finding.kind == SUMS, finding.kind
        self._order(server, WantedMend("sums"))
        return "the sums are those of the inodes"

    def _shelter(self, server: int) -> int:
        """The folder of a server for what has no name, which is made where it is not there."""
        if server not in self._shelters:
            root = self._order(_ROOT_SERVER, WantedMend("shelter"))
            self._shelters[_ROOT_SERVER] = root
            if server != _ROOT_SERVER:
                self._shelters[server] = self._shelter_of(server, root)
        return self._shelters[server]

    def _shelter_of(self, server: int, root: int) -> int:
        name = _folder(server).encode().hex()
        (entry,) = self._server(_ROOT_SERVER).entries([(root, name, 0, 0)])
        if entry.ino is not None:
            return entry.ino
        made = self._order(server, WantedMend("shelter_here", parent=root, name=name))
        self._order(_ROOT_SERVER, WantedMend("enter_shelter", parent=root, name=name, ino=made))
        return made

    def _sheltered(self, server: int) -> str:
        return "/lost+found" if server == _ROOT_SERVER else f"/lost+found/{_folder(server)}"

    def _order(self, server: int, wanted: WantedMend) -> int:
        return self._server(server).mend(wanted)

    def _server(self, number: int) -> Server:
        if number not in self._servers:
            raise StoreError(f"the store has no server {number}", hint="see `weir status`")
        return self._servers[number]


def _folder(server: int) -> str:
    return f"server-{server}"
