"""`weir top`: the present work of a store's jobs, interval by interval."""

import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import click

from weir.cli.asking import servers_up, warn_of_silence
from weir.cli.errors import FAILED
from weir.cli.output import bold, output_option, share, sharing_name, show, table_lines
from weir.cli.parameters import Number
from weir.plain_text import plain
from weir.store.errors import StoreError
from weir.store.home import Home
from weir.store.observations import METADATA

if TYPE_CHECKING:
    from weir.cli.top_screen import Picture, View
    from weir.store import answers
    from weir.store.answers import Job, Status
    from weir.store.control import Server

_HEADER = (
    "JOB",
    "USER",
    "NODES",
    "READ/S",
    "WRITTEN/S",
    "OP/S",
    "DEVICE",
    "OWED",
    "RECEIVED",
    "WAIT",
    "WAITS FOR",
)
_NAMES = 2
"""Columns of names, before those of figures."""
_DEVICES_LISTED_MAX = 8
"""Most devices listed one by one, as many as fit a line; of more the mean and the busiest are shown."""
_FIRST_COLUMN = _HEADER.index("DEVICE")
"""The column by which jobs are sorted at first."""


@dataclass(frozen=True)
class Device:
    """A target or a metadata service in one interval."""

    device: str
    load: float
    queued: int


@dataclass(frozen=True)
class Active:
    """A job in one interval."""

    job: "Job"
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
        from weir.store.decoding import encode

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
    status: dict[int, "Status"] = field(default_factory=dict)
    jobs: dict[int, "Sequence[Job]"] = field(default_factory=dict)
    silent: dict[int, StoreError] = field(default_factory=dict)
    """Servers that did not answer, with the reason."""


@click.command()
@click.option("--once", is_flag=True, help="Print one interval and end.")
@click.option(
    "--interval",
    "interval_seconds",
    type=Number(0.1, 3600),
    default=1.0,
    help="Seconds between two samples of the servers.",
)
@output_option
@click.pass_obj
def top(home: Home, once: bool, interval_seconds: float, output: str) -> int:
    """Show the present work of jobs: rates, and shares owed and received, over the last interval.

    DEVICE is the time that devices worked for the job, as a part of the interval. OWED and RECEIVED are shares of the
    device time that all servers gave to all jobs while the job was active at any of them. WAIT is the mean time that a
    request waited for its turn. WAITS FOR is the job that received most while this one had requests queued, with the
    device time it received meanwhile.

    On a terminal the keys up and down choose a job and Enter opens its details, left and right sort by another column,
    r turns the order round, and q leaves. Where standard output is no terminal, or with --output json, it prints one
    interval and ends.
    """
    import os

    servers = servers_up(home)
    if not once and output == "table" and sys.stdout.isatty() and os.environ.get("TERM", "dumb") != "dumb":
        _follow(servers, interval_seconds)
        return 0
    before = _sample(servers)
    time.sleep(interval_seconds)
    after = _sample(servers)
    for server in servers:
        if server.number in after.silent:
            warn_of_silence(home, server, after.silent[server.number])
    shown = interval(before, after)
    if output == "table":
        first, *lines = _headline(shown)
        print(bold(first), *lines, "", sep="\n")
    show(output, shown.document(), _HEADER, [_row(job) for job in shown.jobs])
    return FAILED if after.silent else 0


def interval(before: Sample, after: Sample) -> Interval:
    """Compute the work between two samples.

    Args:
        before: The earlier sample.
        after: The later sample.

    Returns:
        Policy and scheduler, devices, and the jobs that were active or had operations.
    """
    from weir.store.accounts import difference, merge

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


def _sample(servers: Sequence["Server"]) -> Sample:
    from weir.store.control import Server, ask_all

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


def _devices(number: int, status: "Status", before: "Status | None") -> list[Device]:
    """The devices of one server, each with the part of the interval, by the server's own clock, in which it was
    busy.
    """

    def devices(of: "Status") -> "dict[str, answers.Target | answers.Device]":
        return {**{target.target: target for target in of.targets}, f"{number}.metadata": of.metadata}

    earlier = before if before is not None and before.boot == status.boot else None
    elapsed = status.uptime_seconds - (earlier.uptime_seconds if earlier else 0.0)
    busy_before = {name: device.busy_seconds for name, device in devices(earlier).items()} if earlier else {}

    def load(name: str, busy_seconds: float) -> float:
        return min(1.0, (busy_seconds - busy_before.get(name, 0.0)) / elapsed) if elapsed > 0 else 0.0

    return [Device(name, load(name, device.busy_seconds), device.queued) for name, device in devices(status).items()]


def _follow(servers: Sequence["Server"], interval_seconds: float) -> None:
    """Show interval after interval on the terminal until the user leaves."""
    from functools import partial

    from weir.cli.top_screen import Show, View, follow

    show = Show(
        sample=partial(_sample, servers),
        interval=interval,
        jobs=_numbers,
        picture=_picture,
        columns=len(_HEADER),
    )
    follow(show, View(_FIRST_COLUMN), interval_seconds)


def _picture(shown: Interval, view: "View") -> "Picture":
    """The jobs of an interval, or the details of one."""
    from weir.cli.top_screen import Picture

    head, jobs = _headline(shown), _ordered(shown, view)
    if view.is_open:
        title, *rows = _details(next((each for each in jobs if each.job.id == view.chosen), None))
        return Picture(head, title, rows)
    mark = "↓" if _is_falling(view) else "↑"
    titles = [f"{title}{mark}" if place == view.column else title for place, title in enumerate(_HEADER)]
    title, *rows = table_lines(titles, [_row(each) for each in jobs])
    chosen = next((place for place, each in enumerate(jobs) if each.job.id == view.chosen), None)
    return Picture(head, title, rows, chosen)


def _ordered(shown: Interval, view: "View") -> list[Active]:
    """The jobs by the chosen column: names from A to Z, figures from the greatest on, or the other way round."""
    return sorted(shown.jobs, key=lambda each: _figures(each)[view.column], reverse=_is_falling(view))


def _numbers(shown: Interval, view: "View") -> list[str]:
    return [each.job.id for each in _ordered(shown, view)]


def _is_falling(view: "View") -> bool:
    return view.is_reversed != (view.column >= _NAMES)


def _figures(active: Active) -> tuple[Any, ...]:
    """What jobs are sorted by, in the order of the columns; a figure that is missing is the least."""
    from weir.store.accounts import worst

    job, waited_for = active.job, worst(active.job)
    figures = (
        job.nodes,
        job.bytes_read,
        job.bytes_written,
        job.operations,
        job.device_seconds,
        job.share_owed,
        job.share_received,
        active.wait_seconds,
        waited_for[1] if waited_for else None,
    )
    return (job.job, job.user, *(-1 if figure is None else figure for figure in figures))


def _details(active: Active | None) -> list[str]:
    """Everything about one job in an interval; the first line is its title."""
    from weir.cli.output import Quantity, seconds, share_or_dash

    if active is None:
        return ["the job does nothing now", "Escape goes back"]
    job, length = active.job, active.seconds
    waits = (job.queue_wait_seconds_median, job.queue_wait_seconds_p90, job.queue_wait_seconds_p99)
    since_begin = ", ".join(f"{part} {seconds(wait)}" for part, wait in zip(("50%", "90%", "99%"), waits, strict=True))
    devices = [
        (
            each.device,
            share(each.device_seconds / length),
            share_or_dash(each.share_owed),
            seconds(each.share_owed_for_seconds),
        )
        for each in sorted(job.devices, key=lambda each: -each.device_seconds)
    ]
    others = [
        (each.job, each.user, share(each.seconds / length))
        for each in sorted(job.waited_for, key=lambda each: -each.seconds)
        if each.seconds > 0
    ]
    further = job.waited_for_others_seconds / length
    lines = [
        f"{job.job} of {job.user} ({job.uid}) in {job.group}",
        f"{job.nodes} nodes, priority {job.priority}, {job.connections} connections, number {job.id}",
        *table_lines(_HEADER, [_row(active)]),
        "",
        f"waits since the job's begin: {since_begin}, longest {seconds(job.queue_wait_seconds_max)}",
        "",
        *table_lines(("DEVICE", "TIME", "OWED", "FOR"), devices),
        "",
        *table_lines(("WAITS FOR", "USER", "DEVICE TIME"), others or [("nobody", "-", Quantity("-"))]),
    ]
    return [plain(line) for line in (*lines, *([f"and for all others {share(further)}"] if further > 0 else []))]


def _headline(shown: Interval) -> list[str]:
    """Policy, scheduler and the load of devices; a line for each server that does not answer."""
    differ = "policies that differ" if shown.up else "no answer"
    sharing = sharing_name(*shown.sharing) if shown.sharing else differ
    lines = [
        f"weir top  {time.strftime('%H:%M:%S')}  last {shown.seconds:.1f} s"
        f"  {len(shown.up)} of {len(shown.up) + len(shown.silent)} servers  {sharing}"
    ]
    for kind in ("targets", "metadata"):
        devices = [each for each in shown.devices if each.device.endswith(METADATA) == (kind == "metadata")]
        if len(devices) <= _DEVICES_LISTED_MAX:
            loads = "  ".join(f"{each.device} {share(each.load)} ({each.queued})" for each in devices)
        else:
            mean = sum(each.load for each in devices) / len(devices)
            busiest = max(devices, key=lambda each: each.load)
            queued = sum(each.queued for each in devices)
            loads = f"{len(devices)}: mean {share(mean)}, most {share(busiest.load)} ({busiest.device})"
            loads += f", {queued} queued"
        lines.append(f"{kind:<8}  {loads or 'none'}")
    return [plain(line) for line in [*lines, *(error.message for error in shown.silent.values())]]


def _row(active: Active) -> tuple[object, ...]:
    from weir.cli.output import Quantity, name, seconds, share, share_or_dash, size
    from weir.store.accounts import worst

    job, length = active.job, active.seconds
    waited_for, waited = worst(job), active.wait_seconds
    return (
        name(job.job),
        name(job.user),
        job.nodes,
        size(job.bytes_read / length),
        size(job.bytes_written / length),
        Quantity(f"{job.operations / length:.0f}"),
        share(job.device_seconds / length),
        share_or_dash(job.share_owed),
        share_or_dash(job.share_received),
        seconds(waited) if waited is not None else Quantity("-"),
        f"{name(waited_for[0])} {share(waited_for[1] / length)}" if waited_for else "-",
    )
