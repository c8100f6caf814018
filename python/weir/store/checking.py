"""The check of a store: every object has its file, and every file has its objects.

A running store changes while it is looked at, so one look finds only suspects. A finding is a suspect of several looks
in succession. The sizes that files must have are those of the look before, or of this one if they are less: an object
is listed before its file, and a file that grows in between would seem to lack bytes.
"""

import math
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from weir.store.answers import FileEntry, Inventory, Place
from weir.store.control import Server, ask_all
from weir.store.errors import StoreError

ROOT = 1
"""Number of the root directory."""
PAUSE_SECONDS = 1.5
"""Pause between two looks: removals and words about new objects take less on their way."""
_LOOKS = 4
"""Looks at a suspect, the first among them."""
_PART_FILES = 50_000
"""Files of one server that are looked at together; it bounds the memory of both sides."""
_NAMED_AT_ONCE = 256
"""Inodes in one question for paths."""
_NAMED_MAX = 10_000
"""Findings that are given their paths."""
_DEPTH_MAX = 64
"""Changes of server on the way from a file to the root."""

_HOME_SHIFT = 48

ORPHAN, MISPLACED, LOST, SHORT = "orphan", "misplaced", "lost", "short"
MEANINGS = {
    ORPHAN: "an object of no file",
    MISPLACED: "an object on a target that its file does not use",
    LOST: "a file without one of its objects",
    SHORT: "an object that is shorter than its file needs",
}
"""The kinds of findings."""

Key = tuple[str, str, int]
"""Kind, target and inode of a suspect."""


@dataclass(frozen=True)
class Finding:
    """A difference between files and objects.

    Attributes:
        kind: One of `MEANINGS`.
        target: The target.
        ino: Number of the file's inode.
        bytes: Length of the object; None where it is missing.
        bytes_min: Bytes that the object must have at least; None for an object that is not to be there.
        path: Path of the file in the store; None where the file is gone or has no name.
    """

    kind: str
    target: str
    ino: int
    bytes: int | None
    bytes_min: int | None
    path: str | None = None

    @property
    def key(self) -> Key:
        """The kind, place and file, by which findings differ."""
        return self.kind, self.target, self.ino

    def document(self) -> dict[str, Any]:
        """Give the finding as values for JSON.

        Returns:
            The fields.
        """
        return {
            "kind": self.kind,
            "target": self.target,
            "ino": self.ino,
            "bytes": self.bytes,
            "bytes_min": self.bytes_min,
            "path": self.path,
        }


@dataclass(frozen=True)
class Checked:
    """The result of a check.

    Attributes:
        findings: The findings, by target and inode.
        files: Number of files that were looked at.
        objects: Number of objects that were looked at.
        silent: Servers without an answer. Their objects, and the objects of their files, were not judged.
    """

    findings: tuple[Finding, ...]
    files: int
    objects: int
    silent: tuple[int, ...] = ()


def compare(looks: Mapping[int, Inventory], before: Mapping[int, Inventory] | None = None) -> list[Finding]:
    """Find the differences between the files and the objects of servers.

    Args:
        looks: Inventories by server. Objects of servers that are missing, and of their files, are not judged.
        before: Inventories of an earlier look, for servers that run.

    Returns:
        The differences, by target and inode.
    """
    files = {entry.ino: entry for look in looks.values() for entry in look.files}
    earlier = {entry.ino: entry for look in (before or {}).values() for entry in look.files}
    objects = {(each.target, each.ino): each.bytes for look in looks.values() for each in look.objects}
    found = [
        Finding(kind, target, ino, length, None)
        for (target, ino), length in objects.items()
        if ino >> _HOME_SHIFT in looks and (kind := _needless(files.get(ino), target)) is not None
    ]
    for entry in files.values():
        then = entry if before is None else earlier.get(entry.ino)
        if then is None or entry.is_changing or then.is_changing:
            continue
        for target, wanted in _wanted(entry, then).items():
            if int(target.partition(".")[0]) not in looks:
                continue
            length = objects.get((target, entry.ino))
            if length is None:
                found.append(Finding(LOST, target, entry.ino, None, wanted))
            elif length < wanted:
                found.append(Finding(SHORT, target, entry.ino, length, wanted))
    return sorted(found, key=lambda finding: (finding.target, finding.ino))


def check_running(
    servers: list[Server],
    *,
    pause: Callable[[float], None] = time.sleep,
    told: Callable[[str, int, int], None] = lambda _step, _done, _parts: None,
) -> Checked:
    """Check a store that is up.

    Args:
        pause: Waits between two looks.
        told: Called with the step, the parts of the files that are checked, and all parts.

    Raises:
        StoreError: A server refuses.
    """
    states = ask_all(servers, Server.status)
    answering = [server for server, state in zip(servers, states, strict=True) if not isinstance(state, StoreError)]
    counts = [state.inodes for state in states if not isinstance(state, StoreError)]
    parts = max(1, math.ceil(max(counts, default=0) / _PART_FILES))
    findings: list[Finding] = []
    files = objects = 0
    lost: set[int] = {server.number for server in servers} - {server.number for server in answering}
    for part in range(parts):
        told("objects", part, parts)
        look, silent = _look(answering, part, parts)
        lost |= silent
        files += sum(len(inventory.files) for inventory in look.values())
        objects += sum(len(inventory.objects) for inventory in look.values())
        suspects = compare(look)
        for _ in range(_LOOKS - 1):
            if not suspects:
                break
            pause(PAUSE_SECONDS)
            before = look
            look, silent = _look(answering, part, parts)
            lost |= silent
            keys = {suspect.key for suspect in suspects}
            suspects = [suspect for suspect in compare(look, before) if suspect.key in keys]
        findings += suspects
    told("objects", parts, parts)
    named = _with_paths(findings, {server.number: server for server in answering})
    return Checked(tuple(named), files, objects, tuple(sorted(lost)))


def paths_of(places: Iterable[Place], find: Callable[[int, int], Place | None]) -> dict[int, str]:
    """Join the places of files to paths from the root.

    Args:
        places: Places of files, each on the server of the file.
        find: Finds the place of a directory on a server, where one has the directory's entry.

    Returns:
        Paths in the store, by inode; a path whose beginning nobody knows begins with the number of a directory.
    """
    paths: dict[int, str] = {}
    known: dict[int, Place | None] = {}
    for place in places:
        path, at = place.path, place
        for _ in range(_DEPTH_MAX):
            if at.above == ROOT:
                path = f"/{path}"
                break
            if at.above not in known:
                known[at.above] = find(at.server, at.above)
            above = known[at.above]
            if above is None:
                path = f"inode {at.above}/{path}"
                break
            path, at = f"{above.path}/{path}", above
        paths[place.ino] = path
    return paths


def _needless(entry: FileEntry | None, target: str) -> str | None:
    """The kind of an object that is not to be there."""
    if entry is None:
        return ORPHAN
    is_named = target in entry.former or any(wanted.target == target for wanted in entry.objects)
    return None if is_named or entry.is_changing else MISPLACED


def _wanted(entry: FileEntry, then: FileEntry) -> dict[str, int]:
    """The bytes that each object must have, by this look and by the one before."""
    earlier = {wanted.target: wanted.bytes_min for wanted in then.objects}
    both = {wanted.target: (wanted.bytes_min, earlier.get(wanted.target)) for wanted in entry.objects}
    return {target: min(now, was) for target, (now, was) in both.items() if now is not None and was is not None}


def _look(servers: list[Server], part: int, parts: int) -> tuple[dict[int, Inventory], set[int]]:
    answers = ask_all(servers, lambda server: server.inventory(part, parts))
    looks = {
        server.number: answer
        for server, answer in zip(servers, answers, strict=True)
        if not isinstance(answer, StoreError)
    }
    return looks, {server.number for server in servers} - looks.keys()


def _with_paths(findings: list[Finding], servers: Mapping[int, Server]) -> list[Finding]:
    """Give findings the paths of their files, as far as servers answer."""

    def ask(number: int, inos: list[int]) -> tuple[Place, ...]:
        try:
            return servers[number].places(inos) if number in servers else ()
        except StoreError:
            return ()

    inos = sorted({finding.ino for finding in findings if finding.kind != ORPHAN})[:_NAMED_MAX]
    places: list[Place] = []
    for number in servers:
        own = [ino for ino in inos if ino >> _HOME_SHIFT == number]
        for first in range(0, len(own), _NAMED_AT_ONCE):
            places += ask(number, own[first : first + _NAMED_AT_ONCE])
    return with_paths(findings, paths_of(places, lambda number, ino: next(iter(ask(number, [ino])), None)))


def with_paths(findings: Iterable[Finding], paths: Mapping[int, str]) -> list[Finding]:
    """Give findings the paths of their files.

    Args:
        paths: Paths by inode.
    """
    return [
        Finding(each.kind, each.target, each.ino, each.bytes, each.bytes_min, paths.get(each.ino)) for each in findings
    ]
