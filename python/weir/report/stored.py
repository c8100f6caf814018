"""Facts about a job of a store, from the store's history."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from weir.history.levels import STATES_EVERY
from weir.history.reading import Cell, History, JobPast
from weir.report.errors import ReportError
from weir.report.facts import SMALL_BYTES, Accesses, Facts, Phase, Predicted, Promise, Target, Transfers, Wait
from weir.report.phases import Bucket, phases_of
from weir.store.observations import METADATA, JobKey

PAUSE_MILLISECONDS = 600_000
"""A longer time without work ends a run of a job whose name comes again."""
_WAITS_MAX = 2_000
"""Most waits of a page; of more, the longest are kept."""
_SECONDS_MIN = 1e-4
"""A shorter wait is none."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """A job in a stretch of time."""

    job: JobKey
    user: str
    since: int
    """Unix time in milliseconds."""
    until: int


def stretch_of(history: History, name: str, user: str | None, between: tuple[int, int] | None) -> Stretch:
    """Find a job of a history.

    Args:
        user: Its user's name; None where one user alone has a job of this name.
        between: Begin and end in Unix milliseconds; None for the last run of the job.

    Raises:
        ReportError: No such job is known, or several are.
    """
    found = [(key, whose) for key, whose in history.keys(name) if user is None or whose == user]
    if not found:
        whose = "" if user is None else f" of {user}"
        raise ReportError(
            f"the history {history.file} has no job {name!r}{whose}",
            hint="`weir jobs --since 1d` lists the jobs of the past; `weir record` has to run while a job does",
        )
    if len(found) > 1:
        users = ", ".join(sorted(whose for _, whose in found))
        raise ReportError(f"several users have a job {name!r}: {users}", hint="name one with `user`")
    ((key, whose),) = found
    span = between or history.last_stretch(key, PAUSE_MILLISECONDS)
    if span is None:
        raise ReportError(f"no work of the job {name!r} is in {history.file}", hint="was it removed with its age?")
    return Stretch(key, whose, *span)


def facts_of(history: History, stretch: Stretch, *, policy: str | None = None) -> Facts:
    """Take the facts of a job from a history.

    Args:
        policy: The policy where the history does not tell it.

    Raises:
        ReportError: Nothing is known of the job in that time.
    """
    cells = list(history.cells(stretch.since, stretch.until, stretch.job))
    past = next(
        (
            each
            for each in history.jobs(stretch.since, stretch.until)
            if (each.job, each.uid) == (stretch.job.job, stretch.job.uid)
        ),
        None,
    )
    if not cells or past is None:
        raise ReportError(
            f"no work of the job {stretch.job.job!r} is known in that time", hint="`weir jobs --since` shows the times"
        )
    begin = cells[0].begin
    buckets = list(_buckets(cells, begin))
    # The look at the devices after the job's end tells of what became slow just before.
    states = history.states(stretch.until + STATES_EVERY)
    targets = _targets(cells, states)
    in_force = policy or _policy(history, stretch)
    promise = _promise(past, cells, in_force)
    active = sum(bucket.seconds for bucket in buckets)
    return Facts(
        source=f"the history of the store, {history.file}",
        job=stretch.job.job,
        user=stretch.user,
        program="",
        begin=begin / 1000,
        seconds=max(cell.begin + cell.width for cell in cells) / 1000 - begin / 1000,
        nodes=past.nodes,
        is_store=True,
        promise=promise,
        phases=phases_of(buckets, _Capacity(states, promise.share_owed).of),
        possible_by="the expected cost of such requests, at all targets of the store together",
        waits=_waits(history, stretch, begin),
        targets=targets,
        accesses=_accesses(cells),
        under_way=sum(cell.request_seconds for cell in cells) / active if active else None,
        active_seconds=active,
        predicted=_predicted(history, stretch),
        unknown=tuple(_unknown(history, stretch, cells)),
    )


def _buckets(cells: Sequence[Cell], begin: int) -> Iterator[Bucket]:
    """The windows of a job in the order of time, all devices together."""
    bucket: Bucket | None = None
    at = -1
    for cell in cells:
        if bucket is None or cell.begin != at:
            if bucket is not None:
                yield bucket
            at, bucket = cell.begin, Bucket((cell.begin - begin) / 1000, cell.width / 1000)
        if not cell.device.endswith(METADATA):
            bucket.read_bytes += cell.read_bytes
            bucket.written_bytes += cell.written_bytes
            bucket.operations += cell.reads + cell.writes
        bucket.metadata += cell.metadata
        bucket.waited_seconds = min(max(bucket.waited_seconds, cell.waited_seconds), bucket.seconds)
        bucket.request_seconds += cell.request_seconds
    if bucket is not None:
        yield bucket


def _targets(cells: Iterable[Cell], states: Mapping[str, Mapping[str, Any]]) -> tuple[Target, ...]:
    sums: dict[str, list[float]] = {name: [0.0] * 5 for name in states}
    for cell in cells:
        place = sums.setdefault(cell.device, [0.0] * 5)
        counts = (cell.reads + cell.writes + cell.metadata, cell.read_bytes, cell.written_bytes)
        for column, value in enumerate((*counts, cell.device_seconds, cell.waited_seconds)):
            place[column] += value
    return tuple(_target(name, sums[name], states.get(name, {})) for name in sorted(sums))


def _target(name: str, sums: Sequence[float], state: Mapping[str, Any]) -> Target:
    operations, read, written, seconds, waited = sums
    fixed = [state.get(f"{way}_fixed_ns") for way in ("read", "write")]
    capacity = state.get("capacity_bytes")
    return Target(
        name=name,
        is_metadata=name.endswith(METADATA),
        operations=int(operations),
        read_bytes=int(read),
        written_bytes=int(written),
        seconds=seconds,
        waited_seconds=waited,
        fixed_seconds=max((each / 1e9 for each in fixed if each is not None), default=None),
        fill=state["used_bytes"] / capacity if capacity else None,
        is_slow=state.get("slow_since") is not None,
        is_failed=bool(state.get("is_failed")),
    )


def _promise(past: JobPast, cells: Iterable[Cell], policy: str | None) -> Promise:
    worst: dict[int, float] = {}
    for cell in cells:
        waited = min(cell.waited_seconds, cell.width / 1000)
        worst[cell.begin] = max(worst.get(cell.begin, 0.0), waited)
    return Promise(
        policy=policy,
        share_owed=past.share_owed,
        share_received=past.share_received,
        device_seconds=past.device_seconds,
        waited_seconds=past.waited_seconds,
        lost_seconds=sum(worst.values()),
    )


def _predicted(history: History, stretch: Stretch) -> Predicted | None:
    found = history.predictions(stretch.since, stretch.until, stretch.job)
    if not found:
        return None
    worst = max(found, key=lambda each: each.slowdown_max)
    by_job: Counter[str] = Counter()
    for each in found:
        if each.job and each.slowed:
            by_job[f"{each.job} of {each.user}"] += each.slowed
    responsible = next(iter(by_job.most_common(1)), ("", 0))[0]
    windows, slowed = sum(each.windows for each in found), sum(each.slowed for each in found)
    return Predicted(windows, slowed, max(worst.slowdown_max, 1.0), worst.basis, responsible)


def _policy(history: History, stretch: Stretch) -> str | None:
    """The policy that was in force at the end of the job."""
    found = [value for (_, subject), value in history.in_force(stretch.until).items() if subject == "policy"]
    return (found[0] or "").partition(" by ")[0] or None if found else None


@dataclass(frozen=True, slots=True)
class _Capacity:
    """The rates that the targets of a store reach together."""

    states: Mapping[str, Mapping[str, Any]]
    share: float | None

    def of(self, phase: Phase) -> tuple[float | None, float | None]:
        """Bytes a second for the requests of a phase: those that the job was owed, and all."""
        if not phase.bytes or not phase.operations:
            return None, None
        way = "read" if phase.read_bytes >= phase.written_bytes else "write"
        size = phase.bytes / phase.operations
        rates = [_rate(state, way, size) for name, state in self.states.items() if not name.endswith(METADATA)]
        known = [rate for rate in rates if rate is not None]
        if not known or len(known) < len(rates):
            return None, None
        together = sum(known)
        return (None if self.share is None else self.share * together), together


def _rate(state: Mapping[str, Any], way: str, size: float) -> float | None:
    """Bytes a second of a target for requests of a size; None where bytes cost nothing."""
    fixed, rate = state.get(f"{way}_fixed_ns"), state.get(f"{way}_rate")
    if fixed is None or not rate:
        return None
    return float(size / (fixed / 1e9 + size / rate))


def _waits(history: History, stretch: Stretch, begin: int) -> tuple[Wait, ...]:
    found = [
        Wait((wait.begin - begin) / 1000, wait.seconds, wait.job, wait.user)
        for wait in history.waits(stretch.since, stretch.until, stretch.job)
        if wait.seconds >= _SECONDS_MIN
    ]
    longest = sorted(found, key=lambda wait: -wait.seconds)[:_WAITS_MAX]
    return tuple(sorted(longest, key=lambda wait: wait.begin))


def _accesses(cells: Iterable[Cell]) -> Accesses:
    """The requests by direction. A window's requests at a device count as small where their mean is."""
    reads, writes = [0.0] * 4, [0.0] * 4
    metadata, metadata_seconds = 0, 0.0
    for cell in cells:
        moved = cell.reads + cell.writes
        metadata += cell.metadata
        if cell.device.endswith(METADATA):
            metadata_seconds += cell.request_seconds
            continue
        for sums, operations, count in (
            (reads, cell.reads, cell.read_bytes),
            (writes, cell.writes, cell.written_bytes),
        ):
            if operations:
                is_small = count / operations < SMALL_BYTES
                added = (operations, count, cell.request_seconds * operations / moved, operations * is_small)
                sums[:] = [one + other for one, other in zip(sums, added, strict=True)]
    return Accesses(
        reads=_transfers(reads), writes=_transfers(writes), metadata=metadata, metadata_seconds=metadata_seconds
    )


def _transfers(sums: Sequence[float]) -> Transfers:
    operations, count, seconds, small = sums
    return Transfers(int(operations), int(count), seconds, sized=int(operations), small=int(small))


def _unknown(history: History, stretch: Stretch, cells: Sequence[Cell]) -> Iterator[str]:
    gaps = history.gaps(cells[0].begin, min(stretch.until, cells[-1].begin + cells[-1].width))
    missing = sum(gap.end - gap.begin for gap in gaps) / 1000
    if missing > 0:
        yield f"{missing:.1f} s of servers are not known: nobody recorded them"
    if cells[0].width > history.window:
        yield f"the history has grown coarse: a window has {cells[0].width / 1000:.0f} s"
