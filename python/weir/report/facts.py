"""Facts about a job's I/O. Each source knows a part of them; the other parts are None, empty, or 0 of 0."""

from dataclasses import dataclass, field
from typing import Literal

SMALL_BYTES = 1 << 20
"""An access below is small, as in Drishti (`small_bytes`)."""

Kind = Literal["read", "write", "mixed", "metadata"]


@dataclass(frozen=True, slots=True)
class Transfers:
    """Reads or writes, of all processes together."""

    operations: int = 0
    bytes: int = 0
    seconds: float = 0.0
    """Time in them, summed over processes."""
    sized: int = 0
    """Operations whose size is known."""
    small: int = 0
    """Operations below `SMALL_BYTES`, of those whose size is known."""
    placed: int = 0
    """Operations of which it is known whether they follow the one before."""
    astray: int = 0
    """Operations that begin before the end of the one before, of those of which that is known."""
    apart: int = 0
    """Operations that begin anywhere but at that end; 0 where that is not known."""


@dataclass(frozen=True, slots=True)
class Accesses:
    """The accesses of a job, all files together."""

    reads: Transfers = Transfers()
    writes: Transfers = Transfers()
    alignable: int = 0
    """Reads and writes whose offset is known."""
    unaligned: int = 0
    """Accesses with a known place that begin at no multiple of a block."""
    metadata: int = 0
    """Calls that move no bytes and that some storage hears of."""
    metadata_seconds: float = 0.0
    """Time in them, summed over processes."""
    syncs: int | None = None
    """Calls that make bytes durable."""
    streamed_bytes: int | None = None
    """Bytes that went through streams of the C library."""
    independent: int = 0
    """Reads and writes of MPI-IO that each process made alone."""
    collective: int = 0
    """Reads and writes of MPI-IO that processes made together."""
    is_exact: bool = False
    """Whether each call was counted; else sizes are means of windows."""


@dataclass(frozen=True, slots=True)
class File:
    """A file that the job used."""

    path: str
    size_bytes: int = 0
    read_bytes: int = 0
    written_bytes: int = 0
    operations: int = 0
    small: int = 0
    unaligned: int = 0
    astray: int = 0
    processes: int = 1
    opens: int = 0
    """Times that it was opened to be written, or was read or written between an open and a close."""
    targets: tuple[str, ...] = ()
    """Targets of its layout; empty where they are not known."""
    slowest_seconds: float = 0.0
    """Time of its slowest process in reads and writes; 0 where it is not known."""
    mean_seconds: float = 0.0
    """Mean of that time over its processes."""


@dataclass(frozen=True, slots=True)
class Target:
    """The job's work at a target of the store, or at its metadata."""

    name: str
    is_metadata: bool = False
    operations: int = 0
    read_bytes: int = 0
    written_bytes: int = 0
    seconds: float = 0.0
    """Time that the target worked for the job; of requests, where only the client counted."""
    waited_seconds: float = 0.0
    """Time that the target worked for others while the job had requests queued."""
    fixed_seconds: float | None = None
    """Expected time of a request beside that of its bytes."""
    fill: float | None = None
    """Used part of its room."""
    is_slow: bool = False
    """Whether the store found that it became slow."""
    is_failed: bool = False

    @property
    def bytes(self) -> int:
        """Bytes moved."""
        return self.read_bytes + self.written_bytes


@dataclass(frozen=True, slots=True)
class SlowTarget:
    """A target that a log shows to be far slower than the others."""

    name: str
    bytes_per_second: float
    usual_bytes_per_second: float
    lost_seconds: float


@dataclass(frozen=True, slots=True)
class Promise:
    """The shares and times that a policy owed a job, and those that the job received."""

    policy: str | None
    share_owed: float | None
    """Part of the contended device time that the policy owed the job; None under `fifo`, and where it is not known."""
    share_received: float | None
    device_seconds: float
    waited_seconds: float
    """Device time that others received while the job had requests queued, at all devices together."""
    lost_seconds: float
    """The same at the worst device of each window: at most so long did the job stand still for others."""


@dataclass(frozen=True, slots=True)
class Wait:
    """A stretch in which the job waited for another one."""

    begin: float
    """Seconds from the job's begin."""
    seconds: float
    job: str
    user: str


@dataclass(frozen=True, slots=True)
class Phase:
    """A stretch of one kind of work. Times are in seconds from the job's begin."""

    begin: float
    end: float
    kind: Kind
    read_bytes: int
    written_bytes: int
    operations: int
    waited_seconds: float
    achieved: float
    """Bytes a second."""
    owed: float | None = None
    """Bytes a second that all targets together have for such requests, times the job's share; None where not known."""
    possible: float | None = None
    """Bytes a second that all targets together have for such requests."""

    @property
    def bytes(self) -> int:
        """Bytes moved."""
        return self.read_bytes + self.written_bytes


@dataclass(frozen=True, slots=True)
class Predicted:
    """The store's predictions for a job while the job ran."""

    windows: int
    """Windows with a prediction."""
    slowed: int
    """Number of windows in which a slowdown of two or more was likely."""
    worst: float
    """Least slowdown of the worst class that was likely."""
    basis: str
    responsible: str
    """The job that was responsible most often; empty where none was."""


@dataclass(frozen=True, slots=True)
class Facts:
    """All that is known of a job."""

    source: str
    """The source of the facts, in words."""
    job: str
    user: str | None
    program: str
    begin: float
    """Unix time."""
    seconds: float
    processes: int | None = None
    nodes: int | None = None
    is_store: bool = False
    """Whether its files lay on a store of Weir."""
    promise: Promise | None = None
    phases: tuple[Phase, ...] = ()
    possible_by: str = ""
    """The meaning of `Phase.possible`, in words."""
    waits: tuple[Wait, ...] = ()
    targets: tuple[Target, ...] = ()
    """Targets that the store has, also those that the job did not use."""
    slow_targets: tuple[SlowTarget, ...] = ()
    files: tuple[File, ...] = ()
    accesses: Accesses = Accesses()
    under_way: float | None = None
    """Requests at once, on average over the time in which there were any."""
    active_seconds: float = 0.0
    """Time in which the job had requests or calls under way; 0 where it is not known."""
    predicted: Predicted | None = None
    busiest_part: float | None = None
    """Part of the bytes that the busiest of several ranks moved; None where it is not known, or there is one rank."""
    unknown: tuple[str, ...] = field(default=())
    """The missing facts, in sentences."""

    @property
    def read_bytes(self) -> int:
        """Bytes read."""
        return self.accesses.reads.bytes

    @property
    def written_bytes(self) -> int:
        """Bytes written."""
        return self.accesses.writes.bytes

    @property
    def processes_at_once(self) -> float:
        """Processes that are in calls at once, over which times of calls are summed."""
        return max(self.processes or 1, self.under_way or 1.0)
