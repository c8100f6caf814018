"""The figures about machines: targets over time, servers over time, and the use of targets."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy

from weir.simulation.report.drawing import COLOURS, draw, spread_legend
from weir.simulation.report.section import Cell, Section, gibibytes

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from numpy.typing import NDArray

    from weir.simulation.outcome import Series
    from weir.simulation.records import Record

_TICKS_MAX = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kind:
    """A kind of machines whose work is drawn over time: their section, of one run at a time."""

    name: str
    title: str
    series: "Callable[[Record], Series]"
    """The series of the first machine; empty where the run kept none."""
    height: "Callable[[Record], float]"
    """Height of a run's panel, in inches."""
    panel: "Callable[[Record], Callable[[Axes], None]]"
    words: "Callable[[Record, int], str]"
    """A sentence about a run, by the number of runs."""
    explanation: str
    """A sentence about the figure."""
    header: Sequence[str]
    rows: "Callable[[Record], list[Sequence[Cell]]]"
    note: str


def target_map(records: "Sequence[Record]") -> Section | None:
    """Draw the work of each target over time.

    Returns:
        The section; None where no run kept series.
    """
    kind = _Kind(
        name="targets",
        title="Targets over time",
        series=lambda record: record.outcome.targets[0].busy_series,
        height=lambda record: min(4.6, max(1.7, 0.11 * len(record.outcome.targets) + 1.0)),
        panel=_map,
        words=_busy_words,
        explanation="",
        header=["Run", "Target", "busy", "read GiB", "written GiB", "stripes"],
        rows=_target_rows,
        note="Busy is the part of the run in which the target worked.",
    )
    return _over_time(records, kind)


def servers(records: "Sequence[Record]") -> Section | None:
    """Draw the use of the servers' links and processors over time.

    Returns:
        The section; None where no run kept series.
    """
    used = ["link, mean", "link, most", "processor, mean", "processor, most"]
    kind = _Kind(
        name="servers",
        title="Servers over time",
        series=lambda record: record.outcome.servers[0].link_series,
        height=lambda _: 2.1,
        panel=_lines,
        words=_link_words,
        explanation=" A line is the mean of all servers, and its band reaches from the least used to the most used.",
        header=["Run", "Server", *used, "received GiB", "sent GiB"],
        rows=_server_rows,
        note="Parts of the rate of a link in its busier direction, and of the processor where it has a bound.",
    )
    return _over_time(records, kind)


def _over_time(records: "Sequence[Record]", kind: _Kind) -> Section | None:
    """The section of a kind of machines: a panel for each run that kept series."""
    drawn = [record for record in records if record.sample_seconds and len(kind.series(record))]
    if not drawn:
        return None
    words = " ".join(kind.words(record, len(drawn)) for record in drawn)
    heights = [kind.height(record) for record in drawn]
    return Section(
        name=kind.name,
        title=kind.title,
        words=words + kind.explanation,
        svg=draw(kind.name, heights, [kind.panel(record) for record in drawn], words),
        header=kind.header,
        rows=[row for record in drawn for row in kind.rows(record)],
        note=kind.note,
    )


def _target_rows(record: "Record") -> list[Sequence[Cell]]:
    return [
        [
            record.name,
            target.name,
            _percent(target.busy_seconds, record.outcome.seconds),
            gibibytes(target.read_bytes),
            gibibytes(target.written_bytes),
            target.stripes,
        ]
        for target in sorted(record.outcome.targets, key=lambda target: -target.busy_seconds)
    ]


def _server_rows(record: "Record") -> list[Sequence[Cell]]:
    return [
        [
            record.name,
            number,
            _mean(server.link_series),
            _most(server.link_series),
            _mean(server.processor_series),
            _most(server.processor_series),
            gibibytes(server.received_bytes),
            gibibytes(server.sent_bytes),
        ]
        for number, server in enumerate(record.outcome.servers)
    ]


def uses(records: "Sequence[Record]") -> Section:
    """Draw how evenly the workload filled the targets."""

    def panel(place: "Axes") -> None:
        for number, record in enumerate(records):
            counts = sorted((gibibytes(target.written_bytes) for target in record.outcome.targets), reverse=True)
            edges = numpy.linspace(0, 100, len(counts) + 1)
            name = f"{record.name} (cost {record.outcome.target_cost:.2f})"
            colour = COLOURS[number % len(COLOURS)]
            place.stairs(counts, edges, color=colour, linewidth=1.8, label=name, fill=len(records) == 1)
        place.set_xlim(0, 100)
        place.set_ylim(bottom=0)
        place.set_xlabel("targets, the one with most bytes first (%)")
        place.set_ylabel("written (GiB)")
        spread_legend(place, len(records))

    words = " ".join(
        f"The target cost is {record.outcome.target_cost:.3f}." if len(records) == 1
        else f"“{record.name}” has a target cost of {record.outcome.target_cost:.3f}."
        for record in records
    )  # fmt: skip
    words += " It is the use of the fullest target's capacity by the workload over the mean use: 1 is even."
    names = [target.name for target in records[0].outcome.targets]
    is_alike = all([target.name for target in record.outcome.targets] == names for record in records)
    return Section(
        name="use",
        title="Use of the targets (OST cost)",
        words=words,
        svg=draw("use", [2.6], [panel], words),
        header=[
            "Run",
            "cost",
            "written GiB, most",
            "written GiB, mean",
            "written GiB, least",
            "stripes, most",
            "stripes, least",
        ],
        rows=[_use_row(record) for record in records],
        note="" if is_alike else "The runs have different targets.",
    )


def _use_row(record: "Record") -> list[str | float | int]:
    written = [gibibytes(target.written_bytes) for target in record.outcome.targets]
    stripes = [target.stripes for target in record.outcome.targets]
    return [
        record.name,
        record.outcome.target_cost,
        max(written),
        sum(written) / len(written),
        min(written),
        max(stripes),
        min(stripes),
    ]


def _map(record: "Record") -> "Callable[[Axes], None]":
    def panel(place: "Axes") -> None:
        from matplotlib.colors import LinearSegmentedColormap

        cells = 100 * numpy.stack([target.busy_series for target in record.outcome.targets])
        shades = LinearSegmentedColormap.from_list("busy", ["#f4f6f8", "#9cc3dd", "#2b6a99", "#12324b"])
        extent = (0.0, cells.shape[1] * record.sample_seconds, len(cells) - 0.5, -0.5)
        image = place.imshow(
            cells, cmap=shades, vmin=0, vmax=100, aspect="auto", extent=extent, interpolation="nearest"
        )
        place.grid(visible=False)
        step = -(-len(cells) // _TICKS_MAX)
        names = [target.name for target in record.outcome.targets]
        place.set_yticks(range(0, len(cells), step), names[::step])
        place.set_xlim(0, max(record.outcome.seconds, record.sample_seconds))
        place.set_xlabel("time (s)")
        place.set_ylabel("target")
        place.set_title(record.name)
        bar = place.figure.colorbar(image, ax=place, pad=0.01, fraction=0.03)
        bar.outline.set_visible(False)
        bar.set_label("busy (%)")

    return panel


def _lines(record: "Record") -> "Callable[[Axes], None]":
    def panel(place: "Axes") -> None:
        drawn = [("links", COLOURS[0], [server.link_series for server in record.outcome.servers])]
        processors = [server.processor_series for server in record.outcome.servers if len(server.processor_series)]
        if processors:
            drawn.append(("processors", COLOURS[1], processors))
        for name, colour, series in drawn:
            _band(place, name, colour, series, record.sample_seconds)
        place.set_xlim(0, max(record.outcome.seconds, record.sample_seconds))
        place.set_ylim(0, 103)
        place.set_xlabel("time (s)")
        place.set_ylabel("used (%)")
        place.set_title(record.name)
        spread_legend(place, len(drawn))

    return panel


def _band(place: "Axes", name: str, colour: str, series: "Sequence[Series]", interval: float) -> None:
    values: NDArray[numpy.float32] = 100 * numpy.stack(series)
    edges = numpy.arange(values.shape[1] + 1) * interval
    least, most, mean = values.min(axis=0), values.max(axis=0), values.mean(axis=0)
    place.fill_between(edges, _closed(least), _closed(most), step="post", color=colour, alpha=0.22, linewidth=0)
    place.stairs(mean, edges, baseline=None, color=colour, linewidth=1.6, label=name)


def _closed(values: "NDArray[numpy.float32]") -> "NDArray[numpy.float32]":
    """Values of intervals with the last one again, at the end of its interval."""
    return numpy.append(values, values[-1:])


def _busy_words(record: "Record", runs: int) -> str:
    seconds = record.outcome.seconds
    busiest = max(record.outcome.targets, key=lambda target: target.busy_seconds)
    subject = "Targets worked" if runs == 1 else f"In “{record.name}” targets worked"
    return (
        f"{subject} {100 * record.figures.target_busy:.1f}% of the time in the mean; the busiest, {busiest.name}, "
        f"{_percent(busiest.busy_seconds, seconds)}."
    )


def _link_words(record: "Record", runs: int) -> str:
    most = max(_most_of(server.link_series) for server in record.outcome.servers)
    subject = "The most used link" if runs == 1 else f"In “{record.name}” the most used link"
    return f"{subject} was used to {100 * most:.0f}% in its busiest interval."


def _percent(part: float, whole: float) -> str:
    return f"{100 * part / whole:.1f}%" if whole else "-"


def _most_of(series: "Series") -> float:
    return float(series.max(initial=0.0))


def _mean(series: "Series") -> str | None:
    return f"{100 * float(series.mean()):.1f}%" if len(series) else None


def _most(series: "Series") -> str | None:
    return f"{100 * _most_of(series):.1f}%" if len(series) else None
