"""Facts about a job from the traces of its processes (`weir run --trace`): its files, and how each access lay."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weir.report.errors import ReportError
from weir.report.facts import Accesses, Facts, File, Target, Transfers
from weir.report.phases import Bucket, phases_of
from weir.store.observations import METADATA
from weir.tracing.files import TracedProcess, combined, read_processes
from weir.tracing.records import Creation, Run
from weir.tracing.windows import TracedWindows, summed, windows_of

if TYPE_CHECKING:
    from weir._core import ClientLine, TracePattern

SMALL_CLASSES = 3
"""Classes of sizes in a trace that lie below `facts.SMALL_BYTES` (`SIZE_BOUNDS` of `crates/trace`)."""
FILES_MAX = 2_000
"""Most files of a report: those with the most accesses."""
_MOSTLY = 0.5
"""Part of the bytes at the store that a trace has to have seen, so that its counts stand for all accesses."""


@dataclass(frozen=True, slots=True)
class Traced:
    """A run as its traces tell it."""

    run: Run
    files: tuple[File, ...]
    accesses: Accesses
    windows: tuple[TracedWindows, ...]
    busiest_part: float | None
    """Part of the bytes that the busiest of several ranks moved; None of one rank, and where no bytes were seen."""
    has_accesses: bool
    """Whether the traces tell single accesses: those of older versions do not."""


def read(paths: Iterable[Path], *, note: Callable[[str], None], run: str | None = None) -> Traced:
    """Read the last run of traces.

    Args:
        paths: Folders of traces, and traces.
        note: Called with a sentence for each loss.
        run: Name of the run; None for the last one.

    Raises:
        TraceError: There is no trace, or one cannot be read.
        ReportError: The named run left no trace.
        OSError: A file cannot be opened.
    """
    runs = [each for each in read_processes(paths, note=note) if run is None or each[0].process["run"] == run]
    if not runs:
        raise ReportError(f"the run {run} left no trace", hint="static programs leave none")
    processes = max(runs, key=lambda each: min(traced.process["started"] for traced in each))
    told = combined(processes)
    counted = (windows_of(traced, note=note) for traced in processes)
    windows = tuple(summed(each for each in counted if each is not None))
    files, accesses = _accesses(processes, told)
    busiest = _busiest_part(processes) if told.ranks > 1 else None
    return Traced(told, files, accesses, windows, busiest, has_accesses=bool(accesses.alignable))


def facts_of(traced: Traced, source: str) -> Facts:
    """Take the facts of a run from its traces alone.

    Args:
        source: Where the traces are, in words.
    """
    run = traced.run
    main = max(traced.windows, key=lambda each: len(each.lines), default=None)
    lines = () if main is None else main.lines
    length = 1.0 if main is None else main.window_seconds
    buckets = list(_buckets(lines, length, run.started))
    targets = tuple(_targets(lines))
    metadata = sum(line["stats"] + line["opens"] + line["others"] for line in lines)
    counted = _counted(lines)
    chosen = _chosen(traced.accesses, counted)
    active = sum(bucket.seconds for bucket in buckets)
    return Facts(
        source=source,
        job=run.program if main is None else main.job,
        user=None,
        program=" ".join((run.program, *run.arguments)),
        begin=run.started,
        seconds=max(run.ended - run.started, 0.0),
        processes=run.ranks,
        is_store=True,
        phases=phases_of(buckets, fastest(buckets)),
        possible_by="the fastest window of this run",
        targets=targets,
        files=traced.files,
        accesses=replace(chosen, metadata=metadata, metadata_seconds=sum(line["metadata_seconds"] for line in lines)),
        under_way=sum(bucket.request_seconds for bucket in buckets) / active if active else None,
        active_seconds=active,
        busiest_part=traced.busiest_part,
        unknown=(
            "shares and waits for other jobs are not in a trace: a report of the job's name has them, where "
            "`weir record` ran",
        ),
    )


def with_trace(facts: Facts, traced: Traced) -> Facts:
    """Add what traces know to what the store knows of a job."""
    accesses = _chosen(traced.accesses, facts.accesses)
    kept = facts.accesses
    return replace(
        facts,
        source=f"{facts.source}, and the traces of its processes",
        program=" ".join((traced.run.program, *traced.run.arguments)),
        processes=traced.run.ranks,
        files=traced.files,
        busiest_part=traced.busiest_part,
        accesses=replace(accesses, metadata=kept.metadata, metadata_seconds=kept.metadata_seconds),
    )


def _chosen(traced: Accesses, counted: Accesses) -> Accesses:
    """The accesses that the processes counted, where they saw most of the bytes; else those of the store's windows."""
    moved = counted.reads.bytes + counted.writes.bytes
    seen = traced.reads.bytes + traced.writes.bytes
    if seen < _MOSTLY * moved or not traced.alignable:
        return counted
    return replace(
        traced,
        reads=replace(traced.reads, seconds=counted.reads.seconds),
        writes=replace(traced.writes, seconds=counted.writes.seconds),
    )


@dataclass(slots=True)
class _Count:
    """Patterns added up."""

    operations: int = 0
    small: int = 0
    bytes: int = 0
    unaligned: int = 0
    astray: int = 0
    apart: int = 0

    def add(self, pattern: "TracePattern") -> None:
        """Add a pattern."""
        operations = sum(pattern["sizes"])
        self.operations += operations
        self.small += sum(pattern["sizes"][:SMALL_CLASSES])
        self.bytes += pattern["bytes"]
        self.unaligned += pattern["unaligned"]
        self.astray += operations - pattern["ahead"]
        self.apart += operations - pattern["consecutive"]

    def transfers(self) -> Transfers:
        """The sums as transfers."""
        known = self.operations
        return Transfers(
            known, self.bytes, sized=known, small=self.small, placed=known, astray=self.astray, apart=self.apart
        )


@dataclass(slots=True)
class _Sums:
    """The accesses of a file, or of all."""

    reads: _Count = field(default_factory=_Count)
    writes: _Count = field(default_factory=_Count)
    layout: str = ""
    opens: int = 0
    processes: set[int] = field(default_factory=set)


def _accesses(processes: Sequence[TracedProcess], run: Run) -> tuple[tuple[File, ...], Accesses]:
    by_path: dict[str, _Sums] = {}
    opened: Counter[str] = Counter()
    whole = _Sums()
    for number, traced in enumerate(processes):
        for record in traced.records:
            match record:
                case ("accessed", str(path), str(layout), dict(reads), dict(writes), _):
                    sums = by_path.setdefault(path, _Sums())
                    sums.layout = layout or sums.layout
                    sums.opens += 1
                    sums.processes.add(number)
                    for each in (sums, whole):
                        each.reads.add(_pattern(reads))
                        each.writes.add(_pattern(writes))
                case ("opened", _, str(path), _, str(opening), _) if opening != "inherited":
                    opened[path] += 1
    sizes = {name: made.size_bytes for made in (*run.creations, *run.overwritten) for name in (made.path, made.name)}
    files = [_file(path, sums, sizes, opened[path]) for path, sums in by_path.items() if path]
    files += [_made(made, opened[made.path]) for made in run.creations if not {made.name, made.path} & by_path.keys()]
    files.sort(key=lambda file: (-file.operations, -file.written_bytes, file.path))
    known = whole.reads.operations + whole.writes.operations
    accesses = Accesses(
        reads=whole.reads.transfers(),
        writes=whole.writes.transfers(),
        alignable=known,
        unaligned=whole.reads.unaligned + whole.writes.unaligned,
        is_exact=True,
    )
    return tuple(files[:FILES_MAX]), accesses


def _pattern(found: Mapping[str, Any]) -> "TracePattern":
    return found  # type: ignore[return-value]


def _file(path: str, sums: _Sums, sizes: Mapping[str, int], opened: int) -> File:
    both = (sums.reads, sums.writes)
    return File(
        path=path,
        size_bytes=sizes.get(path, 0),
        read_bytes=sums.reads.bytes,
        written_bytes=sums.writes.bytes,
        operations=sum(each.operations for each in both),
        small=sum(each.small for each in both),
        unaligned=sum(each.unaligned for each in both),
        astray=sum(each.astray for each in both),
        processes=len(sums.processes),
        opens=max(sums.opens, opened),
        targets=_targets_of(sums.layout),
    )


def _made(made: Creation, opened: int) -> File:
    """A file of which no access was seen."""
    return File(
        path=made.name,
        size_bytes=made.size_bytes,
        written_bytes=made.written_bytes,
        opens=opened,
        targets=_targets_of(made.layout or ""),
    )


def _busiest_part(processes: Sequence[TracedProcess]) -> float | None:
    """The part of the bytes of all ranks that the busiest one moved."""
    moved: Counter[int] = Counter()
    for traced in processes:
        rank = traced.process["rank"]
        for record in traced.records:
            match record:
                case ("accessed", _, _, dict(reads), dict(writes), _) if rank is not None:
                    moved[rank] += reads["bytes"] + writes["bytes"]
    return max(moved.values()) / moved.total() if moved.total() else None


def _targets_of(layout: str) -> tuple[str, ...]:
    """The targets that a layout names, each once."""
    from weir import _core

    if not layout:
        return ()
    try:
        components = _core.parse_layout(layout)
    except ValueError:
        return ()
    return tuple(dict.fromkeys(target for component in components for target in component["targets"]))


def _buckets(lines: "Iterable[ClientLine]", length: float, started: float) -> Iterator[Bucket]:
    found: dict[int, Bucket] = {}
    for line in lines:
        begin = max(line["window"] * length - started, 0.0)
        bucket = found.setdefault(line["window"], Bucket(begin, length))
        bucket.read_bytes += line["read_bytes"]
        bucket.written_bytes += line["written_bytes"]
        bucket.operations += line["reads"] + line["writes"]
        bucket.metadata += line["stats"] + line["opens"] + line["others"]
        bucket.request_seconds += line["read_seconds"] + line["write_seconds"] + line["metadata_seconds"]
    yield from (bucket for _, bucket in sorted(found.items()))


def fastest(buckets: Sequence[Bucket]) -> "Callable[[Any], tuple[None, float | None]]":
    """Say of a phase how fast the fastest window of its kind was."""
    rates: dict[str, float] = {}
    for bucket in buckets:
        kind = bucket.kind
        if kind is not None and bucket.seconds > 0:
            rate = (bucket.read_bytes + bucket.written_bytes) / bucket.seconds
            rates[kind] = max(rates.get(kind, 0.0), rate)
    return lambda phase: (None, rates.get(phase.kind) or None)


def _targets(lines: "Iterable[ClientLine]") -> Iterator[Target]:
    sums: dict[str, list[float]] = {}
    for line in lines:
        operations = line["reads"] + line["writes"] + line["stats"] + line["opens"] + line["others"]
        seconds = line["read_seconds"] + line["write_seconds"] + line["metadata_seconds"]
        place = sums.setdefault(line["device"], [0.0] * 4)
        for column, value in enumerate((operations, line["read_bytes"], line["written_bytes"], seconds)):
            place[column] += value
    for name, (number, read, written, time) in sorted(sums.items()):
        yield Target(name, name.endswith(METADATA), int(number), int(read), int(written), time)


def _counted(lines: "Sequence[ClientLine]") -> Accesses:
    """The operations by direction, as windows tell them: their number, bytes and times."""
    reads = Transfers(
        sum(line["reads"] for line in lines),
        sum(line["read_bytes"] for line in lines),
        sum(line["read_seconds"] for line in lines),
    )
    writes = Transfers(
        sum(line["writes"] for line in lines),
        sum(line["written_bytes"] for line in lines),
        sum(line["write_seconds"] for line in lines),
    )
    return Accesses(reads=reads, writes=writes)
