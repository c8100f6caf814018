"""The checks of histories: each returns what no store without a fault could have answered, in words."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from history.operations import NEVER, Operation


@dataclass
class _Zone:
    """The operations on one value of a register: its write, and the reads that saw it."""

    value: str
    written: float
    """Begin of the write."""
    last_begin: float
    first_end: float


def registers(operations: Sequence[Operation], initial: str) -> list[str]:
    """Check that each file read and written as a whole is an atomic register, whose values are written once each.

    A history of unique values is atomic exactly if no read ends before its value's write begins, no two forward zones
    overlap, and no backward zone lies within a forward one (Gibbons and Korach, "Testing shared memories", SIAM J.
    Comput. 26, 1997, theorem 4.1).

    Args:
        operations: A history.
        initial: Value of every register before its first write.

    Returns:
        The violations.
    """
    return [
        f"{file}: {problem}"
        for file, own in _by_file(operations, ("write", "replace", "read")).items()
        for problem in _register(own, initial)
    ]


def _register(operations: Sequence[Operation], initial: str) -> list[str]:
    before = min(operation.begin for operation in operations) - 1.0
    zones = {initial: _Zone(initial, before - 1.0, before - 1.0, before)}
    for write in operations:
        if write.kind != "read":
            zones[write.value] = _Zone(write.value, write.begin, write.begin, write.end)
    problems = []
    for read in operations:
        if read.kind != "read" or read.error:
            continue
        zone = zones.get(read.value)
        if zone is None:
            problems.append(f"{read.client} read {read.value!r} at {read.begin:.3f}, which nobody wrote")
            continue
        if read.end < zone.written:
            problems.append(f"{read.client} read {read.value!r} before it was written")
        zone.last_begin = max(zone.last_begin, read.begin)
        zone.first_end = min(zone.first_end, read.end)
    # A write without an end that nobody saw may never have taken effect.
    seen = [zone for zone in zones.values() if zone.first_end != NEVER]
    forward = sorted((zone for zone in seen if zone.first_end < zone.last_begin), key=lambda zone: zone.first_end)
    for former, latter in pairwise(forward):
        if latter.first_end < former.last_begin:
            problems.append(
                f"{former.value!r} was there until {former.last_begin:.3f}, and {latter.value!r} from "
                f"{latter.first_end:.3f} to {latter.last_begin:.3f}"
            )
    for zone in seen:
        if zone.first_end < zone.last_begin:
            continue
        for around in forward:
            if around.first_end < zone.last_begin and zone.first_end < around.last_begin:
                problems.append(
                    f"{zone.value!r} took effect between {zone.last_begin:.3f} and {zone.first_end:.3f}, while "
                    f"{around.value!r} was there"
                )
    return problems


def appends(operations: Sequence[Operation], contents: dict[str, str]) -> list[str]:
    """Check that each append that succeeded is there once, that any other is there at most once, and that no client's
    appends changed their order.

    Args:
        operations: A history.
        contents: Content of each appended file at the end, by its name.

    Returns:
        The violations.
    """
    problems = []
    for file, own in _by_file(operations, ("append",)).items():
        lines = contents.get(file, "").splitlines()
        places = {line: place for place, line in enumerate(lines)}
        counted = Counter(lines)
        known = {operation.value for operation in own}
        problems += [f"{file}: the line {line!r} was never appended" for line in counted if line not in known]
        last: dict[str, int] = {}
        for operation in own:
            count = counted[operation.value]
            if count > 1:
                problems.append(f"{file}: {operation.value!r} is there {count} times")
            if operation.error:
                continue
            if count == 0:
                problems.append(f"{file}: {operation.value!r} is lost")
                continue
            place = places[operation.value]
            if place < last.get(operation.client, -1):
                problems.append(f"{file}: {operation.value!r} stands before an earlier append of {operation.client}")
            last[operation.client] = place
    return problems


def increments(operations: Sequence[Operation], finals: dict[str, int]) -> list[str]:
    """Check that increments of a counter under a lock exclude each other.

    Args:
        operations: A history; the value of an increment is the number that it wrote.
        finals: Value of each counter at the end, by its name.

    Returns:
        The violations.
    """
    problems = []
    for file, own in _by_file(operations, ("increment",)).items():
        done = [operation for operation in own if not operation.error]
        doubled = [value for value, count in Counter(operation.value for operation in done).items() if count > 1]
        problems += [f"{file}: {value} was written by two increments" for value in doubled]
        final = finals.get(file, 0)
        if not len(done) <= final <= len(own):
            problems.append(f"{file}: {final} after {len(done)} increments, and {len(own) - len(done)} that failed")
    return problems


def bounded(operations: Iterable[Operation], seconds: float) -> list[str]:
    """Check that every operation was answered within a bound.

    Args:
        operations: A history.
        seconds: The bound.

    Returns:
        The violations.
    """
    return [
        f"{operation.client}: {operation.kind} of {operation.file} took {operation.ended - operation.begin:.1f} s"
        for operation in operations
        if operation.ended - operation.begin > seconds
    ]


def _by_file(operations: Iterable[Operation], kinds: tuple[str, ...]) -> dict[str, list[Operation]]:
    """The operations of some kinds, by their files."""
    found: dict[str, list[Operation]] = {}
    for operation in operations:
        if operation.kind in kinds:
            found.setdefault(operation.file, []).append(operation)
    return found
