"""Targets that are emptied so that they can leave, for `weir target retire` and `weir server retire`."""

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from weir.cli.common.asking import administered, servers_up
from weir.cli.common.errors import CommandError, tell
from weir.cli.common.move_notes import MoveNotes
from weir.store.errors import NotYetError, StoreError
from weir.store.home import Home, find_cluster

if TYPE_CHECKING:
    from weir.store.control import Server
    from weir.store.membership import ConfigurationFile

SETTLE_SECONDS = 30.0
"""Longest time until all homes tell that the moves are done, and requests under way have ended, on a busy machine."""
_LOOK_SECONDS = 0.1
_PASSES_MAX = 3
"""Passes of the mover without an object less: files that came in between need a second one."""
INTERRUPTED = 130
"""Exit code of a command that its user ended."""


def empty(home: Home, names: Sequence[str], rate: str | None) -> tuple[bool, int]:
    """Move everything off targets that retire.

    Args:
        rate: Highest rate of the moves; None is the policy's share.

    Returns:
        Whether the user ended it, and the number of objects moved.

    Raises:
        CommandError: Objects stay, or it is not known whether they do.
    """
    from weir.cli.common.mover import follow, mover_credential, start_mover, target_fills, warn_of_left

    cluster, servers = find_cluster(home), servers_up(home)
    spelled = ", ".join(names)
    options = ["--drain", ",".join(names), *([] if rate is None else ["--rate", rate])]
    left = _await_count(servers, names, are_settled=True)
    notes = MoveNotes(home, f"drain {spelled}")
    moved = passes = 0
    with mover_credential(home, None) as bearer:
        while left:
            fills, silent = target_fills(home, cluster, drained=names)
            outcome = follow(start_mover(cluster, bearer, options, silent, ["/"]), fills, notes)
            moved += len(outcome.moves)
            if outcome.code == INTERRUPTED:
                return True, moved
            before, left = left, _await_count(servers, names, are_settled=False)
            passes = 0 if left < before else passes + 1
            if passes == _PASSES_MAX:
                warn_of_left(outcome.left)
                raise CommandError(
                    f"{left} objects are still on {spelled}, which takes no new files",
                    hint="objects of open files without a name stay until the files are closed, and full targets"
                    " take no objects; the same command continues, and --cancel opens it again",
                )
    return False, moved


def await_end(end: Callable[[], None]) -> None:
    """Repeat a step that a server cannot do yet.

    Args:
        end: The step.

    Raises:
        NotYetError: The server still cannot.
    """
    deadline = time.monotonic() + SETTLE_SECONDS
    while True:
        try:
            end()
            return
        except NotYetError:
            if time.monotonic() > deadline:
                raise
            time.sleep(_LOOK_SECONDS)


def changeable(home: Home, number: str, change: str) -> "tuple[Server, ConfigurationFile]":
    """Find what a command needs that changes a server of the store.

    Args:
        change: The change in words, for the error of a caller who may not do it.

    Returns:
        The server, and the store's configuration.

    Raises:
        CommandError: There is no such server, or the caller may not change the store.
    """
    from weir.deployment.growth import configuration_of

    server = next((server for server in administered(home, change) if str(server.number) == number), None)
    if server is None:
        raise CommandError(f"the store has no server {number}", hint="`weir status` lists them")
    return server, configuration_of(home, tell)


def _await_count(servers: "list[Server]", names: Sequence[str], *, are_settled: bool) -> int:
    """The objects on targets, once all homes tell. Moves that are not settled get a moment.

    Raises:
        CommandError: A home does not tell.
    """
    begun = time.monotonic()
    before: int | None = None
    while True:
        left = _objects_left(servers, names)
        is_over = time.monotonic() - begun > SETTLE_SECONDS
        if isinstance(left, StoreError):
            if is_over:
                raise CommandError(
                    f"it is not known whether {', '.join(names)} is empty: {left.message}",
                    hint="it takes no new files; the same command continues when all servers answer",
                )
        elif left == 0 or are_settled or is_over or before == left:
            return left
        else:
            before = left
        # A settled move is told with the next report of its home.
        time.sleep(_LOOK_SECONDS if isinstance(left, StoreError) else 10 * _LOOK_SECONDS)


def _objects_left(servers: "list[Server]", names: Sequence[str]) -> int | StoreError:
    from weir.store.membership import objects_left

    total = 0
    for name in names:
        left = objects_left(servers, name)
        if isinstance(left, StoreError):
            return left
        total += left
    return total
