"""Client windows of Darshan logs whose accesses were traced one by one (DXT).

An access belongs to the window in which it ended, as a request of a store does. Bytes are divided among the targets of
the file's layout on Lustre; a file without one counts for one target. Darshan times the first open and the last close
of a file by each rank, so opens and closes are at least those, and attributes are not counted.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from weir.interference.errors import InterferenceError

if TYPE_CHECKING:
    from weir.tracing.darshan import Component, DarshanLog, LoggedFile, Segments

METADATA = "metadata"
"""Name of the metadata service, of which a log tells no number."""
ALONE = "files"
"""Name of the target of files without a layout."""
_WINDOWS_MAX = 1_000_000
"""Most windows of a log: eleven days in windows of a second."""

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]
Counts = dict[tuple[int, str], dict[str, float]]


def is_log(path: Path) -> bool:
    """Tell whether a file is meant as a log.

    Returns:
        Whether its name ends as those of Darshan's logs do.
    """
    return path.suffix == ".darshan"


def read_rows(paths: Sequence[Path], window_seconds: float) -> list[dict[str, Any]]:
    """Read the windows of logs.

    Args:
        paths: The logs.

    Returns:
        Rows of a data set: a run for each log, and a row for each window with accesses and each of its targets.

    Raises:
        InterferenceError: A log has no traced accesses, or lasts for too many windows.
        DarshanError: A log cannot be read.
    """
    from weir.tracing.darshan import DarshanError, read_logs

    rows: list[dict[str, Any]] = []
    for path, log in read_logs(paths, times=True):
        if isinstance(log, DarshanError):
            raise log
        rows += rows_of(log, window_seconds, path.stem)
    return rows


def rows_of(log: "DarshanLog", window_seconds: float, run: str) -> list[dict[str, Any]]:
    """Make the rows of a log.

    Args:
        log: The log, read with times.
        run: Name of the run.

    Returns:
        Rows of a data set.

    Raises:
        InterferenceError: The log has no traced accesses, or lasts for too many windows.
    """
    if not any(file.segments for file in log.files):
        raise InterferenceError(
            f"{log.path} has no traced accesses",
            hint="set the variable DXT_ENABLE_IO_TRACE, to 1, for the run that Darshan logs",
        )
    if (log.run.ended - log.run.started) / window_seconds > _WINDOWS_MAX:
        raise InterferenceError(f"{log.path} lasts for more than {_WINDOWS_MAX} windows", hint="give a longer `window`")
    counts: Counts = {}
    seconds: dict[int, float] = {}
    for file in log.files:
        for segments in file.segments:
            _count(segments, file.components, log.run.started, window_seconds, counts, seconds)
        _count_openings(file, log.run.started, window_seconds, counts)
    shared = {"run": run, "workload": log.run.program, "slowdown": None, "counted_by": "client"}
    return [
        {**shared, "window": number, "io_seconds": seconds.get(number, 0.0), "server": target, **counted}
        | {"is_metadata": target == METADATA}
        for (number, target), counted in sorted(counts.items())
    ]


def _count(
    segments: "Segments",
    components: "tuple[Component, ...]",
    started: float,
    window_seconds: float,
    counts: Counts,
    seconds: dict[int, float],
) -> None:
    """Count the accesses of a rank to a file."""
    offsets, lengths = np.array(segments.offsets, np.int64), np.array(segments.lengths, np.int64)
    starts, ends = np.array(segments.starts), np.array(segments.ends)
    usable = (offsets >= 0) & (lengths >= 0) & (offsets <= (1 << 62)) & (lengths <= (1 << 62)) & np.isfinite(ends)
    usable &= np.isfinite(starts) & (ends >= starts) & (np.abs(ends) < window_seconds * _WINDOWS_MAX)
    is_write = np.arange(len(offsets)) < segments.writes
    order = np.flatnonzero(usable)
    numbers = np.floor((started + ends[order]) / window_seconds).astype(np.int64)
    in_time = np.argsort(numbers, kind="stable")
    order, numbers = order[in_time], numbers[in_time]
    each, begins = np.unique(numbers, return_index=True)
    for number, chosen in zip(each.tolist(), np.split(order, begins[1:]), strict=True):
        seconds[number] = seconds.get(number, 0.0) + float((ends[chosen] - starts[chosen]).sum())
        for kind, of_kind in (("write", chosen[is_write[chosen]]), ("read", chosen[~is_write[chosen]])):
            if not len(of_kind):
                continue
            for target, touched, moved in divided(offsets[of_kind], lengths[of_kind], components):
                counted = counts.setdefault((number, target), {})
                for name, added in ((f"client_{kind}s", touched), (_BYTES[kind], moved)):
                    counted[name] = counted.get(name, 0.0) + added


_BYTES = {"read": "client_read_bytes", "write": "client_written_bytes"}


def _count_openings(file: "LoggedFile", started: float, window_seconds: float, counts: Counts) -> None:
    for access in file.accesses:
        for name, moment in (("client_opens", access.opened), ("client_closes", access.closed)):
            if 0 < moment < window_seconds * _WINDOWS_MAX:
                number = int((started + moment) // window_seconds)
                counted = counts.setdefault((number, METADATA), {})
                counted[name] = counted.get(name, 0.0) + 1.0


def divided(
    offsets: Integers, lengths: Integers, components: "Sequence[Component]"
) -> Iterable[tuple[str, float, float]]:
    """Divide accesses among the targets of a file's layout.

    Args:
        offsets: Begin of each access in bytes, shape (accesses,).
        lengths: Bytes of each access, shape (accesses,).
        components: The layout's components; without any, all bytes are those of one target.

    Yields:
        Name of each target that was touched, the number of accesses that touched it, and their bytes there.
    """
    known = [part for part in components if part.targets and part.stripe_bytes > 0]
    if not known:
        yield ALONE, float(len(offsets)), float(lengths.sum())
        return
    begin = 0
    for part in known:
        end = part.end_bytes if part.end_bytes is not None else np.iinfo(np.int64).max
        low, high = np.clip(offsets, begin, end), np.clip(offsets + lengths, begin, end)
        width = part.stripe_bytes * len(part.targets)
        for place, target in enumerate(part.targets):
            moved = _before(high, place, part.stripe_bytes, width) - _before(low, place, part.stripe_bytes, width)
            # An access of no bytes touches the target of its offset.
            at = (lengths == 0) & (offsets >= begin) & (offsets < end)
            at &= offsets % width // part.stripe_bytes == place
            touched = int(((moved > 0) | at).sum())
            if touched:
                yield f"OST{target:04x}", float(touched), float(moved.sum())
        begin = end


def _before(position: Integers, place: int, stripe_bytes: int, width: int) -> Integers:
    """Bytes below a position that lie on the target at a place of the stripe order. Stripes count from byte 0."""
    whole = position // width * stripe_bytes
    return whole + np.clip(position % width - place * stripe_bytes, 0, stripe_bytes)
