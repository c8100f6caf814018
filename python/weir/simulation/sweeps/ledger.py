"""The folder of a sweep: its header, and one line for each finished point.

A line is added and made durable at once. A line that a crash cut short has no end and is left out, so a sweep that
goes on finds whole points alone. The format is plain JSON, because folders of sweeps lie on file systems of clusters,
where a database's locks may not hold.
"""

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from weir.simulation.sweeps.errors import SweepError
from weir.ways import make_work_folder, write_whole

FORMAT_VERSION = 1
"""Version of the folder's files."""
HEADER = "sweep.json"
_POINTS = "points.ndjson"
_LOCK = "lock"
_LINE_BYTES_MAX = 64 << 20
"""Longest line that is read: a point's figures take kilobytes, and a longer line is no point."""


@dataclass(frozen=True)
class Header:
    """The plan that a folder was begun for."""

    file: str
    """Path of the sweep file, for messages."""
    digest: str
    """Digest of everything that decides the numbers: the plan, the files that it names, and the engine."""
    parts: dict[str, str]
    """Digest of each of these parts by its name, so that a refusal can name the one that changed."""
    axes: dict[str, list[Any]]
    """The values of each key that varies."""


@dataclass(frozen=True)
class Record:
    """A finished point."""

    key: str
    """Digest of the point: of its settings and of the inputs that they are applied to."""
    settings: dict[str, Any]
    """Value of each key that varies."""
    figures: dict[str, Any] | None
    """Figures of the run; None where the simulator refused the point."""
    refusal: str | None = None
    """Reason why the simulator refused the point."""


class Ledger:
    """The finished points of a sweep. It is held by one process at a time."""

    def __init__(self, folder: Path, header: Header, records: dict[str, Record], size: int) -> None:
        """Take a folder that `opened` has prepared.

        Args:
            records: Its points by their keys.
            size: Bytes of the file of points up to the end of the last whole line.
        """
        self.folder = folder
        self.header = header
        self.records = records
        self._size = size

    def add(self, record: Record) -> None:
        """Write a finished point; it is on the disk when the call returns.

        Raises:
            OSError: The line cannot be written.
        """
        line = json.dumps(_document(record), allow_nan=False).encode() + b"\n"
        with (self.folder / _POINTS).open("r+b") as file:
            # Bytes behind the last whole line are those of a line that was cut short.
            file.truncate(self._size)
            file.seek(self._size)
            file.write(line)
            file.flush()
            os.fsync(file.fileno())
        self._size += len(line)
        self.records[record.key] = record


@contextmanager
def opened(folder: Path, header: Header, *, is_changed_allowed: bool = False) -> Iterator[Ledger]:
    """Open the folder of a sweep, and make it where there is none.

    Args:
        header: The plan of this run.
        is_changed_allowed: Whether a folder of another plan is taken over. Its points stay, and those with a key of the
            new plan count.

    Yields:
        The ledger.

    Raises:
        SweepError: The folder is another plan's, another process uses it, or it is no folder of a sweep.
        OSError: The folder cannot be made or read.
    """
    make_work_folder(folder)
    _refuse_strangers(folder)
    with (folder / _LOCK).open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise SweepError(
                f"{folder} is in use: another sweep writes to it", hint="wait for it, or choose another `folder`"
            ) from error
        if (folder / HEADER).exists():
            _check_same(folder, read_header(folder), header, is_changed_allowed)
        write_whole(folder / HEADER, json.dumps(_header_document(header), indent=1) + "\n", mode=0o644)
        (folder / _POINTS).touch()
        records, size = _read_points(folder)
        yield Ledger(folder, header, records, size)


def is_sweep(folder: Path) -> bool:
    """Decide whether a folder is a sweep's.

    Args:
        folder: The folder, which need not be there.

    Returns:
        Whether it has the header of a sweep.
    """
    return (folder / HEADER).is_file()


def read_header(folder: Path) -> Header:
    """Read the header of a sweep's folder.

    Raises:
        SweepError: There is no header, or it is of another format.
    """
    path = folder / HEADER
    try:
        document = json.loads(path.read_text())
        if document["version"] != FORMAT_VERSION:
            raise SweepError(
                f"{path} has version {document['version']}, and this Weir reads {FORMAT_VERSION}",
                hint="use the Weir that wrote it, or choose another `folder`",
            )
        return Header(
            file=str(document["file"]),
            digest=str(document["digest"]),
            parts={str(name): str(digest) for name, digest in document["parts"].items()},
            axes={str(name): list(values) for name, values in document["axes"].items()},
        )
    except FileNotFoundError as error:
        raise SweepError(f"{folder} is no folder of a sweep: it has no {HEADER}") from error
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise SweepError(f"{path} is no header of a sweep: {error}", hint="choose another `folder`") from error


def read_records(folder: Path) -> dict[str, Record]:
    """Read the finished points of a sweep's folder.

    Returns:
        The points by their keys; of two lines with one key the later counts.

    Raises:
        SweepError: A whole line is no point.
        OSError: The file cannot be read.
    """
    return _read_points(folder)[0]


def _refuse_strangers(folder: Path) -> None:
    """Refuse a folder that holds other things, which a mistyped --out could name."""
    if not (folder / HEADER).exists() and any(entry.name != _LOCK for entry in folder.iterdir()):
        raise SweepError(
            f"{folder} holds other files and no {HEADER}", hint="choose a `folder` that is new, or one of a sweep"
        )


def _check_same(folder: Path, there: Header, wanted: Header, is_changed_allowed: bool) -> None:
    if there.digest == wanted.digest or is_changed_allowed:
        return
    names = sorted(there.parts.keys() | wanted.parts.keys())
    changed = [name for name in names if there.parts.get(name) != wanted.parts.get(name)]
    raise SweepError(
        f"{folder} holds results of another sweep than {wanted.file}: {', '.join(changed) or 'the plan'} changed since",
        hint="choose another `folder`, or keep the points that are still right by `is_changed_allowed`",
    )


def _read_points(folder: Path) -> tuple[dict[str, Record], int]:
    """The points, and the bytes up to the end of the last whole line."""
    path = folder / _POINTS
    records: dict[str, Record] = {}
    size = 0
    with path.open("rb") as file:
        for number in range(1, 1 << 62):
            line = file.readline(_LINE_BYTES_MAX)
            if not line.endswith(b"\n"):
                if len(line) == _LINE_BYTES_MAX:
                    raise SweepError(f"{path}:{number}: the line is longer than {_LINE_BYTES_MAX} bytes")
                return records, size
            record = _record(line, f"{path}:{number}")
            records[record.key] = record
            size += len(line)
    return records, size


def _record(line: bytes, place: str) -> Record:
    try:
        document = json.loads(line)
        settings, figures, refusal = document["settings"], document["figures"], document["refusal"]
        if not isinstance(settings, dict) or (figures is None) == (refusal is None):
            raise ValueError("settings, and either figures or a refusal are expected")
        if not isinstance(figures, dict | None):
            raise ValueError("figures are no table")
        return Record(str(document["key"]), settings, figures, None if refusal is None else str(refusal))
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise SweepError(f"{place} is no point of a sweep: {error}", hint="remove the line to run it again") from error


def _document(record: Record) -> dict[str, Any]:
    return {
        "key": record.key,
        "settings": record.settings,
        "figures": record.figures,
        "refusal": record.refusal,
    }


def _header_document(header: Header) -> dict[str, Any]:
    return {
        "version": FORMAT_VERSION,
        "file": header.file,
        "digest": header.digest,
        "parts": header.parts,
        "axes": header.axes,
    }
