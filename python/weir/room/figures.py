"""The figures of the room, as documents of Vega-Lite that altair writes. The data of a figure are plain rows."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import unquote

from weir.history.levels import DAY, STATES_EVERY
from weir.history.reading import Fill
from weir.room.looks import Look
from weir.room.pages.adaptive import labelled, readings_of, tail_of
from weir.room.pages.job import check_seen, stretch_at
from weir.room.pages.placement import hit_of
from weir.room.pages.store import order
from weir.room.panels import shortened
from weir.room.sources import Sources
from weir.room.visitors import HIDDEN, Visitor
from weir.store.step_journal import StepEntry

Rows = list[dict[str, Any]]
_JOBS_MAX = 12
"""Most jobs with a series of their own."""
_WAITERS_MAX = 30
"""Most jobs of a side of the matrix."""
_DEVICES_MAX = 200
"""Most devices of a heat map, the busiest."""
_READINGS_MAX = 12
"""Most streams with a series of their own, those with the latest steps."""
_FORECASTS_MAX = 6
"""Most tiers with a figure of their forecasts."""
_STEPS_MAX = 400
"""Most steps of a series."""
_HEALTH = {"works": "#2f7d4f", "slow": "#e0b000", "full": "#c45a00", "failed": "#a01018"}
"""Colours of a target's states, from light to dark beside their hues."""
_LATER: Rows = []
"""The rows of a chart that gets them with its document."""
_GAP, _ASIDE = 0.16, 0.035
"""Parts of the radius by which an arrow of the graph ends before a name, and lies beside the arrow back."""


def figure(name: str, sources: Sources, look: Look, visitor: Visitor, query: Mapping[str, str]) -> Any:
    """Describe a figure.

    Args:
        name: One of `FIGURES`.
        query: Parameters of the page's address.

    Returns:
        The document of Vega-Lite; None where there is nothing to draw.

    Raises:
        KeyError: There is no such figure.
    """
    return FIGURES[name](sources, look, visitor, query)


def _targets(sources: Sources, look: Look, visitor: Visitor, query: Mapping[str, str]) -> Any:
    measure = query.get("measure", "load")
    with sources.history() as history:
        if history is None or not history.window:
            return None
        width = look.column(history.window)
        if measure in ("fill", "health"):
            width = max(width, STATES_EVERY)
            rows = [
                {
                    "at": each.begin - each.begin % width,
                    "device": each.device,
                    "value": each.used_bytes / each.capacity_bytes if each.capacity_bytes else 1.0,
                    "state": _health_of(each),
                }
                for each in history.fills(look.since, look.until, width)
            ]
        else:
            rows = [
                {"at": each.begin, "device": each.device, "value": value}
                for each in history.device_work(look.since, look.until, width)
                if (known := each.known_seconds)
                for value in [min(each.busy_seconds / known, 1.0) if measure == "load" else each.bytes / known]
                if measure == "load" or not each.device.endswith("metadata")
            ]
    return _heat_map(rows, width, measure, look) if rows else None


def _health_of(fill: Fill) -> str:
    if fill.is_failed:
        return "failed"
    if fill.used_bytes >= fill.capacity_bytes:
        return "full"
    return "slow" if fill.is_slow else "works"


def _heat_map(rows: Rows, width: int, measure: str, look: Look) -> Any:
    import altair

    sums: dict[str, float] = {}
    for row in rows:
        row["end"] = row["at"] + width
        sums[row["device"]] = sums.get(row["device"], 0.0) + row["value"]
    shown = sorted(sorted(sums, key=lambda name: -sums[name])[:_DEVICES_MAX], key=order)
    names = set(shown)
    data = [row for row in rows if row["device"] in names]
    if measure == "health":
        scale = altair.Scale(domain=list(_HEALTH), range=list(_HEALTH.values()))
        colour = altair.Color("state:N", scale=scale, legend=altair.Legend(title=None, orient="right"))
        told = altair.Tooltip("state:N")
    else:
        is_rate = measure == "rate"
        form = "~s" if is_rate else ".0%"
        greatest = max(row["value"] for row in data) or 1.0
        scale = altair.Scale(scheme="viridis", domain=[0, greatest if is_rate else 1])
        legend = altair.Legend(title="B/s" if is_rate else None, format=form, orient="right", tickCount=3)
        colour = altair.Color("value:Q", scale=scale, legend=legend)
        told = altair.Tooltip("value:Q", title=measure, format=form)
    return _as_document(
        _chart()
        .mark_rect()
        .encode(
            x=_time("at", look),
            x2="end:T",
            y=altair.Y("device:N", sort=shown, title=None),
            color=colour,
            tooltip=[
                altair.Tooltip("device:N", title="target"),
                altair.Tooltip("at:T", title="from", format="%Y-%m-%d %H:%M:%S"),
                told,
            ],
        )
        .properties(height=max(26 * len(shown), 70) if len(shown) <= 24 else 600),
        data,
    )


def _jobs(sources: Sources, look: Look, visitor: Visitor, query: Mapping[str, str]) -> Any:
    import altair

    with sources.history() as history:
        if history is None or not history.window:
            return None
        width = look.column(history.window)
        found = history.job_work(look.since, look.until, width, _JOBS_MAX)
    sums: dict[tuple[int, str], list[float]] = {}
    for each in found:
        # A column that is not over is left out.
        if each.begin + width <= look.until:
            place = sums.setdefault((each.begin, _label(visitor.name_of(each.job, each.user))), [0.0, 0.0])
            place[0] += each.device_seconds
            place[1] += each.waited_seconds
    shown = sorted({name for _, name in sums})
    rows = [
        {"at": at, "job": name, "what": what, "value": value * 1000 / width}
        for (at, name), values in sums.items()
        for what, value in zip(("received", "waited"), values, strict=True)
    ]
    if not rows:
        return None
    base = _chart().encode(
        x=_time("at", look),
        y=altair.Y("value:Q", title="devices", stack=None),
        color=_series("job", shown),
        tooltip=[altair.Tooltip("job:N"), altair.Tooltip("value:Q", format=".3f"), altair.Tooltip("at:T", format="%T")],
    )
    line = base.mark_line(interpolate="step-after", point={"size": 12})
    return _as_document(line.properties(height=150).facet(row=altair.Row("what:N", title=None)), rows)


def _waits(sources: Sources, look: Look, visitor: Visitor, query: Mapping[str, str]) -> Any:
    import altair

    sums = _pairs(sources, look, visitor)
    greatest = sorted(sums, key=lambda pair: -sums[pair])
    waiting = list(dict.fromkeys(pair[0] for pair in greatest))[:_WAITERS_MAX]
    served = list(dict.fromkeys(pair[1] for pair in greatest))[:_WAITERS_MAX]
    rows = [{"job": own, "for": other, "value": value} for (own, other), value in sums.items()]
    rows = [row for row in rows if row["job"] in waiting and row["for"] in served]
    if not rows:
        return None
    legend = altair.Legend(title="seconds", orient="right", tickCount=3)
    chart = _chart().encode(
        x=altair.X("for:N", sort=served, title="was served", axis=altair.Axis(labelAngle=-30)),
        y=altair.Y("job:N", sort=waiting, title="waited"),
        color=altair.Color("value:Q", scale=altair.Scale(scheme="viridis", domainMin=0), legend=legend),
        tooltip=["job:N", "for:N", altair.Tooltip("value:Q", title="seconds", format=".2f")],
    )
    return _as_document(chart.mark_rect().properties(width={"step": 56}, height={"step": 32}), rows)


def _graph(sources: Sources, look: Look, visitor: Visitor, query: Mapping[str, str]) -> Any:
    import altair

    sums = _pairs(sources, look, visitor)
    weights: dict[str, float] = {}
    for pair, seconds in sums.items():
        for name in pair:
            weights[name] = weights.get(name, 0.0) + seconds
    shown = sorted(weights, key=lambda name: -weights[name])[:_JOBS_MAX]
    nodes, edges = circle(shown, {pair: seconds for pair, seconds in sums.items() if set(pair) <= set(shown)})
    if not edges:
        return None
    hidden = altair.Scale(domain=[-1.25, 1.25])
    place = {"x": altair.X("x:Q", axis=None, scale=hidden), "y": altair.Y("y:Q", axis=None, scale=hidden)}
    tooltip = ["job:N", "for:N", altair.Tooltip("value:Q", title="seconds", format=".2f")]
    width = altair.Size("value:Q", scale=altair.Scale(range=[1, 7], domainMin=0), legend=None)
    colour = altair.Color("job:N", scale=altair.Scale(domain=shown, scheme="tableau10"), legend=None)
    lines = _chart(edges).mark_rule().encode(**place, x2="x2:Q", y2="y2:Q", size=width, color=colour, tooltip=tooltip)
    ends = _chart(edges).mark_point(shape="triangle", filled=True, size=110, opacity=1)
    ends = ends.encode(
        x=altair.X("x2:Q", axis=None, scale=hidden),
        y=altair.Y("y2:Q", axis=None, scale=hidden),
        angle=altair.Angle("angle:Q", scale=None),
        color=colour,
        tooltip=tooltip,
    )
    names = _chart(nodes).mark_text(fontSize=13, fontWeight="bold").encode(**place, text="name:N")
    return _as_document(altair.layer(lines, ends, names).properties(width=330, height=300))


def circle(names: list[str], edges: Mapping[tuple[str, str], float]) -> tuple[Rows, Rows]:
    """Lay jobs out on a circle, with an arrow from each that waited to each that was served.

    Args:
        edges: Seconds by both names.

    Returns:
        Names with their places, and arrows with both ends, the angle of the head in degrees, and seconds; the circle
        has the radius 1.
    """
    places = {
        name: (math.sin(math.tau * place / len(names)), math.cos(math.tau * place / len(names)))
        for place, name in enumerate(names)
    }
    nodes: Rows = [{"name": name, "x": x, "y": y} for name, (x, y) in places.items()]
    arrows: Rows = []
    for (own, other), seconds in edges.items():
        if own == other:
            continue
        (x, y), (x2, y2) = places[own], places[other]
        length = math.hypot(x2 - x, y2 - y)
        along, across = ((x2 - x) / length, (y2 - y) / length), ((y2 - y) / length, (x - x2) / length)
        arrows.append(
            {
                "job": own,
                "for": other,
                "value": seconds,
                "x": x + _GAP * along[0] + _ASIDE * across[0],
                "y": y + _GAP * along[1] + _ASIDE * across[1],
                "x2": x2 - _GAP * along[0] + _ASIDE * across[0],
                "y2": y2 - _GAP * along[1] + _ASIDE * across[1],
                "angle": math.degrees(math.atan2(x2 - x, y2 - y)),
            }
        )
    return nodes, arrows


def _pairs(sources: Sources, look: Look, visitor: Visitor) -> dict[tuple[str, str], float]:
    """Seconds that jobs waited for others, by the names that the visitor may see."""
    sums: dict[tuple[str, str], float] = {}
    for job in sources.past_jobs(look):
        own = _label(visitor.name_of(job.job, job.user) or "(further)")
        for other, user, seconds in job.culprits:
            pair = (own, _label(visitor.name_of(other, user)))
            sums[pair] = sums.get(pair, 0.0) + seconds
    return sums


def _job(sources: Sources, look: Look, visitor: Visitor, query: Mapping[str, str]) -> Any:
    import altair

    name, user = unquote(query.get("name", "")), unquote(query.get("user", ""))
    check_seen(visitor, name, user)
    with sources.history() as history:
        stretch = stretch_at(history, look, name, user)
        cells = list(history.cells(stretch.since, stretch.until, stretch.job)) if history is not None else []
    if not cells:
        return None
    width = max(max(cell.width for cell in cells), (stretch.until - stretch.since) // 120)
    sums: dict[int, dict[str, float]] = {}
    for cell in cells:
        place = sums.setdefault(cell.begin - cell.begin % width, dict.fromkeys(_OF_JOB, 0.0))
        place["read MB/s"] += cell.read_bytes / 1e6
        place["written MB/s"] += cell.written_bytes / 1e6
        place["received devices"] += cell.device_seconds
        place["waited devices"] += cell.waited_seconds
    rows = [
        {"at": at, "what": what, "value": value * 1000 / width, "unit": what.partition(" ")[2]}
        for at, values in sums.items()
        for what, value in values.items()
    ]
    base = _chart().encode(
        x=_time("at"),
        y=altair.Y("value:Q", title=None, stack=None),
        color=_series("what", list(_OF_JOB)),
        tooltip=["what:N", altair.Tooltip("value:Q", format=".3f"), altair.Tooltip("at:T", format="%T")],
    )
    line = base.mark_line(interpolate="step-after", point={"size": 12})
    facets = line.properties(height=130).facet(row=altair.Row("unit:N", title=None))
    return _as_document(facets.resolve_scale(y="independent"), rows)


def _accuracy(sources: Sources, look: Look, visitor: Visitor, query: Mapping[str, str]) -> Any:
    import altair

    rows: Rows = []
    errors: list[float] = []
    for name, steps in _steps(sources, look, visitor).items():
        for each in steps:
            if (error := each.max_error) is not None:
                errors.append(error)
                part = each.augmentation
                rows.append({"at": each.at * 1000, "stream": name, "step": each.step, "value": error, "read": part})
    if not rows:
        return None
    # Errors span decades; a logarithm has no place for a step without any error.
    least = min((error for error in errors if error), default=1.0)
    kind = {"type": "log"} if min(errors) else {"type": "symlog", "constant": least}
    chart = _chart().encode(
        x=_time("at", look),
        y=altair.Y("value:Q", title="error bound", scale=altair.Scale(**kind), axis=altair.Axis(format=".1~e")),
        color=_series("stream", list(dict.fromkeys(row["stream"] for row in rows))),
        tooltip=[
            *("stream:N", "step:Q", altair.Tooltip("value:Q", title="error bound", format=".3~g")),
            altair.Tooltip("read:Q", title="of the augmentation", format=".0%"),
            altair.Tooltip("at:T", format="%T"),
        ],
    )
    return _as_document(chart.mark_line(interpolate="step-after", point={"size": 12}).properties(height=220), rows)


def _forecasts(sources: Sources, look: Look, visitor: Visitor, query: Mapping[str, str]) -> Any:
    import altair

    series: dict[str, Rows] = {}
    for name, steps in _steps(sources, look, visitor).items():
        for each in steps:
            for place, tier in enumerate(each.tiers):
                if tier.forecast is not None:
                    row = {"at": each.at * 1000, "step": each.step, "forecast": tier.forecast, "low": tier.low}
                    row |= {"high": tier.high, "achieved": tier.bandwidth}
                    what = f"tier {place + 1}, {tail_of(tier.name)}, of {name}"
                    series.setdefault(what, []).append({"what": what, **row})
    rows = [row for name in list(series)[:_FORECASTS_MAX] for row in series[name]]
    if not rows:
        return None
    names = ["forecast", "interval", "achieved"]

    def layer(name: str, column: str) -> Any:
        amount = altair.Y(f"{column}:Q", title="B/s", axis=altair.Axis(format="~s"))
        named = altair.Chart().transform_calculate(kind=f"'{name}'")
        return named.encode(x=_time("at", look), y=amount, color=_series("kind", names))

    band = layer("interval", "low").mark_area(opacity=0.4).encode(y2="high:Q")
    line = layer("forecast", "forecast").mark_line()
    shown = [altair.Tooltip(f"{name}:Q", format=".3~s") for name in ("forecast", "low", "high", "achieved")]
    points = layer("achieved", "achieved").mark_point(filled=True, size=18).encode(tooltip=["step:Q", *shown])
    layers = altair.layer(band, line, points, data=altair.Data(values=_LATER)).properties(height=130)
    return _as_document(layers.facet(row=altair.Row("what:N", title=None)).resolve_scale(y="independent"), rows)


def _steps(sources: Sources, look: Look, visitor: Visitor) -> dict[str, Sequence[StepEntry]]:
    """Steps of the streams whose names the visitor may see, by short names; some are left out where there are many."""
    seen = [each for each in readings_of(sources.steps(look)) if visitor.sees(each.last.user)]
    return {
        name: each.steps[:: math.ceil(len(each.steps) / _STEPS_MAX)]
        for name, each in labelled(seen[:_READINGS_MAX]).items()
    }


def _predictions(sources: Sources, look: Look, visitor: Visitor, query: Mapping[str, str]) -> Any:
    import altair

    runs = [run for run in sources.placed_runs(look) if visitor.sees(run.user)][-_STEPS_MAX:]
    rows = [
        {"at": run.at * 1000, "program": _label(run.program), "job": run.job, "value": hit, "missed": run.missed}
        for run in runs
        if (hit := hit_of(run)) is not None
    ]
    if not rows:
        return None
    chart = _chart().encode(
        x=_time("at", look),
        y=altair.Y("value:Q", title=None, scale=altair.Scale(domain=[0, 1]), axis=altair.Axis(format=".0%")),
        color=_series("program", [str(each) for each in dict.fromkeys(row["program"] for row in rows)]),
        tooltip=["program:N", "job:N", altair.Tooltip("value:Q", format=".1%"), "missed:Q"],
    )
    return _as_document(chart.mark_point(filled=True, size=60).properties(height=150), rows)


_OF_JOB = ("read MB/s", "written MB/s", "received devices", "waited devices")
FIGURES: Mapping[str, Callable[[Sources, Look, Visitor, Mapping[str, str]], Any]] = {
    "targets": _targets,
    "jobs": _jobs,
    "waits": _waits,
    "graph": _graph,
    "job": _job,
    "accuracy": _accuracy,
    "forecasts": _forecasts,
    "predictions": _predictions,
}
"""The figures by their names."""


def _label(name: str) -> str:
    return shortened(name) if name != HIDDEN else name


def _chart(rows: Rows = _LATER) -> Any:
    import altair

    return altair.Chart(altair.Data(values=rows))


def _time(column: str, look: Look | None = None) -> Any:
    """The axis of time, which shows the whole stretch of a look."""
    import altair

    scale: Any = altair.Undefined
    if look is not None:
        # Without code of its own, as the room's policy wants it, Vega reads bounds of facets as expressions alone.
        bounds = [altair.ExprRef(str(moment)) for moment in (look.since, look.until)]
        scale = altair.Scale(domain=bounds, nice=False, clamp=True)
    is_long = look is not None and look.until - look.since > DAY
    axis = altair.Axis(format="%m-%d %H:%M" if is_long else "%H:%M:%S", labelOverlap=True, tickCount=8)
    return altair.X(f"{column}:T", title=None, scale=scale, axis=axis)


def _series(column: str, names: list[str]) -> Any:
    import altair

    scale = altair.Scale(domain=names, scheme="tableau10")
    return altair.Color(f"{column}:N", scale=scale, legend=altair.Legend(title=None, orient="bottom", columns=2))


def _as_document(chart: Any, rows: Rows | None = None) -> Any:
    """Write the document of a chart.

    Args:
        rows: The rows of a chart that was made without: altair would check each of them against Vega's schema.
    """
    document = chart.to_dict()
    return document if rows is None else {**document, "data": {"values": rows}}
