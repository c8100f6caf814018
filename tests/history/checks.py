"""The checks of histories: each returns what no store without a fault could have answered, in words."""

import errno
import zlib
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
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


def glances(operations: Sequence[Operation], contents: Mapping[str, str]) -> list[str]:
    """Check that each read of a whole appended file saw the file's beginning, with every append that succeeded before.

    Args:
        operations: A history; the value of a glance is the number of bytes and their CRC-32.
        contents: Content of each appended file at the end, by its name.

    Returns:
        The violations.
    """
    problems = []
    for file, own in _by_file(operations, ("append", "glance")).items():
        content = contents.get(file, "").encode()
        ends = _line_ends(content)
        appended = [(one.ended, ends[one.value]) for one in own if one.kind == "append" and one.value in ends]
        seen = [_glance(one) for one in own if one.kind == "glance" and not one.error]
        told = sorted(appended + [(one.ended, length) for one, length, _ in seen])
        for glance, length, checksum in seen:
            saw = f"{file}: {glance.client} read {length} bytes at {glance.begin:.3f}"
            if length > len(content) or zlib.crc32(content[:length]) != checksum:
                problems.append(f"{saw} that are not its first")
            due = max((end for moment, end in told if moment < glance.begin), default=0)
            if length < due:
                problems.append(f"{saw}, of {due} there before")
    return problems


def _glance(glance: Operation) -> tuple[Operation, int, int]:
    """The operation, with the length and the checksum that it tells."""
    length, checksum = glance.value.split()
    return glance, int(length), int(checksum)


def _line_ends(content: bytes) -> dict[str, int]:
    """The end of each line, by the line's text."""
    ends, end = {}, 0
    for line in content.splitlines(keepends=True):
        end += len(line)
        ends[line.decode().strip()] = end
    return ends


def holds(operations: Iterable[Operation]) -> list[str]:
    """Check that nobody wrote to a file while another held its lock.

    Args:
        operations: A history; the value of a hold is `WRITTEN|READ`: a value that its client wrote under the lock, and
            the value that the client read before it gave the lock back.

    Returns:
        The violations.
    """
    problems = []
    for hold in operations:
        written, _, found = hold.value.partition("|")
        if hold.kind == "hold" and not hold.error and written != found:
            problems.append(f"{hold.file}: {hold.client} wrote {written!r} under the lock, and read {found!r}")
    return problems


def claims(operations: Sequence[Operation], names: Collection[str]) -> list[str]:
    """Check that of several renames of one file exactly one took effect, and that its client was told so.

    Args:
        operations: A history; a claim renames `file` to `value`, a name of its client's own.
        names: Names of files that are there at the end.

    Returns:
        The violations.
    """
    problems = []
    for file, own in _by_file(operations, ("claim",)).items():
        places = [name for name in names if name == file or name.startswith(f"{file}.")]
        if len(places) != 1:
            problems.append(f"{file} is there as {', '.join(places) or 'nothing'}")
            continue
        told = {one.value for one in own if not one.error}
        # A client that was told ENOENT alone has not renamed the file.
        possible = {one.value for one in own if one.error != errno.ENOENT}
        if len(told) > 1:
            problems.append(f"{file} was renamed by {len(told)} clients")
        elif told and places[0] not in told:
            problems.append(f"{file} was renamed to {told.pop()}, and is {places[0]}")
        elif not told and places[0] != file and places[0] not in possible:
            problems.append(f"{places[0]} is there, whose client was told that {file} is not")
    return problems


def makes(operations: Sequence[Operation], names: Collection[str]) -> list[str]:
    """Check that of several clients that made a new name exactly one did, and was told so.

    Args:
        operations: A history.
        names: Names that are there at the end.

    Returns:
        The violations.
    """
    problems = []
    for file, own in _by_file(operations, ("make",)).items():
        done = sum(not one.error for one in own)
        if done > 1:
            problems.append(f"{file} was made {done} times")
        if done and file not in names:
            problems.append(f"{file} was made, and is lost")
        if file in names and all(one.error == errno.EEXIST for one in own):
            problems.append(f"{file} is there, and everybody was told that it was there before")
    return problems


def inserts(
    operations: Iterable[Operation], rows: Sequence[str], integrity: Sequence[str], malformed: int
) -> list[str]:
    """Check that a database is whole, that each transaction that succeeded is in it once, and any other once at most.

    Args:
        operations: A history.
        rows: Rows at the end.
        integrity: Answer of SQLite's integrity check.
        malformed: Error of an operation that found the database damaged.

    Returns:
        The violations.
    """
    own = [one for one in operations if one.kind == "insert"]
    counted = Counter(rows)
    problems = [] if list(integrity) == ["ok"] else [f"the database is damaged: {'; '.join(integrity[:3])}"]
    problems += [f"{one.client} found the database damaged at {one.begin:.3f}" for one in own if one.error == malformed]
    problems += [f"the row {row!r} is there {count} times" for row, count in counted.items() if count > 1]
    problems += [f"the row {one.value!r} is lost" for one in own if not one.error and one.value not in counted]
    known = {one.value for one in own}
    problems += [f"the row {row!r} was never inserted" for row in counted if row not in known]
    return problems


def bounded(operations: Iterable[Operation], seconds: float, killed: Collection[str] = ()) -> list[str]:
    """Check that every operation was answered within a bound.

    Args:
        operations: A history.
        seconds: The bound.
        killed: Clients that were killed; the last operation of each has no answer.

    Returns:
        The violations.
    """
    return [
        f"{operation.client}: {operation.kind} of {operation.file} took {operation.ended - operation.begin:.1f} s"
        for operation in operations
        if operation.ended - operation.begin > seconds and not (operation.ended == NEVER and operation.client in killed)
    ]


def _by_file(operations: Iterable[Operation], kinds: tuple[str, ...]) -> dict[str, list[Operation]]:
    """The operations of some kinds, by their files."""
    found: dict[str, list[Operation]] = {}
    for operation in operations:
        if operation.kind in kinds:
            found.setdefault(operation.file, []).append(operation)
    return found
