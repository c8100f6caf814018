"""The journals of readers of adaptive streams: a line of JSON for each step that a program was handed.

Each process has a file of bounded size and its predecessor. Readers write them in a folder of the home, which the
control room reads.
"""

import json
import math
import os
import stat
import threading
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path

from weir.store.decoding import DecodingError, decode
from weir.store.home import Home
from weir.store.settings import ADAPTIVE_JOURNAL
from weir.ways import make_work_folder

BYTES_MAX = 256 << 10
"""Length at which a file becomes the predecessor: some 500 steps."""
FILES_MAX = 64
"""Most files of a folder; the oldest go."""
ENTRIES_MAX = 20_000
"""Most entries that are read, the newest."""
NAME_MAX = 256
"""Most characters of a stream's or a tier's name; of a longer one the end is kept."""
_TEXT_MAX = 512
"""Most characters of a text that is believed."""
_TIERS_MAX = 64
_COUNT_MAX = 1 << 63
_LISTED_MAX = 4096
"""Most names of a folder that are looked at."""
_ENDING, _OLDER_ENDING = ".steps", ".steps.1"
OFF = "off"
"""Value of the variable with which nothing is noted."""
_turn = threading.Lock()
"""Held by the thread of this process that writes."""


@dataclass(frozen=True, slots=True)
class TierEntry:
    """The reads of a step from one tier; bandwidths are in bytes per second, and null where nothing is known."""

    name: str
    """URL of the tier, without a password."""
    forecast: float | None
    low: float | None
    """Lower end of the forecast's interval, which holds four of five bandwidths."""
    high: float | None
    bandwidth: float | None
    """Achieved bandwidth."""


@dataclass(frozen=True, slots=True)
class StepEntry:
    """A step of a stream as it was handed to a program."""

    at: float
    """Unix time in seconds."""
    job: str
    """Name of the job; empty outside of a job."""
    user: str
    host: str
    pid: int
    stream: str
    """URL of the first tier, without a password."""
    step: int
    rmse: float | None
    max_error: float | None
    """Bound of the largest error, in units of the data; null where there is none."""
    read_bytes: int
    whole_bytes: int
    """Bytes of the whole step, of which a reader of a region needs a part alone."""
    augmentation: float
    """Part of the useful bytes behind the base that was read, 0 to 1."""
    seconds: float
    waited_seconds: float
    deadline_seconds: float | None
    is_late: bool
    tiers: tuple[TierEntry, ...]


def variables(home: Home, present: Mapping[str, str]) -> dict[str, str]:
    """Choose the folder in which programs of the home's owner note their steps.

    Args:
        present: Variables by their names; one that names a folder, or `off`, stays.

    Returns:
        `WEIR_ADAPTIVE_JOURNAL` alone.
    """
    name = ADAPTIVE_JOURNAL.environment
    return {name: present.get(name) or str(home.step_journals)}


def add(folder: Path, entry: StepEntry) -> None:
    """Note a step in this process's file.

    Args:
        folder: The folder, which is made where it is missing; the folder above it is not.

    Raises:
        WayError: Another user could make the path lead elsewhere.
        OSError: The file cannot be written.
    """
    line = json.dumps(asdict(entry)).encode() + b"\n"
    path = folder / f"{entry.host.replace('/', '_')}-{entry.pid}{_ENDING}"
    with _turn:
        if not folder.is_dir():
            # A home that is not there is no home of this host.
            folder.parent.stat()
        make_work_folder(folder, 0o700)
        with os.fdopen(os.open(path, _APPENDING, 0o600), "ab", buffering=0) as file:
            begun = file.tell()
            file.write(line)
        if begun == 0:
            _remove_oldest(folder)
        elif begun + len(line) >= BYTES_MAX:
            path.replace(path.with_suffix(_OLDER_ENDING))


def read(folder: Path, since: float, until: float) -> list[StepEntry]:
    """Read what this user's programs noted.

    Args:
        folder: The folder, which need not be there.
        since: Begin of the time, in Unix seconds.
        until: Its end.

    Returns:
        The entries of the time in order, at most `ENTRIES_MAX`. A line that is no entry is passed over.
    """
    found: list[StepEntry] = []
    for path, changed in _files(folder)[-FILES_MAX:]:
        if changed >= since:
            found += _entries(path, since, until)
    return sorted(found, key=lambda entry: entry.at)[-ENTRIES_MAX:]


_APPENDING = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_READING = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def _files(folder: Path) -> list[tuple[Path, float]]:
    """The journals in a folder, each with the time of its last change, in the order of these."""
    found: list[tuple[Path, float]] = []
    # A folder that is not there has no journals; a file that goes meanwhile makes room for others.
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in islice(entries, _LISTED_MAX):
            if entry.name.endswith((_ENDING, _OLDER_ENDING)):
                with suppress(OSError):
                    found.append((Path(entry.path), entry.stat(follow_symlinks=False).st_mtime))
    return sorted(found, key=lambda each: each[1])


def _remove_oldest(folder: Path) -> None:
    for path, _ in _files(folder)[:-FILES_MAX]:
        path.unlink(missing_ok=True)


def _entries(path: Path, since: float, until: float) -> Iterator[StepEntry]:
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
            if isinstance(document, dict) and since <= document["at"] < until:
                entry = decode(StepEntry, document)
                if _is_sound(entry):
                    yield entry
        except (DecodingError, ValueError, KeyError, TypeError, OverflowError, RecursionError):
            continue


def _is_sound(entry: StepEntry) -> bool:
    """Whether all numbers and texts are within their bounds."""
    texts = (entry.job, entry.user, entry.host, entry.stream, *(tier.name for tier in entry.tiers))
    numbers = [
        *(entry.rmse, entry.max_error, entry.augmentation, entry.seconds, entry.waited_seconds, entry.deadline_seconds),
        *(number for tier in entry.tiers for number in (tier.forecast, tier.low, tier.high, tier.bandwidth)),
    ]
    counts = (entry.pid, entry.step, entry.read_bytes, entry.whole_bytes)
    return (
        len(entry.tiers) <= _TIERS_MAX
        and all(len(text) <= _TEXT_MAX for text in texts)
        and all(number is None or (math.isfinite(number) and number >= 0.0) for number in numbers)
        and all(0 <= count < _COUNT_MAX for count in counts)
    )
