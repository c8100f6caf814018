"""The page *Store*: servers, targets over time, and the day on which each target will be full."""

from collections.abc import Iterator, Sequence
from datetime import datetime

from weir.amounts import Quantity, clock_time, rate_text, share, size, size_text
from weir.history.capacity import Trend, trends
from weir.history.levels import DAY, MINUTE
from weir.room.looks import Look
from weir.room.pages import findings, quotas
from weir.room.panels import Field, Form, Mark, Page, Panel, Text, chosen, table_of
from weir.room.sources import Present, Sources
from weir.room.visitors import Visitor
from weir.store.answers import Status, Target
from weir.store.errors import StoreError
from weir.store.observations import METADATA

_NO_HISTORY = "nothing is recorded of this time; the room records while it runs, and so does `weir record`"


def page(sources: Sources, look: Look, visitor: Visitor) -> Page:
    """Make the page."""
    present = sources.present() if look.is_live else None
    panels = (
        []
        if present is None
        else [findings.panel_of(sources.findings(), visitor, sources.judgements.problem), *_live_panels(present)]
    )
    if present is None:
        panels += [findings.past_panel_of(sources, look, visitor), _past_targets(sources, look)]
    for measure, title in (("load", "Load"), ("rate", "Rate"), ("fill", "Fill"), ("health", "Health")):
        words = _WORDS[measure]
        panels.append(Panel(measure, title, words, figure="targets", query={"measure": measure}, none=_NO_HISTORY))
    panels.append(_capacity(sources, look))
    if present is not None:
        panels.append(quotas.panel_of(sources, visitor))
    return Page(
        "Store",
        tuple(panels),
        tuple(_cards(present)) if present is not None else (),
        notes_of(present),
    )


_WORDS = {
    "load": "The part of the time in which each target and metadata service was at work.",
    "rate": "The bytes that each target read and wrote a second.",
    "fill": "The part of each target that holds bytes.",
    "health": "Whether each target worked, was slow, full, or failed.",
}


def notes_of(present: Present | None) -> tuple[Mark, ...]:
    """What is not known at present."""
    if present is None:
        return ()
    if present.interval is None:
        return (Mark(present.problem, "bad"),)
    return tuple(_silent_words(error) for error in present.interval.silent.values())


def _silent_words(error: StoreError) -> Mark:
    return Mark(error.line, "bad")


def _cards(present: Present) -> Iterator[tuple[str, str]]:
    if present.interval is None:
        return
    from weir.store.room import together

    shown = present.interval
    targets = [target for state in present.states for target in state.targets]
    capacity, _ = together(targets) if targets else (0, 0)
    used = sum(target.used_bytes for target in targets)
    length = shown.seconds
    yield "servers", f"{len(shown.up)} of {len(shown.up) + len(shown.silent)}"
    yield "targets", str(len(targets))
    yield "held", f"{size_text(used)} of {size_text(capacity)}"
    yield "read", rate_text(sum(each.job.bytes_read for each in shown.jobs) / length)
    yield "written", rate_text(sum(each.job.bytes_written for each in shown.jobs) / length)
    yield "jobs at work", str(sum(1 for each in shown.jobs if each.job.operations))
    if shown.sharing is not None:
        yield "policy", " by ".join(shown.sharing)


def _live_panels(present: Present) -> Iterator[Panel]:
    header = ("server", "version", "state", "up since", "inodes", "processors", "memory", "network", "journal")
    rows = [_server_row(state) for state in present.states]
    silent = present.interval.silent if present.interval else {}
    rows += [(str(number), "-", Mark("no answer", "bad"), *["-"] * 6) for number in silent]
    yield Panel("servers", "Servers", table=table_of(header, rows), none="no store is up in this home")
    loads = {each.device: each for each in present.interval.devices} if present.interval else {}
    header = ("target", "kind", "state", "full", "free", "load", "queued", "achieved", "expected")
    targets = [target for state in present.states for target in state.targets]
    rows = [_target_row(target, loads[target.target].load) for target in targets]
    rows += [
        (name, "metadata", Mark("works", "good"), "-", "-", share(each.load), Quantity(str(each.queued)), "-", "-")
        for name, each in loads.items()
        if name.endswith(METADATA)
    ]
    forms = tuple(_target_forms(targets))
    title = "Targets and metadata services"
    yield Panel("devices", title, table=table_of(header, rows), none="there are none", forms=forms)


def _target_forms(targets: Sequence[Target]) -> Iterator[Form]:
    is_open = [target.target for target in targets if target.state == "open"]
    leaving = [target.target for target in targets if target.state != "open"]
    for change, title, names in (("drain", "Drain it", is_open), ("open", "Open it again", leaving)):
        if names:
            yield Form(change, title, (Field("target", "Target", choices=chosen(names)),))
    if targets:
        rates = (Field("read", "read", example="200MB/s"), Field("write", "write", example="200MB/s"))
        names = [target.target for target in targets]
        yield Form("speed", "Emulate a speed", (Field("target", "Target", choices=chosen(names)), *rates))


def _server_row(state: Status) -> tuple[Text, ...]:
    journal = state.journal
    kept = "none" if journal is None else journal.state
    works = journal is None or journal.state == "works"
    return (
        str(state.server),
        state.version,
        Mark(state.state, "good" if state.state == "open" else "odd"),
        _age(state.uptime_seconds),
        Quantity(f"{state.inodes:,}"),
        *(Quantity("-") if part is None else share(part) for part in _machine(state)),
        Mark(kept, "good" if works else "bad"),
    )


def _machine(state: Status) -> tuple[float | None, float | None, float | None]:
    return state.load.processors, state.load.memory, state.load.network


def _target_row(target: Target, load: float) -> tuple[Text, ...]:
    fill = target.used_bytes / target.capacity_bytes if target.capacity_bytes else 1.0
    return (
        target.target,
        target.backend,
        _state_of(target, fill),
        share(fill),
        size(max(target.capacity_bytes - target.used_bytes, 0)),
        share(load),
        Quantity(str(target.queued)),
        _rate(target.achieved_bytes_per_second),
        _rate(target.expected_bytes_per_second),
    )


def _state_of(target: Target, fill: float) -> Mark:
    if target.trouble is not None:
        return Mark("failed", "bad")
    if fill >= 1.0:
        return Mark("full", "bad")
    if target.slow_since is not None:
        return Mark("slow", "odd")
    return Mark(target.state, "good" if target.state == "open" else "odd")


def _past_targets(sources: Sources, look: Look) -> Panel:
    header = ("target", "state", "held", "capacity", "full")
    rows: list[tuple[Text, ...]] = []
    with sources.history() as history:
        states = {} if history is None else history.states(look.until)
    for name, state in sorted(states.items(), key=lambda item: order(item[0])):
        held, capacity = state["used_bytes"], state["capacity_bytes"]
        if capacity is None:
            continue
        mark = Mark("failed", "bad") if state["is_failed"] else Mark("slow", "odd")
        is_odd = state["is_failed"] or state["slow_since"] is not None
        words = mark if is_odd else Mark("works", "good")
        rows.append((name, words, size(held), size(capacity), share(held / capacity if capacity else 1.0)))
    return Panel("devices", "Targets then", table=table_of(header, rows), none=_NO_HISTORY)


def _capacity(sources: Sources, look: Look) -> Panel:
    header = ("target", "held", "capacity", "grows a day", "full on")
    minute = look.until // MINUTE
    found = sources.kept(("trends", minute), lambda history: trends(history, look.until)) or []
    words = "A line through what each target held in the last fourteen days; an hour must be known."
    rows = [_trend_row(each, look.until) for each in found]
    return Panel("capacity", "Capacity trend", words, table_of(header, rows), none=_NO_HISTORY)


def _trend_row(trend: Trend, at: int) -> tuple[Text, ...]:
    grows: Text = Quantity("-")
    if trend.bytes_per_day is not None:
        grows = Quantity(f"{'-' if trend.bytes_per_day < 0 else ''}{size_text(abs(trend.bytes_per_day))}")
    day: Text = "not known yet" if trend.bytes_per_day is None else "not within ten years"
    if trend.full_at is not None:
        text = datetime.fromtimestamp(trend.full_at / 1000).strftime("%Y-%m-%d")
        day = Mark(text, "bad" if trend.full_at - at < 7 * DAY else "odd")
    return (trend.target, size(trend.used_bytes), size(trend.capacity_bytes), grows, day)


def order(device: str) -> tuple[int, int]:
    """The place of a device among others: by server, then by index, metadata services last."""
    server, _, index = device.partition(".")
    return int(server), int(index) if index.isdecimal() else 1 << 30


def _age(seconds: float) -> str:
    return clock_time(datetime.now().timestamp() - seconds)


def _rate(bytes_per_second: float | None) -> Quantity:
    return Quantity("-" if bytes_per_second is None else rate_text(bytes_per_second))
