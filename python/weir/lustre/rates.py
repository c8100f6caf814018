"""The rates between two readings of one server.

Counters begin anew when a target is mounted, a service is restarted or an administrator clears them. Only the count
since then is known, so this count is the increase. A target that the earlier reading lacks has no rates yet.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from weir.lustre.counters import Counter, Counters
from weir.lustre.histograms import IN_FLIGHT, IO_SIZE, IO_TIME, Histogram, Histograms
from weir.lustre.host import Processors
from weir.lustre.message import DiskIo, JobRates, NetworkRates, TargetRates
from weir.lustre.tree import Reading, TargetReading

JOBS_MAX = 16
"""Most jobs of a target in a message, so that messages stay small: the jobs that moved most bytes."""
_MICROSECOND = 1e-6
_MILLISECOND = 1e-3


@dataclass(frozen=True, slots=True)
class Rates:
    """The work of a server between two readings."""

    period_seconds: float
    cpu_fraction: float | None
    """Part of the processors' time that was neither idle nor a wait for a disk, from 0 to 1."""
    network: NetworkRates | None
    targets: Mapping[str, TargetRates]
    """Rates of each target, by its name."""


def rates(before: Reading, after: Reading) -> Rates | None:
    """Compute the rates between two readings.

    Args:
        before: The earlier reading.
        after: The later reading.

    Returns:
        The rates; None where no time passed, or the clock was set back.
    """
    period_seconds = after.time_seconds - before.time_seconds
    if period_seconds <= 0:
        return None
    return Rates(
        period_seconds,
        cpu_fraction(before.processors, after.processors),
        _network(before, after, period_seconds),
        {
            name: _target(before.targets[name], target, period_seconds)
            for name, target in after.targets.items()
            if name in before.targets
        },
    )


def cpu_fraction(before: Processors | None, after: Processors | None) -> float | None:
    """Compute the busy part of the processors' time.

    Args:
        before: The earlier times; None where they are not known.
        after: The later times; None where they are not known.

    Returns:
        The part from 0 to 1; None where it is not known.
    """
    if before is None or after is None:
        return None
    total = after.total_ticks - before.total_ticks
    busy = after.busy_ticks - before.busy_ticks
    # The kernel lets idle and iowait run backwards at times (proc(5)).
    return min(1.0, max(0.0, busy / total)) if total > 0 else None


def _network(before: Reading, after: Reading, period_seconds: float) -> NetworkRates | None:
    if before.network is None or after.network is None:
        return None
    earlier, later = before.network, after.network
    return NetworkRates(
        _increase(earlier.sent_bytes, later.sent_bytes) / period_seconds,
        _increase(earlier.received_bytes, later.received_bytes) / period_seconds,
        _increase(earlier.dropped_messages, later.dropped_messages) / period_seconds,
    )


def _target(before: TargetReading, after: TargetReading, period_seconds: float) -> TargetRates:
    earlier, later = before.counters, after.counters
    disk = _disk(before.histograms, after.histograms, period_seconds)
    if earlier is None or later is None:
        return TargetRates(disk=disk, jobs=_jobs(before, after, period_seconds))
    read, reads = _moved(earlier, later, "read_bytes")
    written, writes = _moved(earlier, later, "write_bytes")
    return TargetRates(
        read_bytes_per_second=read / period_seconds,
        write_bytes_per_second=written / period_seconds,
        reads_per_second=reads / period_seconds,
        writes_per_second=writes / period_seconds,
        service_seconds_per_second=_service(earlier, later, disk, period_seconds),
        disk=disk,
        jobs=_jobs(before, after, period_seconds),
    )


def _moved(before: Counters, after: Counters, name: str) -> tuple[int, int]:
    """The increase of a counter's total and of its samples. A counter that never counted is not in the file."""
    later = after.counters.get(name)
    if later is None:
        return 0, 0
    earlier = before.counters.get(name, Counter(0, later.unit, total=0))
    if before.started != after.started or later.samples < earlier.samples:
        earlier = Counter(0, later.unit, total=0)
    return _increase(earlier.total or 0, later.total or 0), later.samples - earlier.samples


def _service(before: Counters, after: Counters, disk: DiskIo | None, period_seconds: float) -> float | None:
    """Seconds that requests were in service, added up over all requests, for each second.

    Lustre counts these seconds from 2.12 on (`read` and `write`, in microseconds). In older versions the histogram of
    disk I/O times comes nearest.
    """
    timed = [after.counters[name] for name in ("read", "write") if name in after.counters]
    if any(counter.unit.startswith("usec") for counter in timed):
        microseconds = _moved(before, after, "read")[0] + _moved(before, after, "write")[0]
        return microseconds * _MICROSECOND / period_seconds
    if disk is not None and disk.milliseconds_mean is not None:
        return disk.ios_per_second * disk.milliseconds_mean * _MILLISECOND
    return None


def _jobs(before: TargetReading, after: TargetReading, period_seconds: float) -> tuple[JobRates, ...]:
    if before.jobs is None or after.jobs is None:
        return ()
    earlier = {job.job: job.counters for job in before.jobs}
    found = []
    for job in after.jobs:
        was = earlier.get(job.job, {})
        read, written = (_job_moved(was, job.counters, name) / period_seconds for name in ("read", "write"))
        if read + written > 0:
            found.append(JobRates(job.job, read, written))
    found.sort(key=lambda each: (-each.read_bytes_per_second - each.write_bytes_per_second, each.job))
    return tuple(found[:JOBS_MAX])


def _job_moved(before: Mapping[str, Counter], after: Mapping[str, Counter], name: str) -> int:
    """The bytes that a job moved, from `read_bytes`, or from `read` in old versions of Lustre; today `read` counts
    microseconds.
    """
    for key in (f"{name}_bytes", name):
        now = after.get(key)
        if now is not None and now.unit == "bytes":
            then = before.get(key)
            return _increase((then.total if then else 0) or 0, now.total or 0)
    return 0


def _disk(before: Histograms | None, after: Histograms | None, period_seconds: float) -> DiskIo | None:
    if before is None or after is None:
        return None

    def mean(name: str) -> tuple[int, float | None]:
        later = after.histograms.get(name)
        if later is None:
            return 0, None
        earlier = before.histograms.get(name, Histogram(later.unit, {}, {}))
        counts = [
            (bucket, _increase(was.get(bucket, 0), count))
            for was, now in ((earlier.reads, later.reads), (earlier.writes, later.writes))
            for bucket, count in now.items()
        ]
        total = sum(count for _, count in counts)
        return total, sum(bucket * count for bucket, count in counts) / total if total else None

    ios, bytes_mean = mean(IO_SIZE)
    return DiskIo(ios / period_seconds, bytes_mean, mean(IO_TIME)[1], mean(IN_FLIGHT)[1])


def _increase(before: int, after: int) -> int:
    """The increase of a counter. A counter that is smaller than before began anew from 0."""
    return max(0, after - before if after >= before else after)
