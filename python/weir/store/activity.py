"""The work of a store between two moments: rates of jobs, loads of devices, and the servers that did not answer."""

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from weir.store import answers
from weir.store.accounts import difference, merge
from weir.store.answers import Job, Status
from weir.store.control import Server, ask_all
from weir.store.decoding import encode
from weir.store.errors import StoreError


@dataclass(frozen=True)
class Device:
    """A target or a metadata service in one interval."""

    device: str
    load: float
    queued: int


@dataclass(frozen=True)
class Active:
    """A job in one interval."""

    job: Job
    """The job's entry for this interval alone."""
    seconds: float
    """Length of the interval."""

    @property
    def wait_seconds(self) -> float | None:
        """Mean time that a request waited for its turn; None where none was served."""
        return self.job.queue_wait_seconds_total / self.job.operations if self.job.operations else None

    def document(self) -> dict[str, Any]:
        """Describe the job.

        Returns:
            Values for JSON: the job's entry, and its rates a second.
        """
        rates = {
            "bytes_read_per_second": self.job.bytes_read / self.seconds,
            "bytes_written_per_second": self.job.bytes_written / self.seconds,
            "operations_per_second": self.job.operations / self.seconds,
            "device_seconds_per_second": self.job.device_seconds / self.seconds,
        }
        return {**encode(self.job), **rates, "queue_wait_seconds_mean": self.wait_seconds}


@dataclass(frozen=True)
class Interval:
    """The work between two samples."""

    seconds: float
    sharing: tuple[str, str] | None
    """Policy and scheduler; None where servers differ, or none answers."""
    up: list[int]
    """Numbers of the servers that answered."""
    silent: dict[int, StoreError]
    """Servers that did not answer, with the reason."""
    devices: list[Device]
    jobs: list[Active]
    """Jobs that were active or had operations."""

    def document(self) -> dict[str, Any]:
        """Describe the interval.

        Returns:
            Values for JSON.
        """
        policy, scheduler = self.sharing or (None, None)
        return {
            "interval_seconds": self.seconds,
            "policy": policy,
            "scheduler": scheduler,
            "servers": [
                *({"server": number, "up": True} for number in self.up),
                *({"server": number, "up": False, "error": error.message} for number, error in self.silent.items()),
            ],
            "devices": [asdict(device) for device in self.devices],
            "jobs": [job.document() for job in self.jobs],
        }


@dataclass
class Sample:
    """The servers' answers at one moment, by number."""

    time_seconds: float
    status: dict[int, Status] = field(default_factory=dict)
    jobs: dict[int, Sequence[Job]] = field(default_factory=dict)
    silent: dict[int, StoreError] = field(default_factory=dict)
    """Servers that did not answer, with the reason."""


def interval(before: Sample, after: Sample) -> Interval:
    """Compute the work between two samples.

    Args:
        before: The earlier sample.
        after: The later sample.

    Returns:
        Policy and scheduler, devices, and the jobs that were active or had operations.
    """
    since = []
    for number, jobs in after.jobs.items():
        # The work of a server that the first sample lacks is not known for this interval: it begins with the next one.
        earlier = before.jobs.get(number, jobs)
        restarted = number in before.status and before.status[number].boot != after.status[number].boot
        since.append(difference(jobs, [] if restarted else earlier))
    length = after.time_seconds - before.time_seconds
    sharings = sorted({(status.policy, status.scheduler) for status in after.status.values()})
    return Interval(
        seconds=length,
        sharing=sharings[0] if len(sharings) == 1 else None,
        up=list(after.status),
        silent=after.silent,
        devices=[
            device
            for number, status in after.status.items()
            for device in _devices(number, status, before.status.get(number))
        ],
        jobs=[Active(job, length) for job in merge(since) if job.active or job.operations > 0],
    )


def sample_of(servers: Sequence[Server]) -> Sample:
    """Ask servers for their states and jobs.

    Returns:
        The answers of those that gave both, and the reasons of the others.
    """
    sample = Sample(time.monotonic())
    answers = zip(servers, ask_all(servers, Server.status), ask_all(servers, Server.jobs), strict=True)
    for server, status, jobs in answers:
        if isinstance(status, StoreError):
            sample.silent[server.number] = status
        elif isinstance(jobs, StoreError):
            sample.silent[server.number] = jobs
        else:
            sample.jobs[server.number] = jobs
            sample.status[server.number] = status
    return sample


def _devices(number: int, status: Status, before: Status | None) -> list[Device]:
    """The devices of one server, each with the part of the interval, by the server's own clock, in which it was
    busy.
    """

    def devices(of: Status) -> dict[str, answers.Target | answers.Device]:
        return {**{target.target: target for target in of.targets}, f"{number}.metadata": of.metadata}

    earlier = before if before is not None and before.boot == status.boot else None
    elapsed = status.uptime_seconds - (earlier.uptime_seconds if earlier else 0.0)
    busy_before = {name: device.busy_seconds for name, device in devices(earlier).items()} if earlier else {}

    def load(name: str, busy_seconds: float) -> float:
        return min(1.0, (busy_seconds - busy_before.get(name, 0.0)) / elapsed) if elapsed > 0 else 0.0

    return [Device(name, load(name, device.busy_seconds), device.queued) for name, device in devices(status).items()]
