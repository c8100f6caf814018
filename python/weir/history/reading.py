"""Questions to a history: the work, the waits and the promises of a stretch of time, and what is not known of it."""

import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from weir.history.database import FILE, VERSION
from weir.history.errors import HistoryError, NoHistoryError
from weir.history.tables import BASES, COST, FURTHER, OPERATIONS, PREDICTIONS
from weir.store.observations import JobKey
from weir.ways import check_closed

_HINT = "`weir record` keeps one while it runs"
_GAPS_MAX = 1000


@dataclass(frozen=True, slots=True)
class Gap:
    """A stretch of which a server's work is not known, in Unix milliseconds."""

    server: int
    begin: int
    end: int


@dataclass(slots=True)
class JobPast:
    """The history of a job in a stretch of time, on all devices."""

    job: str
    user: str
    uid: int
    group: str | None
    nodes: int | None
    priority: int | None
    read_bytes: int = 0
    written_bytes: int = 0
    operations: int = 0
    """Requests of all kinds that were completed."""
    request_seconds: float = 0.0
    """Time between the arrivals of its requests and their ends, summed over requests."""
    device_seconds: float = 0.0
    waited_seconds: float = 0.0
    """Device time that others received while the job had requests queued."""
    waited_seconds_max: float = 0.0
    """The same of the worst window at a device."""
    share_owed: float | None = None
    """None where no account is known, and under `fifo`."""
    share_received: float | None = None
    culprits: list[tuple[str, str, float]] = field(default_factory=list)
    """The jobs that it waited for, their users, and the seconds, the longest first."""


@dataclass(frozen=True, slots=True)
class Change:
    """A decision, as it was first seen."""

    at: int
    server: int | None
    subject: str
    value: str | None


@dataclass(frozen=True, slots=True)
class Cell:
    """The work of a job at a device in a bucket."""

    begin: int
    """Unix time in milliseconds."""
    width: int
    """Milliseconds of the bucket that are known; those of a coarse one may be fewer than its width."""
    job: JobKey
    device: str
    reads: int
    writes: int
    read_bytes: int
    written_bytes: int
    metadata: int
    """Requests that are no reads, no writes and no closes, which wait for no device."""
    under_way: int
    """Most requests at once in one window; 0 where the server did not tell."""
    request_seconds: float
    device_seconds: float
    waited_seconds: float


@dataclass(frozen=True, slots=True)
class Wait:
    """The wait of a job for another one in a bucket, on all devices."""

    begin: int
    """Unix time in milliseconds."""
    job: str
    """The other job; empty for those that the servers did not name."""
    user: str
    seconds: float


@dataclass(frozen=True, slots=True)
class PredictedWindows:
    """Windows of a job with a predicted slowdown, of one basis and one responsible job."""

    windows: int
    slowed: int
    """Windows in which a slowdown of `tables.SLOWED` or more was likely."""
    slowdown_max: float
    """The greatest likely slowdown of a window."""
    basis: str
    job: str
    """The job that was responsible most; empty where none was."""
    user: str


@dataclass(frozen=True, slots=True)
class JobWork:
    """The work of a job in a stretch of time, on all devices."""

    begin: int
    """Unix time in milliseconds."""
    job: str
    user: str
    device_seconds: float
    waited_seconds: float


@dataclass(frozen=True, slots=True)
class DeviceWork:
    """The work of a device in a stretch of time."""

    begin: int
    """Unix time in milliseconds."""
    device: str
    bytes: int
    busy_seconds: float
    known_seconds: float
    """Time that the device's server told."""


@dataclass(frozen=True, slots=True)
class Fill:
    """The bytes and the state of a target at a moment."""

    begin: int
    """Unix time in milliseconds."""
    device: str
    used_bytes: int
    capacity_bytes: int
    is_slow: bool
    is_failed: bool


class History:
    """A history that is read, also while a recorder writes it."""

    def __init__(self, folder: Path) -> None:
        """Open the history of a folder.

        Raises:
            NoHistoryError: There is none.
            HistoryError: It cannot be read.
            WayError: Another user could have put it there.
        """
        self.file = folder / FILE
        check_closed(folder)
        if not self.file.exists():
            raise NoHistoryError(f"there is no history in {folder}", hint=_HINT)
        try:
            self._connection = sqlite3.connect(f"{self.file.absolute().as_uri()}?mode=ro", uri=True, timeout=10.0)
            version = self._connection.execute("PRAGMA user_version").fetchone()[0]
        except (sqlite3.Error, UnicodeDecodeError) as error:
            raise HistoryError(f"cannot read {self.file}: {error}", hint="is it yours?") from error
        if version != VERSION:
            self._connection.close()
        if version == 0:
            # A recorder makes its tables at this moment.
            raise NoHistoryError(f"there is no history in {folder} yet", hint=_HINT)
        if version != VERSION:
            raise HistoryError(
                f"{self.file} is a history of version {version}, and this program reads version {VERSION}",
                hint="give another folder for the history",
            )
        self.window = int(next(iter(self._one("SELECT value FROM facts WHERE name = 'window'")), 0))

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def span(self) -> tuple[int, int] | None:
        """Find how far the history reaches.

        Returns:
            The first and the last moment that is known, in Unix milliseconds; None where nothing is.
        """
        first, last = self._rows("SELECT min(begin), max(begin + known_ms) FROM known")[0]
        return None if first is None else (first, last)

    def gaps(self, since: int, until: int) -> list[Gap]:
        """Find the stretches that are not known, of each server that the history knows.

        A coarse bucket that is known in part is a gap of the missing length at its end.

        Returns:
            The gaps by server and time, at most 1,000.
        """
        found: list[Gap] = []
        servers = [row[0] for row in self._rows("SELECT server FROM servers ORDER BY server")]
        for server in servers:
            reached = since
            rows = self._rows(
                "SELECT begin, begin + known_ms, level FROM known WHERE server = ? AND begin < ?"
                " AND begin + ? > ? ORDER BY begin",
                (server, until, 600_000, since),
            )
            for begin, end, _ in rows:
                if end <= since:
                    continue
                if begin > reached:
                    found.append(Gap(server, reached, begin))
                reached = max(reached, end)
            if reached < until:
                found.append(Gap(server, reached, until))
        return found[:_GAPS_MAX]

    def jobs(self, since: int, until: int) -> list[JobPast]:
        """Add up what is known of each job.

        Args:
            since: Begin in Unix milliseconds. A bucket counts where it begins in the stretch.
            until: End.

        Returns:
            The jobs, the greatest user of device time first; what has no job of its own comes last.
        """
        within = (since, until)
        jobs = dict(self._named_jobs())
        counts = ", ".join(f"sum({name})" for name in OPERATIONS)
        for number, *sums in self._rows(
            f"SELECT job, {counts}, sum(request_us), sum(device_us), sum(waited_us), max(waited_us_max)"
            " FROM work WHERE begin >= ? AND begin < ? GROUP BY job",
            within,
        ):
            past = jobs.setdefault(number, _further())
            by_name = dict(zip(OPERATIONS, sums, strict=False))
            past.read_bytes, past.written_bytes = by_name.pop("read_bytes"), by_name.pop("written_bytes")
            past.operations = sum(by_name.values())
            times = [each / 1e6 for each in sums[len(OPERATIONS) :]]
            past.request_seconds, past.device_seconds, past.waited_seconds, past.waited_seconds_max = times
        shares = self._shares(within)
        for number, (owed, received) in shares.items():
            past = jobs.setdefault(number, _further())
            past.share_owed, past.share_received = owed, received
        for number, culprit, seconds in self._rows(
            "SELECT job, culprit, sum(waited_us) / 1e6 AS waited FROM waits WHERE begin >= ? AND begin < ?"
            " GROUP BY job, culprit ORDER BY waited DESC",
            within,
        ):
            other = jobs.get(culprit)
            if number in jobs and other is not None and culprit != FURTHER:
                jobs[number].culprits.append((other.job, other.user, seconds))
        seen = [past for number, past in jobs.items() if past.operations or past.device_seconds or number in shares]
        return sorted(seen, key=lambda past: (past.job == "", -past.device_seconds, past.job, past.uid))

    def decisions(self, since: int, until: int) -> list[Change]:
        """List the decisions of a stretch of time.

        Returns:
            The decisions, the oldest first.
        """
        rows = self._rows(
            "SELECT at, server, subject, value FROM decisions WHERE at >= ? AND at < ? ORDER BY number", (since, until)
        )
        return [Change(*row) for row in rows]

    def in_force(self, at: int) -> dict[tuple[int | None, str], str | None]:
        """Find what was in force at a moment.

        Returns:
            Values by server and subject.
        """
        rows = self._rows(
            "SELECT server, subject, value FROM decisions WHERE number IN"
            " (SELECT max(number) FROM decisions WHERE at <= ? GROUP BY server, subject)",
            (at,),
        )
        return {(server, subject): value for server, subject, value in rows}

    def keys(self, name: str) -> list[tuple[JobKey, str]]:
        """Find the jobs of a name.

        Returns:
            Their keys, each with the name of the user; those of the job that was seen last come first.
        """
        rows = self._rows("SELECT job, uid, user FROM jobs WHERE job = ? ORDER BY last DESC", (name,))
        return [(JobKey(job, uid), user) for job, uid, user in rows]

    def last_stretch(self, job: JobKey, pause: int) -> tuple[int, int] | None:
        """Find the last stretch of time in which a job worked.

        Args:
            pause: Milliseconds without work that end a stretch.

        Returns:
            Its begin and end in Unix milliseconds; None where no work of the job is known.
        """
        begins = self._rows(
            "SELECT DISTINCT work.begin, known.known_ms FROM work JOIN jobs ON jobs.number = work.job"
            " JOIN known ON known.level = work.level AND known.begin = work.begin"
            " WHERE jobs.job = ? AND jobs.uid = ? ORDER BY work.begin DESC",
            job,
        )
        if not begins:
            return None
        first, end = begins[0][0], begins[0][0] + begins[0][1]
        for begin, width in begins:
            if first - (begin + width) > pause:
                break
            first = begin
        return first, end

    def waits(self, since: int, until: int, job: JobKey) -> Iterator[Wait]:
        """List the waits of a job in a stretch of time.

        Yields:
            The waits in the order of time, the longest of a bucket first.
        """
        others = dict(self._named_jobs())
        rows = self._rows(
            "SELECT begin, culprit, waited_us FROM waits WHERE begin >= ? AND begin < ? AND job ="
            " (SELECT number FROM jobs WHERE job = ? AND uid = ?) ORDER BY begin, waited_us DESC",
            (since, until, *job),
        )
        for begin, culprit, waited in rows:
            other = others.get(culprit, _further())
            yield Wait(begin, other.job, other.user, waited / 1e6)

    def cells(self, since: int, until: int, job: JobKey | None = None) -> Iterator[Cell]:
        """List the work of a stretch of time.

        Args:
            job: The job whose work is listed; None lists that of all jobs.

        Yields:
            The work of each job at each device, in the order of time.
        """
        names = dict(self._rows("SELECT number, device FROM device_names"))
        keys = {number: JobKey(past.job, past.uid) for number, past in self._named_jobs()}
        metadata = " + ".join(name for name in OPERATIONS[4:] if name != "closes")
        rows = self._connection.execute(
            "SELECT begin, level, job, device, reads, writes, read_bytes, written_bytes,"
            f" {metadata}, under_way_max, request_us, device_us, waited_us FROM work WHERE begin >= ? AND begin < ?"
            f"{'' if job is None else ' AND job = (SELECT number FROM jobs WHERE job = ? AND uid = ?)'}"
            " ORDER BY begin, level, job, device",
            (since, until, *(job or ())),
        )
        known = {
            (level, begin): most
            for level, begin, most in self._rows(
                "SELECT level, begin, max(known_ms) FROM known WHERE begin >= ? AND begin < ? GROUP BY level, begin",
                (since, until),
            )
        }
        for begin, level, number, device, *counts, request, device_time, waited in rows:
            if number in keys and device in names:
                width = known.get((level, begin), self.window)
                times = (request / 1e6, device_time / 1e6, waited / 1e6)
                yield Cell(begin, width, keys[number], names[device], *(*counts, *times))

    def predictions(self, since: int, until: int, job: JobKey) -> list[PredictedWindows]:
        """Find the slowdowns that were predicted of a job in a stretch of time.

        Returns:
            The predicted windows, those with most slowed ones first; none where nobody predicted.
        """
        # A history of an older program has no such table.
        if not self._rows("SELECT 1 FROM sqlite_master WHERE name = ?", (PREDICTIONS.name,)):
            return []
        jobs = {number: (past.job, past.user) for number, past in self._named_jobs()}
        rows = self._rows(
            "SELECT culprit, basis, sum(windows), sum(slowed) AS slowed, max(slowdown_milli_max) FROM predictions"
            " WHERE begin >= ? AND begin < ? AND job = (SELECT number FROM jobs WHERE job = ? AND uid = ?)"
            " GROUP BY culprit, basis ORDER BY slowed DESC, culprit, basis",
            (since, until, *job),
        )
        return [
            PredictedWindows(windows, slowed, most / 1000, BASES[basis], *jobs.get(culprit, ("", "")))
            for culprit, basis, windows, slowed, most in rows
        ]

    def states(self, at: int) -> dict[str, dict[str, Any]]:
        """Find the last known state of each device at a moment.

        Returns:
            Columns of `tables.STATES` by the names of devices.
        """
        columns = ("used_bytes", "capacity_bytes", "slow_since", "is_failed", *COST)
        rows = self._rows(
            f"SELECT device_names.device, {', '.join(columns)}, max(begin) FROM states"
            " JOIN device_names ON device_names.number = states.device WHERE begin <= ? GROUP BY states.device",
            (at,),
        )
        return {name: dict(zip(columns, values, strict=False)) for name, *values in rows}

    def job_work(self, since: int, until: int, width: int, most: int) -> list[JobWork]:
        """Add up the work of the jobs with most device time.

        Args:
            since: Begin in Unix milliseconds. A bucket counts where it begins in the stretch.
            until: End.
            width: Milliseconds that are added up, not less than the width of the buckets of that age.
            most: Number of jobs.

        Returns:
            The work in the order of time.
        """
        rows = self._rows(
            "SELECT begin - begin % ? AS at, jobs.job, jobs.user, sum(device_us) / 1e6, sum(waited_us) / 1e6"
            " FROM work JOIN jobs ON jobs.number = work.job WHERE begin >= ? AND begin < ? AND work.job IN"
            " (SELECT job FROM work WHERE begin >= ? AND begin < ? GROUP BY job ORDER BY sum(device_us) DESC LIMIT ?)"
            " GROUP BY at, work.job ORDER BY at",
            (width, since, until, since, until, most),
        )
        return [JobWork(*row) for row in rows]

    def device_work(self, since: int, until: int, width: int) -> list[DeviceWork]:
        """Add up the work of each device.

        Args:
            since: Begin in Unix milliseconds. A bucket counts where it begins in the stretch.
            until: End.
            width: Milliseconds that are added up, not less than the width of the buckets of that age.

        Returns:
            The work in the order of time.
        """
        known = {
            (begin, server): most
            for begin, server, most in self._rows(
                "SELECT begin - begin % ? AS at, server, sum(known_ms) FROM known WHERE begin >= ? AND begin < ?"
                " GROUP BY at, server",
                (width, since, until),
            )
        }
        rows = self._rows(
            "SELECT begin - begin % ? AS at, device_names.device, sum(read_bytes + written_bytes), sum(busy_us)"
            " FROM devices JOIN device_names ON device_names.number = devices.device"
            " WHERE begin >= ? AND begin < ? GROUP BY at, devices.device ORDER BY at",
            (width, since, until),
        )
        return [
            DeviceWork(at, device, moved, busy / 1e6, known.get((at, int(device.partition(".")[0])), 0) / 1000)
            for at, device, moved, busy in rows
        ]

    def fills(self, since: int, until: int, width: int) -> list[Fill]:
        """Find how full each target was, and whether it was slow or failed.

        Args:
            width: Milliseconds of which the last state counts.

        Returns:
            The fills in the order of time.
        """
        rows = self._rows(
            "SELECT max(begin), device_names.device, used_bytes, capacity_bytes, slow_since, is_failed FROM states"
            " JOIN device_names ON device_names.number = states.device"
            " WHERE begin >= ? AND begin < ? AND capacity_bytes IS NOT NULL"
            " GROUP BY begin - begin % ?, states.device ORDER BY 1",
            (since, until, width),
        )
        return [
            Fill(begin, device, used, capacity, slow_since is not None, bool(failed))
            for begin, device, used, capacity, slow_since, failed in rows
        ]

    def _shares(self, within: tuple[int, int]) -> dict[int, tuple[float | None, float | None]]:
        rows = self._rows(
            "SELECT job, sum(owed_us), sum(owing_us), sum(received_us), sum(contended_us) FROM promises"
            " WHERE begin >= ? AND begin < ? GROUP BY job",
            within,
        )
        return {
            job: (owed / owing if owing else None, received / contended if contended else None)
            for job, owed, owing, received, contended in rows
        }

    def _named_jobs(self) -> Iterator[tuple[int, JobPast]]:
        rows = self._rows("SELECT number, job, user, uid, grouping, nodes, priority FROM jobs")
        return ((number, JobPast(*traits)) for number, *traits in rows)

    def _one(self, statement: str) -> list[Any]:
        return [row[0] for row in self._rows(statement)]

    def _rows(self, statement: str, values: tuple[Any, ...] = ()) -> list[Any]:
        try:
            return self._connection.execute(statement, values).fetchall()
        except (sqlite3.Error, UnicodeDecodeError) as error:
            raise HistoryError(f"cannot read {self.file}: {error}", hint="is it a history, and whole?") from error


def _further() -> JobPast:
    """The sums of jobs that have no rows of their own."""
    return JobPast("", "", -1, None, None, None)
