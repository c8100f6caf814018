"""One operation of a history, and the files in which clients write theirs."""

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

NEVER = float("inf")
"""Moment of what does not happen."""


@dataclass(frozen=True)
class Operation:
    """One operation of one client.

    Attributes:
        client: Name of the client.
        kind: `write`, `read`, `replace` (write a file of another name, and rename it), `append`, `glance` (read an
            appended file), `increment` and `hold` (write under a lock), `claim` (rename a file to one of the client),
            `make` (make a name that must not be there), or `insert` (a transaction of a database).
        file: Name of the file.
        value: Text that was written, or read.
        begin: Begin, in seconds of the monotonic clock that all hosts of the test share.
        ended: Moment of the answer; `NEVER` where none came.
        error: Number of the error; 0 where it succeeded.
    """

    client: str
    kind: str
    file: str
    value: str
    begin: float
    ended: float
    error: int

    @property
    def end(self) -> float:
        """Latest moment at which it took effect; `NEVER` where it failed, because it may still take effect."""
        return NEVER if self.error else self.ended


def read(files: Iterable[Path]) -> list[Operation]:
    """Read the histories of clients. Each operation has a line at its begin and one at its end.

    Args:
        files: Files of the clients; the last line of one that was killed may be cut.

    Returns:
        The operations, in the order of their begins.
    """
    operations = []
    for file in files:
        begun: dict[int, dict[str, object]] = {}
        for line in file.read_text().splitlines():
            try:
                told = json.loads(line)
            except ValueError:
                continue
            if "end" not in told:
                begun[told["number"]] = told
                continue
            operations.append(_made(file.stem, begun.pop(told["number"]), told))
        operations += [_made(file.stem, told, {}) for told in begun.values()]
    return sorted(operations, key=lambda operation: operation.begin)


def halves(operations: Iterable[Operation]) -> list[Operation]:
    """Take operations on both sides of a stripe's end apart.

    Args:
        operations: Operations that wrote one value to both sides, or read `LEFT|RIGHT`.

    Returns:
        Two operations for each, on files of their own: each side is atomic, and both together are not.
    """
    found = []
    for operation in operations:
        left, _, right = operation.value.partition("|")
        for side, value in (("left", left), ("right", right if operation.kind == "read" else left)):
            found.append(replace(operation, file=f"{operation.file} {side}", value=value))
    return found


def _made(client: str, begun: dict[str, object], ended: dict[str, object]) -> Operation:
    error = int(str(ended.get("error", -1)))
    return Operation(
        client,
        str(begun["kind"]),
        str(begun["file"]),
        str(ended.get("value", begun.get("value", ""))),
        float(str(begun["begin"])),
        float(str(ended.get("end", NEVER))),
        error,
    )
