"""Facts about a job from its Darshan log: counters of its calls, its files, and where they lay on Lustre."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from weir.placement.slow_targets import slow_targets
from weir.provisioning.behaviour.traits import Traits, of_log
from weir.provisioning.behaviour.traits import Transfers as Calls
from weir.report.facts import Accesses, Facts, File, SlowTarget, Target, Transfers
from weir.report.phases import Bucket, phases_of
from weir.report.traced import FILES_MAX, fastest
from weir.tracing.darshan import Access, DarshanLog, LoggedFile, Segments
from weir.tracing.totals import InterfaceTotals, LogTotals, read_whole

Floats = NDArray[np.float64]

_WINDOWS = 60
"""Windows of a log."""
_SMALL = ("0_100", "100_1K", "1K_10K", "10K_100K", "100K_1M")
"""Classes of sizes in Darshan's counters that lie below 1 MB."""


def facts_of(path: Path) -> Facts:
    """Take the facts of a run from its log.

    Args:
        path: The log.

    Raises:
        DarshanError: The log cannot be read.
    """
    log, totals = read_whole(path)
    traits = of_log(totals)
    buckets = list(_buckets(log))
    active = sum(bucket.seconds for bucket in buckets if bucket.kind is not None)
    return Facts(
        source=f"the Darshan log {path}",
        job=str(log.job_id),
        user=str(log.uid),
        program=" ".join((log.run.program, *log.run.arguments)),
        begin=log.run.started,
        seconds=log.run.ended - log.run.started,
        processes=log.run.ranks,
        phases=phases_of(buckets, fastest(buckets)),
        possible_by="the fastest sixtieth of this run",
        targets=tuple(_targets(log.files)),
        slow_targets=tuple(
            SlowTarget(f"OST {slow.target}", slow.bytes_per_second, slow.median_bytes_per_second, slow.lost_seconds)
            for slow in slow_targets(log.files)
        ),
        files=_files(log),
        accesses=_accesses(totals, traits),
        active_seconds=active,
        unknown=tuple(_unknown(log)),
    )


def _accesses(totals: LogTotals, traits: Traits) -> Accesses:
    posix, stdio, mpiio = (totals.interfaces.get(name) for name in ("POSIX", "STDIO", "MPI-IO"))
    counted = posix or mpiio
    moved = traits.read.operations + traits.write.operations
    return Accesses(
        reads=_transfers("READ", traits.read, counted),
        writes=_transfers("WRITE", traits.write, counted),
        alignable=posix.count("READS", "WRITES") if posix else 0,
        unaligned=traits.unaligned_operations,
        metadata=traits.metadata_operations - traits.local_operations,
        metadata_seconds=traits.metadata_seconds,
        syncs=posix.count("FSYNCS", "FDSYNCS") if posix else None,
        streamed_bytes=stdio.count("BYTES_READ", "BYTES_WRITTEN") if stdio else 0,
        independent=mpiio.count("INDEP_READS", "INDEP_WRITES") if mpiio else 0,
        collective=mpiio.count("COLL_READS", "COLL_WRITES") if mpiio else 0,
        is_exact=moved > 0,
    )


def _transfers(way: str, calls: Calls, counted: InterfaceTotals | None) -> Transfers:
    aggregate = "" if counted is None or f"SIZE_{way}_0_100" in counted.counters else "AGG_"
    small = 0 if counted is None else counted.count(*(f"SIZE_{way}_{aggregate}{bound}" for bound in _SMALL))
    # Darshan knows no access before the first one of each process in a file, and counts it as no sequential one.
    firsts = 0 if counted is None else min(counted.count("OPENS"), calls.operations)
    is_placed = counted is not None and f"SEQ_{way}S" in counted.counters
    placed = calls.sized_operations if is_placed else 0
    return Transfers(
        operations=calls.operations,
        bytes=calls.bytes,
        seconds=calls.seconds,
        sized=calls.sized_operations,
        small=small,
        placed=placed,
        astray=max(placed - calls.sequential_operations - firsts, 0) if placed else 0,
    )


def _files(log: DarshanLog) -> tuple[File, ...]:
    found = [
        File(
            path=file.path,
            size_bytes=max(file.size_bytes, file.size_read_bytes),
            read_bytes=file.read_bytes,
            written_bytes=file.written_bytes,
            operations=file.reads + file.writes,
            small=file.reads + file.writes if 0 < file.transfer_bytes < 1_000_000 else 0,
            unaligned=file.unaligned,
            processes=file.processes,
            targets=tuple(dict.fromkeys(f"OST {each}" for part in file.components for each in part.targets)),
            slowest_seconds=file.seconds,
            mean_seconds=sum(each.read_seconds + each.write_seconds for each in file.accesses) / max(file.processes, 1),
        )
        for file in log.files
    ]
    found.sort(key=lambda file: (-file.slowest_seconds, -(file.read_bytes + file.written_bytes), file.path))
    return tuple(found[:FILES_MAX])


def _targets(files: Sequence[LoggedFile]) -> Iterator[Target]:
    """The OSTs of the run's files, with the bytes of each file divided evenly among its own."""
    sums: dict[int, list[float]] = {}
    for file in files:
        own = list(dict.fromkeys(each for part in file.components for each in part.targets))
        for target in own:
            place = sums.setdefault(target, [0.0] * 4)
            values = (file.reads + file.writes, file.read_bytes, file.written_bytes, file.seconds)
            for column, value in enumerate(values):
                place[column] += value / len(own)
    for target, (operations, read, written, seconds) in sorted(sums.items()):
        yield Target(f"OST {target}", False, round(operations), round(read), round(written), seconds)


def _buckets(log: DarshanLog) -> Iterator[Bucket]:
    """Sixty windows of the run. Traced accesses lie where they were; those of counters are spread evenly."""
    seconds = log.run.ended - log.run.started
    if seconds <= 0:
        return
    edges = np.linspace(0.0, seconds, _WINDOWS + 1)
    sums = np.zeros((3, _WINDOWS))
    for file in log.files:
        if file.segments:
            for part in file.segments:
                _add_segments(part, edges, sums)
        else:
            for access in file.accesses:
                _add_access(access, edges, sums)
    for number, (read, written, operations) in enumerate(sums.T.tolist()):
        yield Bucket(
            begin=float(edges[number]),
            seconds=seconds / _WINDOWS,
            read_bytes=round(read),
            written_bytes=round(written),
            operations=round(operations),
        )


def _add_segments(part: Segments, edges: Floats, sums: Floats) -> None:
    ends, lengths = np.array(part.ends, dtype=float), np.array(part.lengths, dtype=float)
    places = np.clip(np.searchsorted(edges, ends, side="left") - 1, 0, _WINDOWS - 1)
    is_write = np.arange(len(ends)) < part.writes
    usable = np.isfinite(ends) & (lengths >= 0)
    for row, chosen in ((0, usable & ~is_write), (1, usable & is_write)):
        sums[row] += np.bincount(places[chosen], weights=lengths[chosen], minlength=_WINDOWS)
    sums[2] += np.bincount(places[usable], minlength=_WINDOWS)


def _add_access(access: Access, edges: Floats, sums: Floats) -> None:
    ways = (
        (0, access.first_read, access.read_bytes, access.reads),
        (1, access.first_write, access.written_bytes, access.writes),
    )
    for row, begin, count, operations in ways:
        if not operations:
            continue
        end = max(access.closed, begin + 1e-9)
        inside = np.clip(np.minimum(edges[1:], end) - np.maximum(edges[:-1], begin), 0.0, None)
        if inside.sum() <= 0:
            inside[np.clip(np.searchsorted(edges, begin, side="right") - 1, 0, _WINDOWS - 1)] = 1.0
        parts = inside / inside.sum()
        sums[row] += parts * count
        sums[2] += parts * operations


def _unknown(log: DarshanLog) -> Iterator[str]:
    yield "a log knows neither what the job was owed nor whom it waited for"
    if log.incomplete:
        yield f"Darshan's {', '.join(log.incomplete)} ran out of memory: files and calls are missing"
    if not any(file.segments for file in log.files):
        yield "the log has no traced accesses (DXT): the bytes of a file are spread evenly over the time of its use"
    if not any(file.components for file in log.files):
        yield "the log does not tell where files lay"
