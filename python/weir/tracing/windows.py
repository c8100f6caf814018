"""Windows in traces: the operations on a store that each process of a run counted, by device and stretch of time."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from weir.tracing.files import TracedProcess, TraceError, decoded

if TYPE_CHECKING:
    from weir._core import ClientLine, TraceWindows

_WINDOW_SECONDS = (0.1, 60.0)
"""Shortest and longest window that clients count."""
_NUMBER_MAX = 1 << 53
"""Largest number of a window, which a JSON number has exactly."""


@dataclass(frozen=True, slots=True)
class TracedWindows:
    """The windows of a job, as one process or several processes counted them."""

    store: int
    """Number of the store, which is the same in all traces of it."""
    job: str
    """Name of the job."""
    uid: int
    """Number of the job's user."""
    window_seconds: float
    """Length of a window."""
    lines: "tuple[ClientLine, ...]"
    """Operations by window and device, in this order."""
    missed_windows: int
    """Records of windows that were not written, because a trace had no more room for them."""
    missed_operations: int
    """Operations in no window, because a process used too many devices at once, or its clock was set back far."""


def windows_of(traced: TracedProcess, *, note: Callable[[str], None]) -> TracedWindows | None:
    """Read the windows of a process.

    Args:
        note: Called with a sentence for each loss.

    Returns:
        The windows; None where the process counted no operations.

    Raises:
        TraceError: The trace has changed and cannot be read any more, or has windows that no process makes.
        OSError: The trace cannot be opened.
    """
    from weir._core import trace_windows

    found: TraceWindows | None = decoded(traced.path, trace_windows)
    if found is None:
        return None
    shortest, longest = _WINDOW_SECONDS
    last = max((line["window"] for line in found["lines"]), default=0)
    if not found["job"] or not shortest <= found["window_seconds"] <= longest or last >= _NUMBER_MAX:
        raise TraceError(
            f"the windows in {traced.path} are none that Weir counts: the job is {found['job']!r}, the length "
            f"{found['window_seconds']:g} s, the last number {last}",
            hint="remove the trace, or record the run again",
        )
    if found["missed_windows"]:
        note(f"{traced.path}: {found['missed_windows']} records of windows are missing: the trace had no more room")
    if found["missed_operations"]:
        note(
            f"{traced.path}: {found['missed_operations']} operations are in no window: too many devices were in use, "
            "or the clock was set back"
        )
    return TracedWindows(
        store=found["store"],
        job=found["job"],
        uid=found["uid"],
        window_seconds=found["window_seconds"],
        lines=tuple(found["lines"]),
        missed_windows=found["missed_windows"],
        missed_operations=found["missed_operations"],
    )


def summed(parts: Iterable[TracedWindows]) -> list[TracedWindows]:
    """Add the windows of several processes up.

    Args:
        parts: Windows of processes; they are taken one after the other, and none is kept.

    Returns:
        One for each job, store and length of windows, in this order.
    """
    known: dict[tuple[str, int, int, float], TracedWindows] = {}
    lines: dict[tuple[str, int, int, float], dict[tuple[int, str], ClientLine]] = {}
    for part in parts:
        key = (part.job, part.uid, part.store, part.window_seconds)
        whole = known.get(key) or replace(part, lines=(), missed_windows=0, missed_operations=0)
        known[key] = replace(
            whole,
            missed_windows=whole.missed_windows + part.missed_windows,
            missed_operations=whole.missed_operations + part.missed_operations,
        )
        of_job = lines.setdefault(key, {})
        for line in part.lines:
            place = (line["window"], line["device"])
            of_job[place] = _sum(of_job[place], line) if place in of_job else line
    return [
        replace(whole, lines=tuple(line for _, line in sorted(lines[key].items(), key=lambda item: item[0])))
        for key, whole in sorted(known.items())
    ]


def _sum(one: "ClientLine", other: "ClientLine") -> "ClientLine":
    return {
        **one,
        "reads": one["reads"] + other["reads"],
        "writes": one["writes"] + other["writes"],
        "read_bytes": one["read_bytes"] + other["read_bytes"],
        "written_bytes": one["written_bytes"] + other["written_bytes"],
        "stats": one["stats"] + other["stats"],
        "opens": one["opens"] + other["opens"],
        "closes": one["closes"] + other["closes"],
        "others": one["others"] + other["others"],
        "read_seconds": one["read_seconds"] + other["read_seconds"],
        "write_seconds": one["write_seconds"] + other["write_seconds"],
        "metadata_seconds": one["metadata_seconds"] + other["metadata_seconds"],
    }
