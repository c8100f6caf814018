"""Journals of programs, which the control room reads: a line of JSON an entry, in files of bounded size with one
predecessor each. Whatever a line says is taken as foreign input.
"""

import json
import math
import os
import stat
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from weir.store.decoding import DecodingError, decode
from weir.ways import make_work_folder

BYTES_MAX = 256 << 10
"""Length at which a file becomes the predecessor: some 500 to 1,000 entries."""
FILES_MAX = 64
"""Most files of a journal in a folder; the oldest go."""
ENTRIES_MAX = 20_000
"""Most entries that are read, the newest."""
_TEXT_MAX = 512
"""Most characters of a text that is believed."""
_ITEMS_MAX = 64
"""Most items of a list that is believed."""
_COUNT_MAX = 1 << 63
_LISTED_MAX = 4096
"""Most names of a folder that are looked at."""
_OLDER = ".1"
"""Ending of a predecessor, behind that of the journal."""
_APPENDING = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_READING = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_turn = threading.Lock()
"""Held by the thread of this process that writes."""


class Noted(Protocol):
    """An entry of a journal: a dataclass with at least these fields."""

    @property
    def at(self) -> float:
        """Unix time in seconds."""

    @property
    def host(self) -> str:
        """Name of the host."""

    @property
    def pid(self) -> int:
        """Number of the process there."""


Entry = TypeVar("Entry", bound=Noted)


@dataclass(frozen=True)
class LineJournal(Generic[Entry]):
    """A journal in a folder of its user.

    Attributes:
        kind: Dataclass of an entry, whose numbers are not negative.
        ending: Ending of its files.
        is_of_process: Whether each process has a file; otherwise all of a host share one.
    """

    kind: type[Entry]
    ending: str
    is_of_process: bool = False

    def add(self, folder: Path, entry: Entry) -> None:
        """Note an entry.

        Args:
            folder: The folder, which is made where it is missing; the folder above it is not.

        Raises:
            WayError: Another user could make the path lead elsewhere.
            OSError: The file cannot be written.
        """
        line = json.dumps(asdict(entry)).encode() + b"\n"  # type: ignore[call-overload]
        host = entry.host.replace("/", "_")
        path = folder / f"{f'{host}-{entry.pid}' if self.is_of_process else host}{self.ending}"
        with _turn:
            if not folder.is_dir():
                # A home that is not there is no home of this host.
                folder.parent.stat()
            make_work_folder(folder, 0o700)
            with os.fdopen(os.open(path, _APPENDING, 0o600), "ab", buffering=0) as file:
                begun = file.tell()
                file.write(line)
                # Another process may have made it the predecessor meanwhile.
                is_current = _is_at(path, file.fileno())
            if begun == 0:
                self._remove_oldest(folder)
            elif begun + len(line) >= BYTES_MAX and is_current:
                path.replace(path.with_name(f"{path.name}{_OLDER}"))

    def read(self, folder: Path, since: float, until: float) -> list[Entry]:
        """Read what this user's programs noted.

        Args:
            folder: The folder, which need not be there.
            since: Begin of the time, in Unix seconds.
            until: Its end.

        Returns:
            The entries of the time in order, at most `ENTRIES_MAX`. A line that is no entry is passed over.
        """
        found: list[Entry] = []
        for path, changed in self._files(folder)[-FILES_MAX:]:
            if changed >= since:
                found += self._entries(path, since, until)
        return sorted(found, key=lambda entry: entry.at)[-ENTRIES_MAX:]

    def _files(self, folder: Path) -> list[tuple[Path, float]]:
        """The files of a folder, each with the time of its last change, in the order of these."""
        found: list[tuple[Path, float]] = []
        endings = (self.ending, f"{self.ending}{_OLDER}")
        # A folder that is not there has no journals; a file that goes meanwhile makes room for others.
        with suppress(OSError), os.scandir(folder) as entries:
            for entry in islice(entries, _LISTED_MAX):
                if entry.name.endswith(endings):
                    with suppress(OSError):
                        found.append((Path(entry.path), entry.stat(follow_symlinks=False).st_mtime))
        return sorted(found, key=lambda each: each[1])

    def _remove_oldest(self, folder: Path) -> None:
        for path, _ in self._files(folder)[:-FILES_MAX]:
            path.unlink(missing_ok=True)

    def _entries(self, path: Path, since: float, until: float) -> Iterator[Entry]:
        """The sound entries of a file that no other user could have put there."""
        try:
            with os.fdopen(os.open(path, _READING), "rb") as file:
                status = os.fstat(file.fileno())
                if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid():
                    return
                lines = file.read(2 * BYTES_MAX).split(b"\n")
        except OSError:
            return
        for line in lines:
            try:
                document = json.loads(line)
                if isinstance(document, dict) and since <= document["at"] < until and _is_sound(document):
                    yield decode(self.kind, document)
            except (DecodingError, ValueError, KeyError, TypeError, OverflowError, RecursionError):
                continue


def _is_at(path: Path, descriptor: int) -> bool:
    """Whether an open file is the one that lies at a path."""
    with suppress(OSError):
        return os.path.samestat(path.stat(follow_symlinks=False), os.fstat(descriptor))
    return False


def _is_sound(value: object) -> bool:
    """Whether all numbers, texts and lists of a document are within their bounds."""
    match value:
        case str():
            return len(value) <= _TEXT_MAX
        case int():
            return 0 <= value < _COUNT_MAX
        case float():
            return math.isfinite(value) and value >= 0.0
        case list():
            return len(value) <= _ITEMS_MAX and all(map(_is_sound, value))
        case dict():
            return len(value) <= _ITEMS_MAX and all(map(_is_sound, value.values()))
        case _:
            return value is None
