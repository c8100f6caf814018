"""Facts about a job from recorded windows alone, as `weir interference record` and `weir run --observe` write them."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from weir.report.errors import ReportError
from weir.report.facts import SMALL_BYTES, Accesses, Facts, Promise, Target, Transfers
from weir.report.phases import Bucket, phases_of
from weir.report.traced import fastest

Row = Mapping[str, Any]


def facts_of(paths: Sequence[Path], run: str | None, window_seconds: float) -> Facts:
    """Take the facts of a run from its windows.

    Args:
        paths: The data sets, or their folders.
        run: Name of the run; None where there is one alone.
        window_seconds: Length of a window, which a data set does not tell.

    Raises:
        ReportError: No such run is there, or several are.
        InterferenceError: A data set cannot be read.
    """
    from weir.interference.windows import read_rows

    rows = _of_run(read_rows(paths), run, ", ".join(map(str, paths)))
    first = min(row["window"] for row in rows)
    last = max(row["window"] for row in rows)
    buckets = list(_buckets(rows, first, window_seconds))
    reads, writes = (_transfers(rows, way) for way in ("read", "write"))
    metadata = sum(_count(row, name) for row in rows for name in ("stats", "opens"))
    active = sum(bucket.seconds for bucket in buckets if bucket.kind is not None)
    return Facts(
        source=f"the windows in {', '.join(map(str, paths))}",
        job=str(rows[0]["run"]),
        user=None,
        program=str(rows[0]["workload"]),
        begin=first * window_seconds,
        seconds=(last + 1 - first) * window_seconds,
        is_store=any(str(row["server"]).count(".") == 1 for row in rows),
        promise=_slowed(rows, window_seconds),
        phases=phases_of(buckets, fastest(buckets)),
        possible_by="the fastest window of this run",
        targets=tuple(_targets(rows)),
        accesses=Accesses(
            reads=reads, writes=writes, metadata=metadata,
            metadata_seconds=sum(_number(row, "client_metadata_seconds") for row in rows),
        ),
        active_seconds=active,
        unknown=("windows know no files, and neither shares nor the jobs that were waited for",),
    )  # fmt: skip


def _of_run(rows: Sequence[Row], run: str | None, place: str) -> list[Row]:
    names = list(dict.fromkeys(str(row["run"]) for row in rows))
    if not names:
        raise ReportError(
            f"{place} has no windows", hint="`weir interference record` or `weir run --observe` writes some"
        )
    if run is None and len(names) > 1:
        raise ReportError(
            f"{place} has windows of {len(names)} runs", hint=f"name one of them as JOB, such as {names[-1]}"
        )
    chosen = names[0] if run is None else run
    found = [row for row in rows if str(row["run"]) == chosen]
    if not found:
        raise ReportError(f"{place} has no run {chosen!r}", hint=f"its runs are {', '.join(names[:8])}")
    return found


def _slowed(rows: Sequence[Row], window_seconds: float) -> Promise | None:
    """The time lost by the labels of the windows, where they have some: of slowdown s, a window lost 1 - 1/s."""
    by_window = {row["window"]: each for row in rows if (each := _number(row, "slowdown"))}
    if not by_window:
        return None
    lost = sum(window_seconds * (1.0 - 1.0 / max(each, 1.0)) for each in by_window.values())
    whole = window_seconds * len({row["window"] for row in rows})
    return Promise(None, None, None, device_seconds=whole - lost, waited_seconds=lost, lost_seconds=lost)


def _buckets(rows: Sequence[Row], first: int, window_seconds: float) -> Iterator[Bucket]:
    found: dict[int, Bucket] = {}
    for row in rows:
        bucket = found.setdefault(row["window"], Bucket((row["window"] - first) * window_seconds, window_seconds))
        bucket.read_bytes += _count(row, "read_bytes")
        bucket.written_bytes += _count(row, "written_bytes")
        bucket.operations += _count(row, "reads") + _count(row, "writes")
        bucket.metadata += _count(row, "stats") + _count(row, "opens")
    yield from (bucket for _, bucket in sorted(found.items()))


def _transfers(rows: Sequence[Row], way: str) -> Transfers:
    operations = small = moved = 0
    for row in rows:
        count, size = _count(row, f"{way}s"), _count(row, "read_bytes" if way == "read" else "written_bytes")
        operations, moved = operations + count, moved + size
        small += count if count and size / count < SMALL_BYTES else 0
    seconds = sum(_number(row, f"client_{way}_seconds") for row in rows)
    return Transfers(operations, moved, seconds, sized=operations, small=small)


def _targets(rows: Sequence[Row]) -> Iterator[Target]:
    sums: dict[tuple[str, bool], list[float]] = {}
    for row in rows:
        place = sums.setdefault((str(row["server"]), bool(row["is_metadata"])), [0.0] * 4)
        operations = sum(_count(row, name) for name in ("reads", "writes", "stats", "opens"))
        seconds = sum(_number(row, f"client_{way}_seconds") for way in ("read", "write", "metadata"))
        values = (operations, _count(row, "read_bytes"), _count(row, "written_bytes"), seconds)
        for column, value in enumerate(values):
            place[column] += value
    for (name, is_metadata), (number, read, written, time) in sorted(sums.items()):
        yield Target(name, is_metadata, int(number), int(read), int(written), time)


def _count(row: Row, name: str) -> int:
    return int(_number(row, f"client_{name}"))


def _number(row: Row, name: str) -> float:
    value = row.get(name)
    # A time that nobody counted is NaN.
    return float(value) if value is not None and value == value else 0.0
