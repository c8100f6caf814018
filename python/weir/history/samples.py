"""One turn of a recorder: rows of the answers of all servers."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from weir.history.levels import Level
from weir.history.tables import (
    BASES,
    DEVICES,
    FURTHER,
    KNOWN,
    OPERATIONS,
    PREDICTIONS,
    PROMISES,
    SLOWED,
    STATES,
    WAITS,
    WORK,
    Table,
)
from weir.store.answers import Cost, Job, Lease, Status
from weir.store.observations import METADATA, JobKey, ObservedDevice, ObservedJob, Window
from weir.store.predictions import Predictions, likely_slowdown

Row = tuple[object, ...]
Decisions = dict[tuple[int | None, str], str | None]
"""What is in force, by server and subject; the server None stands for the whole store."""
FINDING = "finding "
"""Begin of the subjects of findings, which have no value once they are over."""


@dataclass(frozen=True, slots=True)
class JobTraits:
    """The facts about a job that a policy may use. None stands for facts that a window lacks."""

    user: str
    group: str | None = None
    nodes: int | None = None
    priority: int | None = None


@dataclass(frozen=True, slots=True)
class Decision:
    """A decision, as it was first seen.

    Attributes:
        at: Unix time in milliseconds.
        server: Number of the server; None is the whole store.
        subject: What was decided, such as `policy`.
        value: What is in force since; None is nothing.
    """

    at: int
    server: int | None
    subject: str
    value: str | None


@dataclass(slots=True)
class Sample:
    """Rows of one turn.

    Attributes:
        at: Unix time in milliseconds.
        window: Length of the store's windows in milliseconds.
        rows: Rows by table, with a `JobKey` and the name of a device in place of their numbers.
        jobs: Traits of the jobs in the rows.
        reached: Last window of each server.
        decisions: Decisions that were seen.
    """

    at: int
    window: int
    rows: dict[Table, list[Row]] = field(default_factory=dict)
    jobs: dict[JobKey, JobTraits] = field(default_factory=dict)
    reached: dict[int, int] = field(default_factory=dict)
    decisions: list[Decision] = field(default_factory=list)

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to keep."""
        return not (self.rows or self.decisions)

    def add_windows(self, number: int, at_servers: Iterable[Window], known: Mapping[int, int]) -> None:
        """Add a window at each server.

        The window in which a server ended is not told, so it is a gap, also where the server started in it again.

        Args:
            known: Last window of each server that the history has: earlier ones are passed over.
        """
        for window in at_servers:
            if not window.devices:
                continue
            server = int(window.devices[0].device.partition(".")[0])
            last = max(known.get(server, 0), self.reached.get(server, 0))
            if number <= last:
                continue
            begin = number * self.window
            if window.is_whole or number > last + 1:
                self._put(KNOWN, (0, begin, server, self.window))
            for device in window.devices:
                self._put(DEVICES, (0, begin, device.device, *_device_values(device)))
            for line in window.jobs:
                self._add_line(begin, line)
            self.reached[server] = number

    def add_promises(self, since: Iterable[Job], begin: int, span: int, levels: Sequence[Level]) -> None:
        """Add the accounts of a server for the time since the last turn.

        Args:
            since: Accounts for that time, as `weir.store.accounts.difference` makes them.
            begin: Begin of that time in Unix milliseconds.
            span: Its length in milliseconds. An account of more than a bucket belongs to a coarser level.
            levels: The levels of the history.
        """
        # Two turns are a little more than a window apart now and then.
        level = next((number for number, each in enumerate(levels) if span < 2 * each.width), len(levels) - 1)
        end = begin + span
        bucket = end - end % levels[level].width
        for job in since:
            key = JobKey(job.job, job.uid)
            values = (
                job.operations,
                *(
                    _microseconds(each)
                    for each in (
                        job.contended_seconds,
                        job.owing_seconds,
                        job.owed_seconds,
                        job.received_seconds,
                        job.charged_seconds,
                        job.queue_wait_seconds_total,
                    )
                ),
            )
            if any(values):
                self.jobs[key] = JobTraits(job.user, job.group, job.nodes, job.priority)
                self._put(PROMISES, (level, bucket, key, *values))

    def add_state(self, status: Status, level: int, width: int) -> None:
        """Add the state of a server's devices.

        Args:
            level: Level of the rows.
            width: Width of its buckets.
        """
        bucket = self.at - self.at % width
        for target in status.targets:
            slow = None if target.slow_since is None else round(target.slow_since * 1000)
            values = (target.used_bytes, target.capacity_bytes, slow, int(target.trouble is not None))
            self._put(STATES, (level, bucket, target.target, *values, *_cost_values(target.cost)))
        name = f"{status.server}{METADATA}"
        self._put(STATES, (level, bucket, name, None, None, None, 0, *_cost_values(status.metadata.cost)))

    def add_predictions(self, told: Predictions) -> None:
        """Add the predictions of a window: the likely slowdown of each job in this window."""
        begin = told.window * self.window
        for job in told.jobs:
            slowdown = likely_slowdown(job.horizons[:1])
            if slowdown is None:
                continue
            key, culprit = JobKey(job.job, job.uid), next(iter(job.responsible), None)
            self.jobs.setdefault(key, JobTraits(job.user))
            responsible: JobKey | int = FURTHER
            if culprit is not None:
                responsible = JobKey(culprit.job, culprit.uid)
                self.jobs.setdefault(responsible, JobTraits(culprit.user))
            basis = BASES.index(job.basis) if job.basis in BASES else FURTHER
            counts = (1, int(slowdown >= SLOWED), round(slowdown * 1000))
            self._put(PREDICTIONS, (0, begin, key, responsible, basis, *counts))

    def add_decisions(self, now: Decisions, before: Decisions) -> None:
        """Add what differs from what was in force before.

        Args:
            now: What is in force, of the servers that answered.
            before: What was in force; it is brought up to date.
        """
        for (server, subject), value in sorted(now.items(), key=lambda each: (each[0][0] or -1, each[0][1])):
            if (server, subject) not in before or before[server, subject] != value:
                self.decisions.append(Decision(self.at, server, subject, value))
                before[server, subject] = value

    def add_findings(self, now: Mapping[str, str], before: Decisions) -> None:
        """Add findings that are new, and those that are over.

        Args:
            now: Values of all findings by subject.
            before: What was in force; it is brought up to date.
        """
        was = [subject for (server, subject), value in before.items() if server is None and value is not None]
        over = [subject for subject in was if subject.startswith(FINDING) and subject not in now]
        self.add_decisions({(None, subject): now.get(subject) for subject in (*now, *over)}, before)

    def _add_line(self, begin: int, line: ObservedJob) -> None:
        key = JobKey(line.job, line.uid)
        self.jobs.setdefault(key, JobTraits(line.user))
        waited = [(JobKey(other.job, other.uid), other.user, _microseconds(other.seconds)) for other in line.waited_for]
        further = _microseconds(line.waited_for_others_seconds)
        waited_total = sum(each for _, _, each in waited) + further
        counts = tuple(getattr(line, name) for name in OPERATIONS)
        times = (_microseconds(line.request_seconds), _microseconds(line.device_seconds), waited_total)
        maxima = (line.read_bytes + line.written_bytes, *times, line.under_way_max)
        self._put(WORK, (0, begin, key, line.device, *counts, *times, *maxima))
        for other, user, microseconds in waited:
            self.jobs.setdefault(other, JobTraits(user))
            self._put(WAITS, (0, begin, key, other, microseconds, microseconds))
        if further:
            self._put(WAITS, (0, begin, key, FURTHER, further, further))

    def _put(self, table: Table, row: Row) -> None:
        self.rows.setdefault(table, []).append(row)


def in_force(server: int, lease: Lease | None, status: Status | None) -> Decisions:
    """Describe what a server follows.

    Args:
        lease: The sharing in force; None where the caller may not ask for it.
        status: Its state, where it was asked for.

    Returns:
        Values by subject.
    """
    found: Decisions = {}
    if lease is not None:
        found[server, "policy"] = f"{lease.policy} by {lease.scheduler}"
        found[server, "lease"] = _lease_words(lease) if lease.is_leased else None
    elif status is not None:
        found[server, "policy"] = f"{status.policy} by {status.scheduler}"
    if status is not None:
        found |= {
            (server, "allocator"): status.allocator,
            (server, "server"): status.state,
            (server, "start"): status.boot,
        }
        found |= {(server, f"target {target.target}"): target.state for target in status.targets}
    return found


def _lease_words(lease: Lease) -> str:
    parts = []
    for job in lease.jobs:
        terms = [f"{name} {value:g}" for name, value in (("weight", job.weight), ("limit", job.limit)) if value]
        terms += [f"avoids {','.join(job.avoid)}"] if job.avoid else []
        parts.append(f"{job.job} ({job.uid}): {', '.join(terms) or 'as usual'}")
    return "; ".join(parts) or "the policy alone"


def _device_values(device: ObservedDevice) -> tuple[int, ...]:
    sector, milli = 512, 1000
    busy, queued = round(device.busy_milliseconds.sum * milli), round(device.queued_milliseconds.sum * milli)
    return (
        round(device.reads.sum),
        round(device.writes.sum),
        round(device.read_sectors.sum * sector),
        round(device.written_sectors.sum * sector),
        round(device.read_milliseconds.sum * milli),
        round(device.write_milliseconds.sum * milli),
        busy,
        queued,
        busy,
        queued,
    )


def _cost_values(cost: Cost) -> tuple[int | None, ...]:
    nano = 1e9
    return (
        round(cost.read.fixed_seconds * nano),
        cost.read.bytes_per_second,
        round(cost.write.fixed_seconds * nano),
        cost.write.bytes_per_second,
    )


def _microseconds(seconds: float) -> int:
    return round(seconds * 1e6)
