"""Phases of a job: stretches of one kind of work, made of windows."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from weir.report.facts import Kind, Phase

PHASES_MAX = 24
"""Most phases of a page: of more, those with the shortest pauses between them become one."""
_MOSTLY = 0.9
"""Part of the bytes from which on a window is one of reads, or of writes."""
_PAUSE_WINDOWS = 2.0
"""A longer pause ends a phase, in windows."""
_PAUSE_SECONDS = 1.0
"""A shorter pause does not."""


@dataclass(slots=True)
class Bucket:
    """The work of a job in a window, on all devices."""

    begin: float
    """Seconds from the job's begin."""
    seconds: float
    read_bytes: int = 0
    written_bytes: int = 0
    operations: int = 0
    """Requests that move bytes."""
    metadata: int = 0
    """Requests that move none."""
    waited_seconds: float = 0.0
    """Device time that others received, at the device with the longest wait."""
    request_seconds: float = 0.0
    """Time in requests, summed over requests."""

    @property
    def kind(self) -> Kind | None:
        """Its kind of work; None without any."""
        moved = self.read_bytes + self.written_bytes
        if not moved:
            return "metadata" if self.metadata else None
        if self.read_bytes >= _MOSTLY * moved:
            return "read"
        return "write" if self.written_bytes >= _MOSTLY * moved else "mixed"


Possible = Callable[[Phase], tuple[float | None, float | None]]
"""Says of a phase how many bytes a second its job was owed, and how many were possible."""


def phases_of(buckets: Iterable[Bucket], possible: Possible | None = None) -> tuple[Phase, ...]:
    """Join windows to phases.

    Args:
        buckets: The windows in the order of time; those without work are passed over.
        possible: Says what was possible in a phase; None where that is not known.
    """
    found: list[Phase] = []
    for bucket in buckets:
        kind = bucket.kind
        if kind is None:
            continue
        phase = _phase(bucket, kind)
        pause = max(_PAUSE_WINDOWS * bucket.seconds, _PAUSE_SECONDS)
        if found and found[-1].kind == kind and phase.begin - found[-1].end <= pause:
            found[-1] = _joined(found[-1], phase)
        else:
            found.append(phase)
    found = _fewer(found)
    return tuple(found if possible is None else [_with(phase, *possible(phase)) for phase in found])


def _phase(bucket: Bucket, kind: Kind) -> Phase:
    moved = bucket.read_bytes + bucket.written_bytes
    return Phase(
        begin=bucket.begin,
        end=bucket.begin + bucket.seconds,
        kind=kind,
        read_bytes=bucket.read_bytes,
        written_bytes=bucket.written_bytes,
        operations=bucket.operations if moved else bucket.metadata,
        waited_seconds=bucket.waited_seconds,
        achieved=moved / bucket.seconds if bucket.seconds > 0 else 0.0,
    )


def _joined(one: Phase, other: Phase) -> Phase:
    """One phase of two that follow each other."""
    end = max(one.end, other.end)
    moved = one.bytes + other.bytes
    greater = one if one.bytes >= other.bytes else other
    return replace(
        one,
        end=end,
        kind=one.kind if one.kind == other.kind else "mixed" if one.bytes and other.bytes else greater.kind,
        read_bytes=one.read_bytes + other.read_bytes,
        written_bytes=one.written_bytes + other.written_bytes,
        operations=one.operations + other.operations,
        waited_seconds=one.waited_seconds + other.waited_seconds,
        achieved=moved / (end - one.begin) if end > one.begin else 0.0,
    )


def _fewer(phases: Sequence[Phase]) -> list[Phase]:
    """At most `PHASES_MAX` phases."""
    pauses = [after.begin - before.end for before, after in pairwise(phases)]
    longest = set(sorted(range(len(pauses)), key=lambda place: -pauses[place])[: PHASES_MAX - 1])
    found: list[Phase] = []
    for place, phase in enumerate(phases):
        if found and place - 1 not in longest:
            found[-1] = _joined(found[-1], phase)
        else:
            found.append(phase)
    return found


def _with(phase: Phase, owed: float | None, possible: float | None) -> Phase:
    return replace(phase, owed=owed, possible=possible)
