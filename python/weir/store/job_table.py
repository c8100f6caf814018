"""The jobs of a store for Python programs: one sequence, which a notebook shows as a table."""

from collections.abc import Sequence
from typing import overload

from weir.amounts import seconds, share_or_dash, size
from weir.html_table import html_table
from weir.store.accounts import difference, merge, worst
from weir.store.answers import Job
from weir.store.errors import StoreError

_HEADER = (
    *("job", "user", "nodes", "active", "read", "written"),
    *("device time", "owed", "received", "wait p99", "waits for"),
)


class JobTable(Sequence[Job]):
    """The jobs of a store at one moment, the greatest user of device time first; a notebook shows them as a table."""

    def __init__(self, tables: Sequence[Sequence[Job]]) -> None:
        """Merge the tables of servers.

        Args:
            tables: The job table of each server, by the servers' numbers.
        """
        self._tables = tuple(tuple(table) for table in tables)
        self._jobs = tuple(merge(self._tables))

    @overload
    def __getitem__(self, place: int) -> Job: ...

    @overload
    def __getitem__(self, place: slice) -> Sequence[Job]: ...

    def __getitem__(self, place: int | slice) -> Job | Sequence[Job]:
        """The job at a place, or the jobs of a slice."""
        return self._jobs[place]

    def __len__(self) -> int:
        """The number of jobs."""
        return len(self._jobs)

    def __repr__(self) -> str:
        """The names of the jobs."""
        return f"<jobs: {', '.join(job.job for job in self._jobs) or 'none'}>"

    def named(self, name: str) -> Job:
        """Find a job.

        Args:
            name: Name of the job; of several users' jobs of the name, the one with the most device time is found.

        Raises:
            StoreError: There is no such job.
        """
        for job in self._jobs:
            if job.job == name:
                return job
        known = ", ".join(job.job for job in self._jobs[:8]) or "none"
        raise StoreError(f"the store knows no job {name}", hint=f"its jobs are: {known}")

    def since(self, earlier: "JobTable") -> "JobTable":
        """Account for the time between two moments.

        Args:
            earlier: The jobs at the first moment, of the same servers.

        Returns:
            The jobs of this table, with the work, shares and waits since the first moment. The percentiles of waits
            stay those since the begin of a job.

        Raises:
            StoreError: The tables are of other servers.
        """
        if len(earlier._tables) != len(self._tables):
            raise StoreError(
                f"the earlier table is of {len(earlier._tables)} servers, and this one of {len(self._tables)}",
                hint="take both from one store, with no server that joined or left between",
            )
        return JobTable(
            [difference(after, before) for after, before in zip(self._tables, earlier._tables, strict=True)]
        )

    def _repr_html_(self) -> str:
        """The jobs as a table of HTML."""
        return html_table(f"{len(self)} jobs", _HEADER, [_row(job) for job in self])


def job_html(job: Job) -> str:
    """Show one job as HTML."""
    return html_table(f"Job {job.job}", _HEADER, [_row(job)])


def _row(job: Job) -> tuple[object, ...]:
    waited_for = worst(job)
    return (
        *(job.job, job.user, job.nodes, "yes" if job.active else "no"),
        *(size(job.bytes_read), size(job.bytes_written), seconds(job.device_seconds)),
        *(share_or_dash(job.share_owed), share_or_dash(job.share_received), seconds(job.queue_wait_seconds_p99)),
        f"{waited_for[0]} {seconds(waited_for[1])}" if waited_for else None,
    )
