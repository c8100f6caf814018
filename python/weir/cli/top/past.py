"""`weir top --at`: a moment of the past, as `weir record` kept it."""

import time
from dataclasses import asdict
from pathlib import Path

from weir.cli.common.history_options import clock, opened, warn_of_gaps
from weir.cli.common.output import Quantity, bold, name, share, share_or_dash, show, size
from weir.history.levels import KEPT_MIN, levels_of
from weir.history.moments import read_moment
from weir.history.reading import DeviceWork, History, JobPast
from weir.store.home import Home

_HEADER = ("JOB", "USER", "NODES", "READ/S", "WRITTEN/S", "OP/S", "DEVICE", "OWED", "RECEIVED", "WAITS FOR")
_DEVICES_MAX = 8
"""Most devices listed, the busiest."""


def show_past(home: Home, at: str, interval_seconds: float, history: Path | None, output: str) -> int:
    """Show the interval of the past that ends at a moment.

    Args:
        at: The moment, as `MOMENT` takes it.
        interval_seconds: Its length; what the history keeps of that age may be longer.
        history: Folder of the history; None is that of the home.
        output: Form of the output.

    Returns:
        The exit code.
    """
    found = opened(home, history)
    try:
        since, until = _past_interval(found, round(read_moment(at, time.time()) * 1000), interval_seconds)
        jobs, gaps = found.jobs(since, until), found.gaps(since, until)
        devices = found.device_work(since, until, until - since)
    finally:
        found.close()
    warn_of_gaps(gaps)
    length = (until - since) / 1000
    if output == "table":
        print(bold(f"weir top  {clock(until)}  {length:g} s until then"), _past_loads(devices), "", sep="\n")
    document = {
        "since": since / 1000,
        "until": until / 1000,
        "devices": [{"device": each.device, "load": _past_load(each)} for each in devices],
        "jobs": [asdict(job) for job in jobs],
    }
    show(output, document, _HEADER, [_past_row(job, length) for job in jobs])
    return 0


def _past_interval(history: History, at: int, interval_seconds: float) -> tuple[int, int]:
    """Find the buckets that end at a moment, in Unix milliseconds, as far as an interval goes."""
    age = time.time() * 1000 - at
    levels = levels_of(history.window or 1000, KEPT_MIN)
    width = next((level.width for level in levels if age + level.width <= level.age), levels[-1].width)
    length = max(round(interval_seconds * 1000 / width), 1) * width
    # A window that is not over is not kept.
    until = at - at % width
    return until - length, until


def _past_load(work: DeviceWork) -> float:
    return min(work.busy_seconds / work.known_seconds, 1.0) if work.known_seconds else 0.0


def _past_loads(devices: list[DeviceWork]) -> str:
    busiest = sorted(devices, key=lambda each: -_past_load(each))[:_DEVICES_MAX]
    loads = "  ".join(f"{each.device} {share(_past_load(each))}" for each in busiest)
    return f"busiest   {loads or 'nothing is known'}"


def _past_row(job: JobPast, length: float) -> tuple[object, ...]:
    longest = next(iter(job.culprits), None)
    return (
        name(job.job) if job.job else "(further)",
        name(job.user) if job.user else "-",
        "-" if job.nodes is None else job.nodes,
        size(job.read_bytes / length),
        size(job.written_bytes / length),
        Quantity(f"{job.operations / length:.0f}"),
        share(job.device_seconds / length),
        share_or_dash(job.share_owed),
        share_or_dash(job.share_received),
        f"{name(longest[0])} {share(longest[2] / length)}" if longest else "-",
    )
