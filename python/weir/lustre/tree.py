"""A reading of a server: every file of Lustre and of the kernel, at its place in any version.

Lustre moved its files. Up to 2.11 they stand in `/proc/fs/lustre`. From 2.12 single values stand in `/sys/fs/lustre`;
from 2.15 histograms stand in debugfs (`/sys/kernel/debug/lustre`, which only root reads). Space moved from `obdfilter`
to `osd-*` in 2.12. So the reading looks for each file at all these places, and the first one counts.
"""

import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from weir.lustre.counters import Counters, parse_counters
from weir.lustre.histograms import Histograms, parse_brw_stats
from weir.lustre.host import (
    LoadAverage,
    Memory,
    Network,
    Processors,
    parse_lnet_stats,
    parse_loadavg,
    parse_meminfo,
    parse_stat,
)
from weir.lustre.jobs import JobCounters, parse_job_stats
from weir.lustre.space import parse_kilobytes
from weir.lustre.text import MalformedError, Place

FILE_BYTES_MAX = 64 << 20
"""Longest file: a longer `job_stats` (hundreds of thousands of jobs) is listed as unread, so that reading stays short.
"""
_BASES = ("proc/fs/lustre", "sys/fs/lustre", "sys/kernel/debug/lustre")
_DEVICES = ("obdfilter", "osd-ldiskfs", "osd-zfs")
_LNET = ("sys/kernel/debug/lnet/stats", "proc/sys/lnet/stats")
_JOB_COUNTERS = frozenset({"read_bytes", "write_bytes", "read", "write"})
"""The counters of bytes, by their old and new names."""
_OST = re.compile(r".+-OST[0-9a-fA-F]{4,8}")

Parsed = TypeVar("Parsed")


@dataclass(frozen=True, slots=True)
class TargetReading:
    """Values of one target of a server; None where a file is missing."""

    total_bytes: int | None
    free_bytes: int | None
    available_bytes: int | None
    degraded: bool
    counters: Counters | None
    jobs: tuple[JobCounters, ...] | None
    histograms: Histograms | None


@dataclass(frozen=True, slots=True)
class Reading:
    """Values of a server at one moment; None where a file is missing."""

    time_seconds: float
    """Unix time."""
    load: LoadAverage | None
    memory: Memory | None
    processors: Processors | None
    network: Network | None
    targets: Mapping[str, TargetReading]
    """Values of each target, by its name."""
    unread: tuple[str, ...]
    """Files that could not be read or understood, with the reason."""


def read_tree(root: Path, *, with_targets: bool = True) -> Reading:
    """Read a server. An unreadable file never fails the rest: `Reading.unread` lists it.

    Args:
        root: `/` of a live server, or a folder with a copy of its files.
        with_targets: Whether to read the targets; without them only the host is read.

    Returns:
        The values of the server now.
    """
    unread: list[str] = []
    targets = {
        folder.name
        for base in (_BASES if with_targets else ())
        for device in _DEVICES
        for folder in _folders(root / base / device, unread)
        if _OST.fullmatch(folder.name)
    }
    return Reading(
        time_seconds=time.time(),
        load=_read(root, ("proc/loadavg",), parse_loadavg, unread),
        memory=_read(root, ("proc/meminfo",), parse_meminfo, unread),
        processors=_read(root, ("proc/stat",), parse_stat, unread),
        network=_read(root, _LNET, parse_lnet_stats, unread),
        targets={target: _target(root, target, unread) for target in sorted(targets)},
        unread=tuple(unread),
    )


def _target(root: Path, target: str, unread: list[str]) -> TargetReading:
    def read(name: str, parse: Callable[[str, str], Parsed], devices: tuple[str, ...]) -> Parsed | None:
        paths = tuple(f"{base}/{device}/{target}/{name}" for device in devices for base in _BASES)
        return _read(root, paths, parse, unread)

    return TargetReading(
        total_bytes=read("kbytestotal", parse_kilobytes, _DEVICES),
        free_bytes=read("kbytesfree", parse_kilobytes, _DEVICES),
        available_bytes=read("kbytesavail", parse_kilobytes, _DEVICES),
        degraded=bool(read("degraded", _flag, _DEVICES)),
        # The `stats` of a back end count other things than those of the target.
        counters=read("stats", parse_counters, _DEVICES[:1]),
        jobs=read("job_stats", _jobs, _DEVICES[:1]),
        histograms=read("brw_stats", parse_brw_stats, _DEVICES),
    )


def _read(root: Path, paths: tuple[str, ...], parse: Callable[[str, str], Parsed], unread: list[str]) -> Parsed | None:
    """Read the first valid file of `paths` below `root`; invalid files go to `unread`."""
    for path in paths:
        try:
            with (root / path).open("rb") as file:
                content = file.read(FILE_BYTES_MAX + 1)
            if len(content) > FILE_BYTES_MAX:
                unread.append(f"{root / path}: more than {FILE_BYTES_MAX >> 20} MiB")
                continue
            # To Lustre names of jobs are bytes.
            return parse(content.decode(errors="replace"), str(root / path))
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            unread.append(f"{root / path}: {error.strerror}")
        except MalformedError as error:
            unread.append(str(error))
    return None


def _folders(folder: Path, unread: list[str]) -> list[Path]:
    try:
        return [each for each in folder.iterdir() if each.is_dir()]
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        unread.append(f"{folder}: {error.strerror}")
        return []


def _jobs(text: str, source: str) -> tuple[JobCounters, ...]:
    return parse_job_stats(text, source, only=_JOB_COUNTERS)


def _flag(text: str, source: str) -> bool:
    place = Place(source, 1, text.strip())
    return place.count(place.text, "0 or 1") != 0
