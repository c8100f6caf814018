"""The figures about jobs: slowdown, bandwidth, shares, and device time over time."""

import statistics
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy

from weir.simulation.report.drawing import COLOURS, OTHERS, bars_of_shares, draw, spread_legend
from weir.simulation.report.section import Section, megabytes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from weir.simulation.figures import JobFigures
    from weir.simulation.records import Record

BARS_MAX = 24
"""Most jobs that have a bar each; of more, the distribution is drawn."""
_POINTS = 400
"""Points of a distribution's line."""
_NAME_MAX = 28


def slowdowns(records: "Sequence[Record]") -> Section | None:
    """Draw how much slower each job's I/O was than alone.

    Returns:
        The section; None where no job was run alone.
    """
    if not any(job.io_slowdown for record in records for job in record.jobs):
        return None

    def panel(place: "Axes") -> None:
        draw_slowdowns(place, records)

    words = " ".join(_slowdown_words(record, len(records)) for record in records)
    return Section(
        name="slowdown",
        title="Slowdown of each job",
        words=words,
        svg=draw("slowdown", [_height(records)], [panel], words),
        header=["Job", "User", "Nodes", *_each("slowdown of I/O", records), *_each("slowdown of the job", records)],
        rows=[
            [
                *_names(jobs[0]),
                *(job.io_slowdown for job in jobs),
                *(job.slowdown for job in jobs),
            ]
            for jobs in _by_job(records, lambda job: job.io_slowdown)
        ],
        note="Slowdown of I/O is the time of a job's reads, writes and metadata over that of the same job alone on the "
        "idle system with the same placement; the slowdown of the job counts its pauses too. A job that did not end "
        "has none.",
    )


def bandwidths(records: "Sequence[Record]") -> Section:
    """Draw the bandwidth of each job."""

    def panel(place: "Axes") -> None:
        draw_bandwidths(place, records)

    words = " ".join(
        f"{_subject(record, len(records))} moved {record.figures.bytes_per_second / 1e6:,.1f} MB/s over its "
        f"{record.outcome.seconds:,.1f} s."
        for record in records
    )
    reads = _each("read MB/s", records)
    writes = _each("write MB/s", records)
    return Section(
        name="bandwidth",
        title="Bandwidth of each job",
        words=words,
        svg=draw("bandwidth", [_height(records)], [panel], words),
        header=["Job", "User", "Nodes", *_each("MB/s", records), *reads, *writes],
        rows=[
            [
                *_names(jobs[0]),
                *(megabytes(job.outcome.bytes_per_second) for job in jobs),
                *(megabytes(job.outcome.read_bytes_per_second) for job in jobs),
                *(megabytes(job.outcome.write_bytes_per_second) for job in jobs),
            ]
            for jobs in _by_job(records, lambda job: job.outcome.bytes_per_second)
        ],
        note="Reads and writes are over the time in which the job read or wrote.",
    )


def shares(records: "Sequence[Record]") -> Section:
    """Draw the device time that each job got beside the time that the policy owed it."""
    is_few = len(records[0].jobs) <= BARS_MAX
    panels = [_shares_of(record) for record in records]
    height = max(1.6, 0.26 * len(records[0].jobs) + 0.8) if is_few else 3.2
    words = " ".join(_share_words(record, len(records)) for record in records)
    return Section(
        name="shares",
        title="Shares owed and received",
        words=words,
        svg=draw("shares", [height] * len(records), panels, words),
        header=["Job", "User", "Nodes", *_each("owed", records), *_each("received", records)],
        rows=[
            [
                *_names(jobs[0]),
                *("-" if job.share_owed is None else f"{100 * job.share_owed:.2f}%" for job in jobs),
                *(f"{100 * job.share_received:.2f}%" for job in jobs),
            ]
            for jobs in _by_job(records, lambda job: job.share_owed or job.share_received)
        ],
        note="Parts of the targets' time over the whole run. The policy owes a job its share of a target as long as "
        "the job wants the target's time, as far as the job can use it. fifo owes nothing.",
    )


def device_times(records: "Sequence[Record]") -> Section | None:
    """Draw the targets' time over time, divided among the jobs.

    Returns:
        The section; None where no run kept series.
    """
    drawn = [record for record in records if record.sample_seconds and len(record.outcome.jobs[0].device_series)]
    if not drawn:
        return None
    holders, holder = holders_of(drawn)
    owner = "one name" if holder is label else "one user"
    words = (
        f"Each band is the part of all targets' time that the jobs of {owner} got. "
        "Those with the most device time have a colour of their own."
    )
    return Section(
        name="time",
        title="Device time over time",
        words=words,
        svg=draw("time", [2.5] * len(drawn), [_bands(record, holders, holder) for record in drawn], words),
        header=["Job", "User", "Nodes", *_each("device seconds", drawn), *_each("ended at second", drawn)],
        rows=[
            [
                *_names(jobs[0]),
                *(job.outcome.device_seconds for job in jobs),
                *(job.outcome.ended_seconds for job in jobs),
            ]
            for jobs in _by_job(drawn, lambda job: job.outcome.device_seconds)
        ],
    )


def holders_of(records: "Sequence[Record]") -> "tuple[list[str], Callable[[JobFigures], str]]":
    """Choose who has a colour: the names of few jobs, or the users of many, with the most device time.

    Returns:
        The holders, the greatest first, and a function that names the holder of a job.
    """
    holder = label if len(records[0].jobs) <= BARS_MAX else _user
    totals: dict[str, float] = {}
    for job in (job for record in records for job in record.jobs):
        totals[holder(job)] = totals.get(holder(job), 0.0) + job.outcome.device_seconds
    return sorted(totals, key=lambda name: (-totals[name], name))[: len(COLOURS)], holder


def draw_slowdowns(place: "Axes", records: "Sequence[Record]") -> None:
    """Draw the slowdown of each job's I/O, a bar for each run; of many jobs the distributions."""
    _compare(place, records, lambda job: job.io_slowdown, "time of I/O, times that alone")
    if len(records[0].jobs) <= BARS_MAX:
        place.axvline(1.0, color="#343a42", linewidth=1.0, linestyle=":")


def draw_bandwidths(place: "Axes", records: "Sequence[Record]") -> None:
    """Draw the bandwidth of each job, a bar for each run; of many jobs the distributions."""
    _compare(place, records, lambda job: megabytes(job.outcome.bytes_per_second), "MB/s in the job's time of I/O")


def draw_shares(place: "Axes", record: "Record") -> None:
    """Draw the shares owed and received of each job, as bars; of many jobs as points."""
    if len(record.jobs) <= BARS_MAX:
        bars_of_shares(place, [(label(job), job.share_owed, job.share_received) for job in record.jobs])
    else:
        _points_of_shares(place, record)


def draw_device_time(
    place: "Axes", record: "Record", holders: Sequence[str], holder: "Callable[[JobFigures], str]"
) -> None:
    """Draw the targets' time over time, divided among the jobs, of a run that kept series.

    Args:
        holders: Those who have a band and a colour of their own, at most as many as there are `COLOURS`.
        holder: Names the one who holds a job.
    """
    interval, targets = record.sample_seconds, len(record.outcome.targets)
    intervals = len(record.outcome.jobs[0].device_series)
    bands = {name: numpy.zeros(intervals) for name in (*holders, "")}
    for job in record.jobs:
        name = holder(job)
        bands[name if name in bands else ""] += job.outcome.device_series / interval / targets * 100
    if not bands[""].any():
        del bands[""]
    # A band is as high in a whole interval as in its middle.
    times = numpy.repeat(numpy.arange(intervals + 1) * interval, 2)[1:-1]
    place.stackplot(
        times,
        [numpy.repeat(band, 2) for band in bands.values()],
        labels=[name or "others" for name in bands],
        colors=[*COLOURS[: len(holders)], OTHERS],
        linewidth=0,
    )
    place.set_xlim(0, max(record.outcome.seconds, interval))
    place.set_ylim(0, 100)
    place.set_xlabel("time (s)")
    place.set_ylabel("targets' time (%)")
    spread_legend(place, len(bands))


def label(job: "JobFigures") -> str:
    """Name a job in a figure.

    Returns:
        Its name, cut to the width of a figure, with escaped unprintable characters.
    """
    return _shown(job.name)


def _user(job: "JobFigures") -> str:
    return _shown(job.user)


def _shown(text: str) -> str:
    name = "".join(each if each.isprintable() else repr(each)[1:-1] for each in text)
    return name if len(name) <= _NAME_MAX else f"{name[: _NAME_MAX - 1]}…"


def _compare(
    place: "Axes", records: "Sequence[Record]", value: "Callable[[JobFigures], float | None]", title: str
) -> None:
    """Bars of each job, a colour for each run; or the distributions over the jobs, where there are many."""
    jobs = len(records[0].jobs)
    if jobs > BARS_MAX:
        _distributions(place, records, value)
    else:
        thickness = 0.8 / len(records)
        for number, record in enumerate(records):
            places = [row + (number - (len(records) - 1) / 2) * thickness for row in range(jobs)]
            values = [value(job) or 0.0 for job in record.jobs]
            place.barh(places, values, thickness * 0.92, color=COLOURS[number % len(COLOURS)], label=record.name)
            for row, length in zip(places, values, strict=True):
                place.annotate(
                    f"{length:,.2f}" if length < 100 else f"{length:,.0f}",
                    (length, row), xytext=(4, 0), textcoords="offset points", va="center", fontsize=8, color="#343a42",
                )  # fmt: skip
        place.set_yticks(range(jobs), [label(job) for job in records[0].jobs])
        place.set_ylim(jobs - 0.4, -0.6)
        place.grid(visible=False, axis="y")
        place.margins(x=0.08)
    place.set_xlabel(title)
    if len(records) > 1:
        spread_legend(place, len(records))


def _distributions(place: "Axes", records: "Sequence[Record]", value: "Callable[[JobFigures], float | None]") -> None:
    parts = numpy.linspace(0.0, 1.0, _POINTS)
    for number, record in enumerate(records):
        values = [one for one in (value(job) for job in record.jobs) if one is not None]
        if values:
            quantiles = numpy.quantile(values, parts, method="inverted_cdf")
            place.step(quantiles, 100 * parts, color=COLOURS[number % len(COLOURS)], label=record.name, linewidth=1.8)
    place.set_xscale("log")
    place.set_ylim(0, 101)
    place.set_ylabel("% of the jobs are at or below")
    _plain_numbers(place)


def _plain_numbers(place: "Axes") -> None:
    """Numbers without powers on a logarithmic axis."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    place.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5), numticks=12))
    place.xaxis.set_major_formatter(FuncFormatter(lambda number, _: f"{number:g}"))
    place.xaxis.set_minor_formatter(NullFormatter())


def _shares_of(record: "Record") -> "Callable[[Axes], None]":
    def panel(place: "Axes") -> None:
        place.set_title(_title(record))
        draw_shares(place, record)

    return panel


def _points_of_shares(place: "Axes", record: "Record") -> None:
    shares = [(job.share_owed, job.share_received) for job in record.jobs]
    owed = [100 * each for each, _ in shares if each is not None]
    received = [100 * each for has_owed, each in shares if has_owed is not None]
    most = max(*owed, *received, 1e-9) * 1.05
    place.plot([0, most], [0, most], color="#1c2025", linewidth=1.0, linestyle=":", label="received what was owed")
    place.scatter(owed, received, s=14, color=COLOURS[0], alpha=0.6, linewidths=0, label="a job")
    place.set_xlim(0, most)
    place.set_ylim(0, most)
    place.set_xlabel("owed (% of the targets' time)")
    place.set_ylabel("received (%)")
    spread_legend(place, 2)


def _bands(record: "Record", holders: Sequence[str], holder: "Callable[[JobFigures], str]") -> "Callable[[Axes], None]":
    """The bands of those who hold a colour, and one of all others."""

    def panel(place: "Axes") -> None:
        place.set_title(_title(record))
        draw_device_time(place, record, holders, holder)

    return panel


def _by_job(
    records: "Sequence[Record]", value: "Callable[[JobFigures], float | None]"
) -> "list[tuple[JobFigures, ...]]":
    """The jobs of all runs side by side, those with the greatest value first."""
    rows = list(zip(*(record.jobs for record in records), strict=True))
    return sorted(rows, key=lambda jobs: -max(value(job) or 0.0 for job in jobs))


def _names(job: "JobFigures") -> tuple[str, str, int]:
    return (job.name, job.user, job.nodes)


def _each(title: str, records: "Sequence[Record]") -> list[str]:
    return [title] if len(records) == 1 else [f"{record.name}: {title}" for record in records]


def _height(records: "Sequence[Record]") -> float:
    jobs = len(records[0].jobs)
    return 3.0 if jobs > BARS_MAX else max(1.5, jobs * (0.14 + 0.16 * len(records)) + 0.7)


def _title(record: "Record") -> str:
    return record.name


def _subject(record: "Record", runs: int) -> str:
    return "The run" if runs == 1 else f"“{record.name}”"


def _slowdown_words(record: "Record", runs: int) -> str:
    known = [(job.io_slowdown, job) for job in record.jobs if job.io_slowdown is not None]
    if not known:
        return f"{_subject(record, runs)}: no job was run alone."
    most, slowest = max(known, key=lambda pair: pair[0])
    mean = statistics.fmean(value for value, _ in known)
    subject = "I/O" if runs == 1 else f"In “{record.name}” I/O"
    return (
        f"{subject} took {mean:.2f} times as long as alone in the mean of {len(known)} jobs, and at most {most:.2f} "
        f"times ({label(slowest)})."
    )


def _share_words(record: "Record", runs: int) -> str:
    error = record.figures.share_error
    subject = "Of" if runs == 1 else f"In “{record.name}”, of"
    if error is None:
        return f"{_subject(record, runs)} owed no job anything."
    return f"{subject} the device time, {100 * error:.2f}% went to other jobs than the policy owed it to."
