"""The I/O identity of a job: features that are derived from its traits, and a name (LuxIO, section III-B, step 2)."""

from pathlib import PurePosixPath
from typing import Literal

import msgspec

from weir.provisioning.behaviour.traits import LARGE_BYTES, SMALL_BYTES, Traits
from weir.provisioning.jobs.job import Job

SCALES = ((1, "single"), (64, "small"), (1024, "medium"), (16_384, "large"))
"""Most processes of each scale; above the last a job is `huge`."""
HUGE = "huge"
MOST = 2 / 3
"""Part of all reads and writes from which on one of them names the job; below, the job is `mixed`."""
METADATA_LOADS = ((0.1, "light"), (1.0, "moderate"))
"""Most metadata operations for each read or write of each load; above the last a load is `heavy`."""
_SECONDS_ASSUMED = 3600.0
"""Time of a job that tells none."""
_PROGRAM_CHARACTERS_MAX = 255
"""Longest name of a program: that of a file on Linux."""
SEQUENTIAL = 0.5
"""Part of the reads and writes that are behind the one before in their file, from which on a job is `sequential`."""


class Identity(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The I/O behaviour of a job."""

    version: Literal[1] = 1
    """Version of this document."""
    name: str
    """`[scale]-[operation]-[metadata]-[pattern]-[interface]`, as in the paper."""
    program: str = ""
    processes: int
    nodes: int | None = None
    seconds: float = 0.0
    """Time of the known run."""
    read_bytes: int = 0
    written_bytes: int = 0
    read_operations: int = 0
    write_operations: int = 0
    metadata_operations: int = 0
    local_operations: int = 0
    """The number of metadata operations that never reach the storage, such as seeks."""
    small_fraction: float = 0.0
    """Part of the counted reads and writes below 10 KB."""
    large_fraction: float = 0.0
    """Part of the counted reads and writes from 1 MB on."""
    sequential_fraction: float = 0.0
    consecutive_fraction: float = 0.0
    unaligned_fraction: float = 0.0
    collective_fraction: float = 0.0
    """Part of the reads and writes that processes made together."""
    shared_fraction: float = 0.0
    """Part of the files that all processes used."""
    files: int = 0
    read_bytes_per_second: float = 0.0
    """Bytes over the time in reads of a process, times the processes; 0 where nothing was read."""
    write_bytes_per_second: float = 0.0
    io_fraction: float = 0.0
    """Part of the run's time that its processes spent in I/O."""
    interface: str = "none"


def identify(traits: Traits, job: Job | None = None) -> Identity:
    """Derive the identity of a job.

    Args:
        traits: The traits of a past run.
        job: The job that is to run. Its processes and nodes hold, and counts of the past run stay as they were.
    """
    read, write = traits.read, traits.write
    operations = read.operations + write.operations
    sized = read.sized_operations + write.sized_operations
    processes = (job.processes if job else None) or traits.processes
    seconds = read.seconds + write.seconds + traits.metadata_seconds
    sequential = _fraction(read.sequential_operations + write.sequential_operations, sized)
    small = _fraction(read.small_operations + write.small_operations, sized)
    large = _fraction(read.large_operations + write.large_operations, sized)
    if operations and not sized:
        # Darshan counts no sizes and places of STDIO. Its streams go on in order, and their mean size is known.
        mean = (read.bytes + write.bytes) / operations
        sequential, small, large = 1.0, float(mean < SMALL_BYTES), float(mean >= LARGE_BYTES)
    return Identity(
        name=_name(traits, processes, sequential),
        program=traits.program,
        processes=processes,
        nodes=(job.nodes if job else None) or traits.nodes,
        seconds=traits.seconds,
        read_bytes=read.bytes,
        written_bytes=write.bytes,
        read_operations=read.operations,
        write_operations=write.operations,
        metadata_operations=traits.metadata_operations,
        local_operations=traits.local_operations,
        small_fraction=small,
        large_fraction=large,
        sequential_fraction=sequential,
        consecutive_fraction=_fraction(read.consecutive_operations + write.consecutive_operations, sized),
        unaligned_fraction=_fraction(traits.unaligned_operations, sized),
        collective_fraction=_fraction(traits.collective_operations, operations),
        shared_fraction=_fraction(traits.shared_files, traits.files),
        files=traits.files,
        read_bytes_per_second=_rate(read.bytes, read.seconds, traits.processes),
        write_bytes_per_second=_rate(write.bytes, write.seconds, traits.processes),
        io_fraction=_fraction(seconds, traits.seconds * traits.processes),
        interface=traits.interface,
    )


def assumed(size_bytes: int, job: Job) -> Identity:
    """Assume the identity of a job of which only the size of its storage is known.

    Returns:
        The identity of a job that writes its storage once and reads it once, in order and in large parts, within its
        time limit.
    """
    processes = job.processes or job.nodes or 1
    operations = max(1, size_bytes // LARGE_BYTES)
    scale = next((name for most, name in SCALES if processes <= most), HUGE)
    return Identity(
        name=f"{scale}-mixed-light-sequential-posix",
        program=PurePosixPath(job.command[0]).name[:_PROGRAM_CHARACTERS_MAX] if job.command else "",
        processes=processes,
        nodes=job.nodes,
        seconds=job.seconds or _SECONDS_ASSUMED,
        read_bytes=size_bytes,
        written_bytes=size_bytes,
        read_operations=operations,
        write_operations=operations,
        large_fraction=1.0,
        sequential_fraction=1.0,
        consecutive_fraction=1.0,
        files=processes,
        interface="posix",
    )


def _fraction(part: float, whole: float) -> float:
    """A part of a whole, at most 1: counters of a log that overflowed may say more."""
    return min(part / whole, 1.0) if whole > 0 else 0.0


def _rate(moved: int, seconds: float, processes: int) -> float:
    return moved * processes / seconds if seconds > 0 else 0.0


def _name(traits: Traits, processes: int, sequential: float) -> str:
    reads, writes = traits.read.operations, traits.write.operations
    scale = next((name for most, name in SCALES if processes <= most), HUGE)
    if reads + writes == 0:
        return f"{scale}-none-{'heavy' if traits.metadata_operations else 'light'}-none-{traits.interface}"
    operation = "mixed"
    if max(reads, writes) >= MOST * (reads + writes):
        operation = "read" if reads > writes else "write"
    load = traits.metadata_operations / (reads + writes)
    metadata = next((name for most, name in METADATA_LOADS if load <= most), "heavy")
    pattern = "sequential" if sequential >= SEQUENTIAL else "random"
    return f"{scale}-{operation}-{metadata}-{pattern}-{traits.interface}"
