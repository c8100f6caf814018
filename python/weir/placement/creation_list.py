"""The list of creations that a user gives in place of a prediction: JSON or CSV."""

import csv
import json
from collections.abc import Iterable, Mapping
from pathlib import Path

from weir.errors import WeirError
from weir.tracing.records import Creation

_FIELDS = ("path", "size_bytes", "rank", "layout")


class CreationsError(WeirError):
    """A list of creations that cannot be used."""

    def __init__(self, message: str) -> None:
        """Report a wrong list.

        Args:
            message: The fault, with the file and the entry.
        """
        super().__init__(message, hint='give JSON, a list of {"path": …, "size_bytes": …}, or CSV with that header')


def read_creations(file: Path) -> list[Creation]:
    """Read a list of creations, as CSV (with a header) if the file's name ends in `.csv`, else as JSON (a list of
    objects).

    Each entry has a `path`, which is absolute, and `size_bytes`; it may have a `rank` (default 0) and a `layout`.

    Returns:
        The creations, in the order of the list.

    Raises:
        CreationsError: The file cannot be read, is no such list, or has a wrong entry.
    """
    try:
        if file.suffix.lower() == ".csv":
            with file.open(newline="") as lines:
                entries: Iterable[object] = list(csv.DictReader(lines))
        else:
            entries = json.loads(file.read_text())
    except (OSError, ValueError, csv.Error, RecursionError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise CreationsError(f"cannot read creations from {file}: {reason}") from error
    if not isinstance(entries, list):
        raise CreationsError(f"{file}: no list of creations")
    counts: dict[int, int] = {}
    creations = []
    for number, entry in enumerate(entries, start=1):
        creation = _creation(entry, f"{file}: creation {number}", counts)
        counts[creation.rank] = creation.order + 1
        creations.append(creation)
    return creations


def _creation(entry: object, where: str, counts: Mapping[int, int]) -> Creation:
    if not isinstance(entry, dict):
        raise CreationsError(f"{where} is no object")
    path, size, rank, layout = (entry.get(name) for name in _FIELDS)
    if not isinstance(path, str) or not path.startswith("/"):
        raise CreationsError(f"{where}: the path {path!r} is not absolute")
    try:
        size_bytes, rank_number = int(str(size)), int(str(rank)) if rank not in (None, "") else 0
    except (TypeError, ValueError, OverflowError) as error:
        raise CreationsError(f"{where}: {error}") from error
    if not 0 <= size_bytes < 1 << 63:
        raise CreationsError(f"{where}: a size of {size_bytes} bytes")
    order = counts.get(rank_number, 0)
    return Creation(path, rank_number, order, size_bytes, size_bytes, 1, str(layout) if layout else None)
