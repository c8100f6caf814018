"""Jobs from traces of `weir run --trace`.

A trace tells when each process opened each file for writing, how many bytes it wrote, and when it last did; it tells
nothing of reads and of the time that writes took. So the bytes are spread evenly between the open and the last write,
and no piece begins before its moment in the trace.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from weir.simulation.errors import ScenarioError
from weir.simulation.workload import Kind, Steps, Work
from weir.simulation.workloads.logs import PIECE_BYTES, PIECES_MAX
from weir.tracing.files import TracedProcess, TraceError, read_processes


@dataclass(frozen=True, slots=True)
class TracedJob:
    """The job of a traced run."""

    name: str
    """Name of its program."""
    started: float
    """Unix time of its start, in seconds."""
    work: Work


@dataclass(slots=True)
class _Writing:
    """The writes of a process to a file."""

    process: int
    file: int
    is_new: bool
    opened: float
    """Seconds from the job's start."""
    last: float
    """End of the last write, in seconds from the job's start."""
    count: int = 0
    """Bytes written."""
    end: int = 0
    """One past the last byte written."""


def read_traced_jobs(paths: Sequence[Path], *, note: Callable[[str], None]) -> list[TracedJob]:
    """Read the jobs of traces.

    Args:
        paths: Folders of traces, and traces.
        note: Called with a sentence for each trace that could be used only in part.

    Returns:
        A job for each run, the earliest first.

    Raises:
        ScenarioError: A trace cannot be read.
    """
    try:
        runs = read_processes(paths, note=note)
    except TraceError as error:
        raise ScenarioError(error.message, hint=error.hint) from error
    return sorted((_job(run) for run in runs), key=lambda job: job.started)


def _job(run: list[TracedProcess]) -> TracedJob:
    run = sorted(run, key=lambda traced: (traced.process["rank"] or 0, traced.process["started"]))
    begin = min(traced.process["started"] for traced in run)
    nodes: dict[str, int] = {}
    files: dict[str, int] = {}
    made: set[int] = set()
    writings: list[_Writing] = []
    for number, traced in enumerate(run):
        nodes.setdefault(traced.process["node"], len(nodes))
        writings.extend(_writings(traced, number, begin, files, made))
    main = max(run, key=lambda traced: sum(record[0] == "opened" for record in traced.records))
    active = sorted({writing.process for writing in writings})
    places = {process: place for place, process in enumerate(active)}
    steps = [_steps(writing, places[writing.process]) for writing in sorted(writings, key=_by_time)]
    work = Work(
        nodes=len(nodes),
        stream_nodes=np.array([nodes[run[process].process["node"]] for process in active], dtype=np.uint32),
        file_bytes=np.zeros(len(files), dtype=np.uint64),
        steps=_by_moment(Steps.joined(steps)),
    )
    return TracedJob(Path(main.process["program"]).name or "unknown", begin, work)


def _by_time(writing: _Writing) -> tuple[float, int]:
    return writing.opened, writing.file


def _writings(
    traced: TracedProcess, number: int, begin: float, files: dict[str, int], made: set[int]
) -> list[_Writing]:
    """The writes of one process; `files` and `made` are those of the whole run, and grow."""
    started = traced.process["started"] - begin
    found: dict[object, _Writing] = {}
    for record in traced.records:
        match record:
            case ("opened", handle, str(path), _, opening, float(after)):
                file = files.setdefault(path, len(files))
                is_new = opening in ("created", "truncated") and file not in made
                if is_new:
                    made.add(file)
                found[handle] = _Writing(number, file, is_new, started + after, started + after)
            case ("written", handle, int(end), int(count), _, _, float(after)) if handle in found:
                # A later record of the same open file replaces the one before.
                found[handle].count, found[handle].end, found[handle].last = count, end, started + after
    return list(found.values())


def _steps(writing: _Writing, stream: int) -> Steps:
    kind = Kind.CREATE if writing.is_new else Kind.METADATA
    opening = Steps.of(
        1, stream=stream, kind=kind, file=writing.file, not_before_seconds=writing.opened, bytes=not writing.is_new
    )
    if not writing.count:
        return opening
    pieces = max(min(PIECES_MAX, -(-writing.count // PIECE_BYTES)), 1)
    cuts = np.arange(pieces + 1, dtype=np.uint64) * np.uint64(writing.count) // np.uint64(pieces)
    first = np.uint64(max(writing.end - writing.count, 0))
    moments = writing.opened + (writing.last - writing.opened) * np.arange(pieces) / pieces
    written = Steps.of(
        pieces,
        stream=stream,
        kind=Kind.WRITE,
        file=writing.file,
        not_before_seconds=moments,
        offset=cuts[:-1] + first,
        bytes=np.diff(cuts),
        depth=1,
    )
    return Steps.joined([opening, written])


def _by_moment(steps: Steps) -> Steps:
    """Steps of each stream in the order of their moments, those of one moment as they stand."""
    order = np.lexsort((steps.not_before_seconds, steps.stream))
    return Steps(**{name: column[order] for name, column in steps.columns().items()})
