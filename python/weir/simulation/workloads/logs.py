"""Jobs from Darshan logs, by the method of the Tarazu paper's section 6.3.

A log counts the accesses of each rank to each file. The time between the first open and the last close, less the time
in reads and writes, is idle. Idle time and bytes are spread evenly between open and close, in a number of pieces. A
reduced record stands for all ranks: its bytes and its time are divided among them. Where a log has traced all accesses
of a file (DXT), they are taken as they are.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from weir.simulation.errors import ScenarioError
from weir.simulation.workload import Kind, SkippedLog, Work
from weir.simulation.workloads.series import Series
from weir.tracing.darshan import Access, DarshanError, DarshanLog, LoggedFile, Segments, read_logs

PIECES_MAX = 32
"""Pieces of an access of one rank: more would make the job's idle time finer, and its steps more."""
PIECE_BYTES = 1 << 20
"""Bytes of a piece at least, where an access has more than one."""
PROCESSES_PER_NODE = 32
"""Ranks of a node where nothing else is said: a log does not tell."""
SUFFIX = ".darshan"
"""Ending of the names of logs."""
_NAME = re.compile(r"(?P<user>[^_]+)_.+_id\d+[_-]")
"""The name that Darshan gives its logs: USER_PROGRAM_idJOB_…"""
_KEPT = 4096
"""Logs whose work is kept for further scenarios of this process."""


@dataclass(frozen=True, slots=True)
class LoggedJob:
    """The job of a log."""

    name: str
    """Name of its program."""
    user: str
    job_id: int
    started: float
    """Unix time of its start, in seconds."""
    seconds: float
    """Length of the run."""
    ranks: int
    work: Work
    note: str = ""
    """A sentence about the parts that the log lacks; empty where it is whole."""


@dataclass(frozen=True, slots=True)
class LogOptions:
    """The choices that a log leaves open."""

    processes_per_node: int = PROCESSES_PER_NODE
    keep_layouts: bool = False
    """Whether files keep the stripes that they had on Lustre; otherwise the scenario lays them out."""


_Key = tuple[str, int, int, LogOptions]
"""A log by its path, its time and its size, and the choices that its job was made with."""
_known: dict[_Key, LoggedJob] = {}


def logs_in(path: Path) -> list[Path]:
    """List the logs of a folder.

    Args:
        path: A folder, or a log.

    Returns:
        The folder's logs by name, or the log itself.

    Raises:
        ScenarioError: The folder has no logs.
    """
    if not path.is_dir():
        return [path]
    logs = sorted(path.rglob(f"*{SUFFIX}"))
    if not logs:
        raise ScenarioError(f"there are no Darshan logs in {path}", hint=f"their names end with {SUFFIX}")
    return logs


def read_jobs(
    paths: Sequence[Path],
    options: LogOptions | None = None,
    *,
    skip: Callable[[SkippedLog], object] | None = None,
) -> list[LoggedJob]:
    """Read the jobs of logs. A log that was read before by this process and did not change is not read again.

    Args:
        paths: The logs.
        options: Choices that a log leaves open.
        skip: Called with each log that cannot be used, which is then left out; None makes the first of them an error.

    Returns:
        A job for each log that can be used, in their order.

    Raises:
        ScenarioError: A log cannot be read, or tells of no access to a file; with `skip`, no log can be used.
    """
    options = options or LogOptions()
    keys: dict[Path, _Key] = {}
    unusable: dict[Path, ScenarioError] = {}
    for path in paths:
        try:
            keys[path] = _key(path, options)
        except ScenarioError as error:
            _leave_out(path, error, unusable, is_allowed=skip is not None)
    missing = [path for path, key in keys.items() if key not in _known]
    found = {}
    for path, answer in read_logs(missing, times=True):
        try:
            found[keys[path]] = _job_of_answer(answer, options)
        except ScenarioError as error:
            _leave_out(path, error, unusable, is_allowed=skip is not None)
    jobs = [found.get(keys[path]) or _known[keys[path]] for path in paths if path not in unusable]
    if unusable and not jobs:
        first = next(unusable[path] for path in paths if path in unusable)
        raise ScenarioError(f"none of {len(unusable)} logs can be used; the first: {first.message}", hint=first.hint)
    for path in paths:
        if skip is not None and path in unusable:
            skip(SkippedLog(path, unusable[path].message))
    _keep(found)
    return jobs


def _leave_out(path: Path, error: ScenarioError, unusable: dict[Path, ScenarioError], *, is_allowed: bool) -> None:
    if not is_allowed:
        raise error
    unusable[path] = error


def _job_of_answer(answer: DarshanLog | DarshanError, options: LogOptions) -> LoggedJob:
    if isinstance(answer, DarshanError):
        raise ScenarioError(answer.message, hint=answer.hint)
    return job_of(answer, options)


def _keep(found: dict[_Key, LoggedJob]) -> None:
    """Keep the jobs of logs for further scenarios, the oldest of too many go."""
    for key, job in found.items():
        if len(_known) >= _KEPT:
            _known.pop(next(iter(_known)))
        _known[key] = job


def _key(path: Path, options: LogOptions) -> _Key:
    try:
        state = path.stat()
    except OSError as error:
        raise ScenarioError(f"cannot read {path}: {error.strerror}", hint="is the path right?") from error
    return str(path.resolve()), state.st_mtime_ns, state.st_size, options


def job_of(log: DarshanLog, options: LogOptions | None = None) -> LoggedJob:
    """Make the job of a log.

    Args:
        log: The log, read with times.
        options: Choices that a log leaves open.

    Raises:
        ScenarioError: The log tells of no access to a file.
    """
    options = options or LogOptions()
    if not any(file.accesses or file.segments for file in log.files):
        raise ScenarioError(
            f"{log.path} tells of no access to a file by POSIX, MPI-IO or STDIO",
            hint="its program did no such I/O, or Darshan's modules were off; leave it out",
        )
    series = Series.empty()
    run_seconds = log.run.ended - log.run.started
    for number, file in enumerate(log.files):
        _add_file(series, number, file, log.run.ranks, run_seconds)
    nodes = -(-log.run.ranks // options.processes_per_node)
    work = series.work(
        file_bytes=np.array([_bytes_before(file) for file in log.files], dtype=np.uint64),
        layouts=[file.layout if options.keep_layouts else None for file in log.files],
        nodes=nodes,
        per_node=options.processes_per_node,
    )
    named = _NAME.match(log.path.name)
    return LoggedJob(
        name=log.run.program,
        user=named["user"] if named else f"uid-{log.uid}",
        job_id=log.job_id,
        started=log.run.started,
        seconds=run_seconds,
        ranks=log.run.ranks,
        work=work,
        note=_note(log),
    )


def _note(log: DarshanLog) -> str:
    if not log.incomplete:
        return ""
    return f"{log.path}: Darshan's {', '.join(log.incomplete)} ran out of memory, so accesses are missing"


def _bytes_before(file: LoggedFile) -> int:
    """Bytes that a file held before the run: all that were read, unless the run wrote the file first."""
    reads = [access.first_read for access in file.accesses if access.read_bytes]
    writes = [access.first_write for access in file.accesses if access.written_bytes]
    if not reads or (writes and min(writes) <= min(reads)):
        return 0
    return max(file.size_read_bytes, 1)


def _add_file(series: Series, number: int, file: LoggedFile, ranks: int, run_seconds: float) -> None:
    traced = sum(sum(part.lengths) for part in file.segments)
    is_traced = bool(file.segments) and (traced == file.read_bytes + file.written_bytes or not file.accesses)
    _add_opens(series, number, file, ranks)
    if is_traced:
        for part in file.segments:
            _add_segments(series, number, part)
        return
    places = {Kind.READ: 0, Kind.WRITE: 0}
    for access in file.accesses:
        for kind in _order(access):
            count = access.read_bytes if kind == Kind.READ else access.written_bytes
            if count:
                _add_pieces(series, number, access, kind, places[kind], ranks, run_seconds)
                places[kind] += count


def _add_opens(series: Series, number: int, file: LoggedFile, ranks: int) -> None:
    """The opens of a file: its first rank makes it if it is new, the others ask for it."""
    moments: dict[int, float] = {}
    for access in file.accesses:
        for rank in range(ranks) if access.rank < 0 else (access.rank,):
            moments[rank] = min(moments.get(rank, access.opened), access.opened)
    for part in file.segments:
        moments.setdefault(part.rank, min(part.starts, default=0.0))
    is_new = file.written_bytes > 0 and not _bytes_before(file)
    processes = np.array(list(moments), dtype=np.uint32)
    times = np.array(list(moments.values()), dtype=np.float64)
    kinds = np.full(len(processes), Kind.METADATA, dtype=np.uint8)
    if is_new and len(processes):
        kinds[np.lexsort((processes, times))[0]] = Kind.CREATE
    series.add(
        len(processes), process=processes, start=times, end=times, kind=kinds, file=number, bytes=kinds == Kind.METADATA
    )


def _order(access: Access) -> tuple[Kind, Kind]:
    reads_first = access.first_read <= access.first_write
    return (Kind.READ, Kind.WRITE) if reads_first else (Kind.WRITE, Kind.READ)


def _add_pieces(
    series: Series, number: int, access: Access, kind: Kind, place: int, ranks: int, run_seconds: float
) -> None:
    """One direction of an access, spread evenly over its part of the time between open and close."""
    sharers = ranks if access.rank < 0 else 1
    is_read = kind == Kind.READ
    total, calls = (access.read_bytes, access.reads) if is_read else (access.written_bytes, access.writes)
    begin, end, busy = _window(access, kind, sharers, run_seconds)
    bounds = np.arange(sharers + 1, dtype=np.uint64) * np.uint64(total) // np.uint64(sharers)
    own = int(bounds[1])
    pieces = max(min(PIECES_MAX, -(-calls // sharers), -(-own // PIECE_BYTES)), 1)
    cuts = np.arange(pieces + 1, dtype=np.uint64)
    lengths = np.diff(bounds)[:, None]
    edges = bounds[:-1, None] + cuts[None, :] * lengths // np.uint64(pieces)
    interval = (end - begin) / pieces
    # A piece of time begins with its part of the idle time, and ends with the access.
    ends = begin + interval * np.arange(1, pieces + 1)
    processes = np.arange(ranks) if access.rank < 0 else np.array([access.rank])
    series.add(
        sharers * pieces,
        process=np.repeat(processes, pieces),
        start=np.tile(ends - busy / pieces, sharers),
        end=np.tile(ends, sharers),
        kind=kind,
        file=number,
        offset=edges[:, :-1].reshape(-1) + np.uint64(place),
        bytes=np.diff(edges, axis=1).reshape(-1),
        request_bytes=access.transfer_bytes,
    )


def _window(access: Access, kind: Kind, sharers: int, run_seconds: float) -> tuple[float, float, float]:
    """Begin and end of the time over which a direction is spread, and the time of it in which a rank was busy.

    An access in both directions spends the time between open and close on each in proportion to its bytes.
    """
    opened, closed = access.opened, access.closed or run_seconds
    if closed < opened:
        opened, closed = 0.0, max(closed, run_seconds)
    seconds = access.read_seconds if kind == Kind.READ else access.write_seconds
    both = access.read_bytes + access.written_bytes
    first = _order(access)[0]
    first_bytes = access.read_bytes if first == Kind.READ else access.written_bytes
    middle = opened + (closed - opened) * first_bytes / both
    begin, end = (opened, middle) if kind == first else (middle, closed)
    return begin, end, min(seconds / sharers, end - begin)


def _add_segments(series: Series, number: int, part: Segments) -> None:
    count = len(part.offsets)
    kinds = np.full(count, Kind.READ, dtype=np.uint8)
    kinds[: part.writes] = Kind.WRITE
    series.add(
        count,
        process=max(part.rank, 0),
        start=np.array(part.starts),
        end=np.array(part.ends),
        kind=kinds,
        file=number,
        offset=np.array(part.offsets, dtype=np.int64).clip(0),
        bytes=np.array(part.lengths, dtype=np.int64).clip(0),
    )
