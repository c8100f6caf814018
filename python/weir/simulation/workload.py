"""The work of jobs, as columns: streams of steps, and the files that they touch.

`Work` is the work of one job, whose streams, files and client nodes count from 0. A `Workload` is that of many jobs;
its columns are those of `crates/simulator/src/workload.rs`.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields, replace
from enum import IntEnum
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Numbers = NDArray[np.uint32]
Bytes = NDArray[np.uint64]
Seconds = NDArray[np.float64]


class Kind(IntEnum):
    """The work of a step; the numbers are the order of the simulator's `StepKind`."""

    COMPUTE = 0
    BARRIER = 1
    CREATE = 2
    READ = 3
    WRITE = 4
    METADATA = 5
    REMOVE = 6


_TYPES: dict[str, type[np.generic]] = {
    "stream": np.uint32,
    "kind": np.uint8,
    "after_seconds": np.float64,
    "not_before_seconds": np.float64,
    "file": np.uint32,
    "offset": np.uint64,
    "bytes": np.uint64,
    "request_bytes": np.uint64,
    "depth": np.uint32,
}


@dataclass(frozen=True, slots=True, eq=False)
class Steps:
    """Steps as columns of one length; those of one stream stand in their order."""

    stream: Numbers
    """Stream of each step."""
    kind: NDArray[np.uint8]
    """Its `Kind`."""
    after_seconds: Seconds
    """Pause between the end of the stream's step before and this one, in seconds."""
    not_before_seconds: Seconds
    """Earliest begin, in seconds from the job's start."""
    file: Numbers
    """The file, where the step has one."""
    offset: Bytes
    """First byte of a read or write."""
    bytes: Bytes
    """Bytes of a read or write; operations of `METADATA`."""
    request_bytes: Bytes
    """Bytes of each request; 0 takes one request for each stripe."""
    depth: Numbers
    """Requests under way at once; 0 is all of the step."""

    def __len__(self) -> int:
        """Count the steps.

        Returns:
            The number of steps.
        """
        return len(self.stream)

    @staticmethod
    def of(count: int, **columns: ArrayLike) -> "Steps":
        """Make steps of columns.

        Args:
            count: Number of steps.
            columns: Columns by name, each with a value for every step or one for all; an absent one is 0.

        Raises:
            ValueError: A column has another length.
        """
        unknown = columns.keys() - _TYPES.keys()
        if unknown:
            raise ValueError(f"steps have no column {', '.join(sorted(unknown))}")
        made: dict[str, Any] = {}
        for name, kind in _TYPES.items():
            made[name] = np.array(np.broadcast_to(np.asarray(columns.get(name, 0)), (count,)), dtype=kind)
        return Steps(**made)

    @staticmethod
    def joined(parts: "Sequence[Steps]") -> "Steps":
        """Put steps behind each other.

        Returns:
            All steps.
        """
        if not parts:
            return Steps.of(0)
        return Steps(**{name: np.concatenate([getattr(part, name) for part in parts]) for name in _TYPES})

    def columns(self) -> dict[str, NDArray[Any]]:
        """List the columns.

        Returns:
            The columns by name, contiguous, in the order and types of the simulator's `Step`.
        """
        return {field.name: np.ascontiguousarray(getattr(self, field.name)) for field in fields(self)}


@dataclass(frozen=True, slots=True, eq=False)
class Work:
    """The work of one job; its streams, files and client nodes count from 0."""

    nodes: int
    """Client nodes that the job runs on."""
    stream_nodes: Numbers
    """Client node of each stream, below `nodes`."""
    file_bytes: Bytes
    """Bytes that each file holds before the run; 0 for a file that the job makes."""
    steps: Steps
    """The steps."""
    layouts: tuple[str | None, ...] = ()
    """Layout of each file in the spelling of `lfs setstripe`; one that names targets (`-o`) is kept to them, None is
    the scenario's. Empty where all are the scenario's."""
    homes: tuple[int | None, ...] = ()
    """Server that places each file, as the home of its folder; None spreads files evenly over the servers. Empty where
    all are spread."""

    @property
    def read_bytes(self) -> int:
        """Bytes that the job reads."""
        return int(self.steps.bytes[self.steps.kind == Kind.READ].sum())

    @property
    def written_bytes(self) -> int:
        """Bytes that the job writes."""
        return int(self.steps.bytes[self.steps.kind == Kind.WRITE].sum())

    @property
    def kept_bytes(self) -> int:
        """Bytes that the job's files hold at the end, those that are removed left out."""
        return int(_held(self.file_bytes, self.steps).sum())

    def placed_by(self, server: int) -> "Work":
        """Put all files into one folder.

        Args:
            server: The home of the folder.

        Returns:
            The work, all of whose files this server places.
        """
        return replace(self, homes=(server,) * len(self.file_bytes))


@dataclass(frozen=True, slots=True)
class Job:
    """A job, as its credential would prove it."""

    name: str
    user: str = "user"
    group: str = "group"
    nodes: int = 1
    priority: int = 1
    arrival_seconds: float = 0.0
    """Moment of its start, in seconds from the begin of the run."""


@dataclass(frozen=True, slots=True)
class SkippedLog:
    """A log that cannot be used and was left out."""

    path: Path
    reason: str
    """The sentence that would have been the error; it names the log."""


@dataclass(slots=True)
class Remarks:
    """Remarks about jobs, logs and traces, in the order in which they were made; one that is made twice counts once."""

    notes: dict[str, None] = field(default_factory=dict)
    """Sentences about logs and traces that tell only a part of their job, and about jobs that lack client nodes."""
    skipped: dict[SkippedLog, None] = field(default_factory=dict)
    """Logs that cannot be used and were left out."""

    def note(self, words: str) -> None:
        """Keep a sentence.

        Args:
            words: A sentence about a log or a trace that tells only a part of its job, or about a job that lacks client
                nodes.
        """
        self.notes[words] = None

    def skip(self, log: SkippedLog) -> None:
        """Keep the name of a log.

        Args:
            log: A log that was left out.
        """
        self.skipped[log] = None


@dataclass(frozen=True, slots=True, eq=False)
class Workload:
    """The jobs of a run and their steps."""

    jobs: tuple[Job, ...]
    stream_jobs: Numbers
    """Job of each stream."""
    stream_nodes: Numbers
    """Client node of each stream."""
    file_jobs: Numbers
    """Job of each file."""
    file_bytes: Bytes
    """Bytes that each file holds before the run."""
    layouts: tuple[str | None, ...]
    """Layout of each file; None is the scenario's."""
    steps: Steps
    homes: tuple[int | None, ...] = ()
    """Server that places each file; None spreads files evenly over the servers. Empty where all are spread."""
    notes: tuple[str, ...] = ()
    """Sentences about logs and traces that tell only a part of their job, and about jobs that lack client nodes."""
    skipped: tuple[SkippedLog, ...] = ()
    """Logs that cannot be used and were left out."""

    @staticmethod
    def of(work: Iterable[tuple[Job, Work]], *, nodes: int, remarks: Remarks | None = None) -> "Workload":
        """Put the work of jobs together.

        Each job runs on the client nodes that follow those of the job before, the first after the last.

        Args:
            nodes: Client nodes of the topology.
            remarks: Remarks about the logs and traces that the work was made of; None where there are none.
        """
        jobs: list[Job] = []
        stream_jobs, stream_nodes, file_jobs, file_bytes, steps = [], [], [], [], []
        layouts: list[str | None] = []
        homes: list[int | None] = []
        streams = files = first_node = 0
        for number, (job, part) in enumerate(work):
            jobs.append(job)
            stream_jobs.append(np.full(len(part.stream_nodes), number, dtype=np.uint32))
            stream_nodes.append(((part.stream_nodes.astype(np.uint64) + first_node) % nodes).astype(np.uint32))
            file_jobs.append(np.full(len(part.file_bytes), number, dtype=np.uint32))
            file_bytes.append(part.file_bytes)
            layouts.extend(part.layouts or [None] * len(part.file_bytes))
            homes.extend(part.homes or [None] * len(part.file_bytes))
            steps.append(_moved(part.steps, streams, files))
            streams += len(part.stream_nodes)
            files += len(part.file_bytes)
            first_node = (first_node + part.nodes) % nodes
        return Workload(
            jobs=tuple(jobs),
            stream_jobs=_joined(stream_jobs, np.uint32),
            stream_nodes=_joined(stream_nodes, np.uint32),
            file_jobs=_joined(file_jobs, np.uint32),
            file_bytes=_joined(file_bytes, np.uint64),
            layouts=tuple(layouts),
            steps=Steps.joined(steps),
            homes=tuple(homes),
            notes=tuple(remarks.notes) if remarks else (),
            skipped=tuple(remarks.skipped) if remarks else (),
        )

    def document(self, layout: str | None = None) -> dict[str, Any]:
        """Describe the workload without its steps.

        Args:
            layout: Layout of the files that have none of their own; None is the store's default.

        Returns:
            Values for JSON, in the shape of the simulator's `Workload` with no `steps`.
        """
        usual = _placement(layout)
        placements = {each: usual if each is None else _placement(each) for each in set(self.layouts)}
        files: list[dict[str, Any]] = [
            {"job": job, "bytes": count, "placement": placements[each]}
            for job, count, each in zip(self.file_jobs.tolist(), self.file_bytes.tolist(), self.layouts, strict=True)
        ]
        for file, home in zip(files, self.homes, strict=bool(self.homes)):
            if home is not None:
                file["home"] = home
        return {
            "jobs": [
                {
                    "name": job.name,
                    "user": job.user,
                    "group": job.group,
                    "nodes": job.nodes,
                    "priority": job.priority,
                    "arrival_seconds": job.arrival_seconds,
                }
                for job in self.jobs
            ],
            "streams": [
                {"job": job, "node": node}
                for job, node in zip(self.stream_jobs.tolist(), self.stream_nodes.tolist(), strict=True)
            ],
            "files": files,
            "steps": [],
        }

    def kept_bytes(self) -> NDArray[np.uint64]:
        """Count the bytes that each job's files hold at the end, those that are removed left out.

        Returns:
            The bytes, shape (jobs,).
        """
        kept = np.zeros(len(self.jobs), dtype=np.uint64)
        np.add.at(kept, self.file_jobs, _held(self.file_bytes, self.steps))
        return kept


def _held(file_bytes: Bytes, steps: Steps) -> Bytes:
    """Bytes that each file holds at the end; 0 for a file that is removed."""
    ends, sums = file_bytes.copy(), file_bytes.copy()
    wrote = steps.kind == Kind.WRITE
    files, counts = steps.file[wrote], steps.bytes[wrote]
    np.maximum.at(ends, files, steps.offset[wrote] + counts)
    np.add.at(sums, files, counts)
    # Bytes that are written twice are within the end, holes are not within the sum.
    held = np.minimum(ends, sums)
    held[steps.file[steps.kind == Kind.REMOVE]] = 0
    return held


def _placement(layout: str | None) -> Any:
    """A layout as the simulator's `Placement`."""
    if layout is None:
        return "usual"
    return {"named" if "-o" in layout.split() else "layout": layout}


def _moved(steps: Steps, streams: int, files: int) -> Steps:
    """Steps whose streams and files count from other numbers."""
    columns = steps.columns()
    columns["stream"] = columns["stream"] + np.uint32(streams)
    columns["file"] = columns["file"] + np.uint32(files)
    return Steps(**columns)


def _joined(parts: Sequence[NDArray[Any]], kind: type[np.generic]) -> NDArray[Any]:
    return np.concatenate(parts).astype(kind) if parts else np.zeros(0, dtype=kind)
