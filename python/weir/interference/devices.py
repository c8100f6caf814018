"""Counters of the storage of this host: block devices by `/proc/diskstats`, Lustre's targets and metadata services.

Formats are those of Linux's `Documentation/admin-guide/iostats.rst` and of `lprocfs_stats_seq_show`. Lustre counts no
merged requests, no queue and no busy time, so these are 0 for its targets.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from weir.interference.errors import InterferenceError
from weir.interference.windows import SERVER
from weir.lustre.counters import Counters, parse_counters
from weir.lustre.text import MalformedError, Place, lines

DISKSTATS = "proc/diskstats"
IN_PROGRESS = SERVER.index("in_progress")
"""The one counter that is a level and does not grow."""
_BYTES_MAX = 1 << 20
"""Longest file that is read: a line has about 100 bytes, and hosts have some hundreds of devices."""
_FIELDS_MIN = 14
_SECTOR_BYTES = 512
_BASES = ("proc/fs/lustre", "sys/fs/lustre", "sys/kernel/debug/lustre")
"""Places of Lustre's files in different versions, as in `weir.lustre.tree`."""
_TARGETS = ("obdfilter/*/stats", "mdt/*/md_stats")
_TARGET_NAME = re.compile(r"[\w.-]{1,128}-(OST|MDT)[0-9a-fA-F]{4,8}")
_LOOKS = ("open", "close", "getattr", "getxattr", "statfs", "sync")
_CHANGES = ("mknod", "mkdir", "link", "unlink", "rmdir", "rename", "setattr", "setxattr")
"""Requests to a metadata service that change nothing, and those that do."""

Values = tuple[float, ...]
"""Counters in the order of `weir.interference.windows.SERVER`."""


@dataclass(frozen=True, slots=True)
class Reading:
    """The counters of a device at one moment."""

    values: Values
    is_metadata: bool = False


@dataclass
class Storage:
    """The devices that are sampled.

    Attributes:
        root: Folder that holds /proc and /sys.
        devices: Names of block devices.
        is_lustre: Whether Lustre's targets and metadata services on this host are sampled, too.
        tell: Takes a line about each device or file that cannot be read, once.
    """

    root: Path
    devices: tuple[str, ...]
    is_lustre: bool
    tell: Callable[[str], None]
    _told: set[str] = field(default_factory=set)

    def check(self) -> None:
        """Refuse devices that are not there.

        Raises:
            InterferenceError: A named device is missing, there is no target of Lustre, or nothing was chosen.
        """
        there = self.read()
        missing = [name for name in self.devices if name not in there]
        if missing:
            known = sorted(parse_diskstats(self._diskstats(), str(self.root / DISKSTATS)))
            raise InterferenceError(f"no block device is called {missing[0]}", hint=f"there are: {', '.join(known)}")
        if self.is_lustre and len(there) == len(self.devices):
            raise InterferenceError(
                f"no target and no metadata service of Lustre is below {self.root}",
                hint="run it on an OSS or MDS, as root where the files are in debugfs",
            )
        if not there:
            raise InterferenceError("no device was chosen", hint="name one with `device`, or give `lustre`")

    def read(self) -> dict[str, Reading]:
        """Read the counters of all devices now.

        Returns:
            A reading for each device by its name; a device that is missing has none.

        Raises:
            InterferenceError: The kernel's table of devices cannot be read.
        """
        found: dict[str, Reading] = {}
        if self.devices:
            every = parse_diskstats(self._diskstats(), str(self.root / DISKSTATS))
            found = {name: Reading(every[name]) for name in self.devices if name in every}
        if self.is_lustre:
            for path in self._lustre_files():
                reading = self._lustre(path)
                if reading is not None:
                    found[path.parent.name] = reading
        return found

    def _diskstats(self) -> str:
        try:
            with (self.root / DISKSTATS).open("rb") as file:
                return file.read(_BYTES_MAX).decode(errors="replace")
        except OSError as error:
            raise InterferenceError(f"cannot read {self.root / DISKSTATS}: {error.strerror}") from error

    def _lustre_files(self) -> list[Path]:
        """The files of targets; the first place of a target counts."""
        found: dict[str, Path] = {}
        for base in _BASES:
            for pattern in _TARGETS:
                for path in sorted((self.root / base).glob(pattern)):
                    if _TARGET_NAME.fullmatch(path.parent.name):
                        found.setdefault(path.parent.name, path)
        return list(found.values())

    def _lustre(self, path: Path) -> Reading | None:
        is_metadata = path.name == "md_stats"
        try:
            with path.open("rb") as file:
                counters = parse_counters(file.read(_BYTES_MAX).decode(errors="replace"), str(path))
        except OSError as error:
            self._tell_once(f"cannot read {path}: {error.strerror}; its windows are missing")
        except MalformedError as error:
            self._tell_once(f"{error}; its windows are missing")
        else:
            return Reading(metadata_values(counters) if is_metadata else target_values(counters), is_metadata)
        return None

    def _tell_once(self, line: str) -> None:
        if line not in self._told:
            self._told.add(line)
            self.tell(line)


def parse_diskstats(text: str, source: str) -> dict[str, Values]:
    """Read the kernel's table of block devices.

    Args:
        text: Content of `/proc/diskstats`.
        source: Path of the file, for errors.

    Returns:
        Counters of each device by its name.

    Raises:
        InterferenceError: A line has fewer fields, or fields that are no numbers.
    """
    try:
        found: dict[str, Values] = {}
        for place in lines(text, source):
            words = place.text.split()
            if len(words) < _FIELDS_MIN:
                place.malformed("MAJOR MINOR NAME and eleven counters")
            found[words[2]] = _device_values(place, words[3:_FIELDS_MIN])
    except MalformedError as error:
        raise InterferenceError(str(error)) from error
    return found


def _device_values(place: Place, words: list[str]) -> Values:
    reads, merged_reads, read_sectors, read_time, writes, merged_writes, written_sectors, write_time, *rest = (
        float(place.count(word, "a counter")) for word in words
    )
    sectors = (read_sectors, written_sectors)
    return (reads, writes, merged_reads, merged_writes, *sectors, read_time, write_time, *rest)


def target_values(counters: Counters) -> Values:
    """Reduce the counters of an object storage target.

    Args:
        counters: Those of `obdfilter.*.stats`.

    Returns:
        Counters; times are 0 before Lustre 2.13, which does not count them.
    """
    return _values(
        _samples(counters, ("read_bytes",)),
        _samples(counters, ("write_bytes",)),
        _total(counters, "read_bytes") / _SECTOR_BYTES,
        _total(counters, "write_bytes") / _SECTOR_BYTES,
        _milliseconds(counters, ("read",)),
        _milliseconds(counters, ("write",)),
    )


def metadata_values(counters: Counters) -> Values:
    """Reduce the counters of a metadata service.

    Args:
        counters: Those of `mdt.*.md_stats`.

    Returns:
        Counters, where requests that change nothing are reads, and others writes.
    """
    looks, changes = _samples(counters, _LOOKS), _samples(counters, _CHANGES)
    return _values(looks, changes, 0.0, 0.0, _milliseconds(counters, _LOOKS), _milliseconds(counters, _CHANGES))


def _values(*figures: float) -> Values:
    reads, writes, *rest = figures
    known = (reads, writes, 0.0, 0.0, *rest)
    return known + (0.0,) * (len(SERVER) - len(known))


def _samples(counters: Counters, names: Iterable[str]) -> float:
    return float(sum(counters.counters[name].samples for name in names if name in counters.counters))


def _total(counters: Counters, name: str) -> float:
    return float(counters.counters[name].total or 0) if name in counters.counters else 0.0


def _milliseconds(counters: Counters, names: Iterable[str]) -> float:
    """Times of requests; a counter without times (`[reqs]`) has none."""
    timed: Mapping[str, float] = {"usec": 1e-3, "usecs": 1e-3}
    found = (counters.counters[name] for name in names if name in counters.counters)
    return sum(timed.get(counter.unit, 0.0) * (counter.total or 0) for counter in found)
