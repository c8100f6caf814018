"""The check of a store that is down, from its journals and the directories of its targets, and its repair.

The servers' own program replays the journals, from copies, so the check changes nothing. The repair moves objects that
belong to no file out of the way; it removes none.
"""

import json
import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from weir import native
from weir.store import cluster
from weir.store.answers import Inventory, Place, StoppedInventory
from weir.store.checking import MISPLACED, ORPHAN, Checked, Finding, compare, paths_of, with_paths
from weir.store.decoding import DecodingError, decode
from weir.store.errors import StoreError
from weir.store.files import make_folder
from weir.store.folder_check import FolderFinding, check_stopped_folders
from weir.store.home import Home
from weir.store.tree_servers import CheckedTree, check_stopped_tree

ASIDE = "orphans"
"""Folder of a target for objects that belong to no file."""
_SLOT_SHIFT = 58
_TIMEOUT_SECONDS = 3600.0
"""Longest time of one server's inventory: a journal of gigabytes on a slow disk."""


@dataclass(frozen=True)
class Repaired:
    """An object that was moved out of the way."""

    finding: Finding
    path: Path
    """The object's file now."""


def check_stopped(
    home: Home, *, repair: bool = False, accept_journal_loss: bool = False
) -> tuple[Checked, CheckedTree, tuple[FolderFinding, ...], list[Repaired], list[str]]:
    """Check a store that is down: its objects, tree and folders. Faults of the tree are mended while the store is up.

    Args:
        repair: Whether objects that belong to no file are moved out of the way.
        accept_journal_loss: Whether journals that lost changes which were on stable storage are read as far as they go.

    Returns:
        The results for objects, tree and folders, the moved objects, and the servers' words about their journals.

    Raises:
        StoreError: The store is up, keeps nothing, or cannot be read.
    """
    configuration = cluster.stored(home)
    if configuration is None:
        raise StoreError(
            f"{home.root} has no store that keeps files",
            hint="is it the right `home`? a store in memory is gone when it is down",
        )
    with home.locked():
        if not cluster.is_down(home):
            raise StoreError("the store is up", hint="end it with `weir down`, or check it as it runs with `weir fsck`")
        numbers = range(len(configuration.servers))
        here = [number for number in numbers if (home.server(number) / "journal").is_dir()]
        inventories = {number: _inventory(home, number, accept_journal_loss) for number in here}
        looks = {number: Inventory(each.objects, each.files) for number, each in inventories.items()}
        places = {(number, place.ino): place for number, each in inventories.items() for place in each.places}
        findings = compare(looks)
        wanted = {finding.ino for finding in findings}
        paths = paths_of(
            (place for (number, ino), place in places.items() if ino in wanted and ino >> 48 == number),
            lambda number, ino: _place(places, number, ino),
        )
        findings = with_paths(findings, paths)
        moved = _move_aside(findings, inventories) if repair else []
    counts = [(len(each.files), len(each.objects)) for each in inventories.values()]
    silent = tuple(number for number in numbers if number not in here)
    checked = Checked(tuple(findings), sum(files for files, _ in counts), sum(each for _, each in counts), silent)
    tree = check_stopped_tree(inventories, len(configuration.servers))
    folders = check_stopped_folders(inventories)
    return checked, tree, folders, moved, [notice for each in inventories.values() for notice in each.notices]


def _place(places: Mapping[tuple[int, int], Place], number: int, ino: int) -> Place | None:
    return places.get((number, ino))


def _inventory(home: Home, number: int, accept_journal_loss: bool) -> StoppedInventory:
    """Have the server's program read its journal and its targets."""
    program = native.server_program()
    command = [program, "--config", home.configuration, "--home", home.root, "--server", str(number), "--inventory"]
    if accept_journal_loss:
        command.append("--accept-journal-loss")
    try:
        answer = subprocess.run(
            [str(word) for word in command], capture_output=True, check=False, timeout=_TIMEOUT_SECONDS
        )
        if answer.returncode != 0:
            words = answer.stderr.decode(errors="backslashreplace").strip().removeprefix("error: ")
            raise StoreError(f"server {number}: {words}", hint="`accept_journal_loss` reads as far as a journal goes")
        return decode(StoppedInventory, json.loads(answer.stdout))
    except (OSError, subprocess.TimeoutExpired, ValueError, RecursionError, DecodingError) as error:
        raise StoreError(
            f"server {number} cannot be checked: {error}", hint="is `weir` installed as a whole?"
        ) from error


def _move_aside(findings: list[Finding], inventories: Mapping[int, StoppedInventory]) -> list[Repaired]:
    moved = []
    for finding in findings:
        if finding.kind not in (ORPHAN, MISPLACED):
            continue
        server, _, place = finding.target.partition(".")
        index, _, slot = place.partition("+")
        folder = Path(inventories[int(server)].folders[int(index)])
        make_folder(folder / ASIDE, 0o700)
        # On its target the slot is in the upper bits of an object's number (`Ino::object_on` of crates/wire).
        name = f"{finding.ino | int(slot or 0) << _SLOT_SHIFT:016x}"
        goal = folder / ASIDE / name
        number = 0
        while goal.exists():
            number += 1
            goal = folder / ASIDE / f"{name}.{number}"
        (folder / f"{finding.ino % 256:02x}" / name).rename(goal)
        moved.append(Repaired(finding, goal))
        for changed in (goal.parent, folder / f"{finding.ino % 256:02x}"):
            descriptor = os.open(changed, os.O_RDONLY | os.O_DIRECTORY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
    return moved
