"""The page *Placement*: how stripes were spread over targets, which files predictions foresaw, and moves under way."""

from collections.abc import Sequence

from weir.amounts import Quantity, clock_time, seconds, share, share_or_dash, size
from weir.room.looks import Look
from weir.room.pages.jobs import link_of
from weir.room.pages.store import notes_of, order
from weir.room.panels import Mark, Page, Panel, Text, table_of
from weir.room.sources import Present, Sources
from weir.room.visitors import Visitor
from weir.store.placement_journal import MOVE_SECONDS, Move, PlacedRun

_SILENT_SECONDS = 4 * MOVE_SECONDS
"""Time without a note after which a mover is not believed to be at work."""
_TARGET = "target "
"""Begin of the subject of a decision about a target."""


def page(sources: Sources, look: Look, visitor: Visitor) -> Page:
    """Make the page."""
    runs = sources.placed_runs(look)
    foreseen = (
        _runs(runs, visitor, look),
        Panel(
            "predictions",
            "Predictions hit over time",
            "The part of its creations that each run made as they were predicted.",
            figure="predictions",
            none="nothing was made under a prediction in this time",
        ),
    )
    moves = _moves(sources.moves(look), visitor, look)
    cards = [("creations as predicted", _hits(runs))] if runs else []
    if not look.is_live:
        return Page("Placement", (*_decided(sources, look), *foreseen, moves), tuple(cards))
    present = sources.present()
    allocators = sorted({state.allocator for state in present.states})
    return Page(
        "Placement",
        (_targets(present), *foreseen, _counts(present), moves, _leaving(present)),
        (("allocator", ", ".join(allocators) or "-"), *cards),
        notes_of(present),
    )


def _runs(runs: Sequence[PlacedRun], visitor: Visitor, look: Look) -> Panel:
    """Show what became of the creations of each run, the last one first."""
    header = ("at", "program", "job", "user", "hit", "placed", "missed", "refused", "there before", "such as")
    words = (
        "Runs by `weir run --placement` of the store's owner. Placed files were made as predicted, missed ones were "
        "not foreseen, layouts of refused ones did not hold, and those that were there before kept theirs."
    )
    none = "no run had predictions in this time: `weir place` makes them, and `weir run --placement` uses them"
    rows = [_run_row(each, visitor, look) for each in reversed(runs)]
    return Panel("runs", "Predictions hit and missed", words, table_of(header, rows), none=none)


def _run_row(run: PlacedRun, visitor: Visitor, look: Look) -> tuple[Text, ...]:
    sees = visitor.sees(run.user)
    return (
        clock_time(run.at),
        run.program if sees else "-",
        link_of(run.job, run.user, visitor, look) if run.job else "-",
        visitor.user_of(run.user),
        share_or_dash(hit_of(run)),
        *(Quantity(f"{count:,}") for count in (run.placed, run.missed, run.refused, run.present)),
        (run.names[0] if run.names else "-") if sees else "-",
    )


def hit_of(run: PlacedRun) -> float | None:
    """The part of a run's creations that were made as predicted; None where it made nothing."""
    made = run.placed + run.missed + run.refused
    return run.placed / made if made else None


def _hits(runs: Sequence[PlacedRun]) -> str:
    placed = sum(run.placed for run in runs)
    return f"{placed:,} of {placed + sum(run.missed + run.refused for run in runs):,}"


def _moves(moves: Sequence[Move], visitor: Visitor, look: Look) -> Panel:
    """Show how far each mover is, or was, the last one first."""
    header = ("begun", "what", "user", "state", "moved", "of", "done", "objects", "stay", "last heard")
    words = "Movers of `weir rebalance`, and of the commands by which targets and servers retire."
    rows = [_move_row(each, visitor, look) for each in sorted(moves, key=lambda each: -each.begun)]
    none = "nothing was moved in this time"
    return Panel("moves", "Moves", words, table_of(header, rows), none=none)


def _move_row(move: Move, visitor: Visitor, look: Look) -> tuple[Text, ...]:
    is_heard = look.until / 1000 - move.at < _SILENT_SECONDS
    state = Mark("over", "good") if move.is_over else Mark("at work", "odd") if is_heard else Mark("silent", "bad")
    return (
        clock_time(move.begun),
        move.what,
        visitor.user_of(move.user),
        state,
        size(move.moved_bytes),
        size(move.planned_bytes),
        share_or_dash(min(move.moved_bytes / move.planned_bytes, 1.0) if move.planned_bytes else None),
        Quantity(f"{move.moved_objects:,}"),
        Quantity(f"{move.left_objects:,}"),
        clock_time(move.at),
    )


def _decided(sources: Sources, look: Look) -> tuple[Panel, Panel]:
    """Show the allocators in force then, and the targets that took no files."""
    with sources.history() as history:
        in_force = {} if history is None else history.in_force(look.until)
    none = "nothing is recorded of then"
    told = in_force.items()
    allocators = [(str(server), value or "-") for (server, subject), value in told if subject == "allocator"]
    closed = [
        (subject.removeprefix(_TARGET), Mark(value, "odd"))
        for (_, subject), value in told
        if subject.startswith(_TARGET) and value not in (None, "open")
    ]
    return (
        Panel("allocators", "Allocators", table=table_of(("server", "allocator"), allocators), none=none),
        Panel("leaving", "Targets that retired", table=table_of(("target", "state"), closed), none="no target did"),
    )


def _targets(present: Present) -> Panel:
    stripes: dict[str, int] = {}
    for state in present.states:
        for name, count in state.placements.targets.items():
            stripes[name] = stripes.get(name, 0) + count
    targets = {target.target: target for state in present.states for target in state.targets}
    total = sum(stripes.values())
    rows: list[tuple[Text, ...]] = []
    for name in sorted(targets.keys() | stripes.keys(), key=order):
        target = targets.get(name)
        count = stripes.get(name, 0)
        part = share(count / total) if total else Quantity("-")
        if target is None:
            rows.append((name, Quantity(f"{count:,}"), part, "-", "-", "-", "-"))
            continue
        ratio = Quantity(f"x{target.speed_ratio:.2f}")
        free = size(max(target.capacity_bytes - target.used_bytes, 0))
        rows.append(
            (name, Quantity(f"{count:,}"), part, target.speed_class, ratio, free, seconds(target.backlog_seconds))
        )
    header = ("target", "stripes", "part", "class", "speed", "free", "backlog")
    words = (
        "Stripes of new files since the servers started, and what the allocator sees of each target: its speed beside "
        "the usual target, its free room, and the time that its waiting requests need."
    )
    return Panel("stripes", "Why files lie where they lie", words, table_of(header, rows), none="no server answers")


def _counts(present: Present) -> Panel:
    rows: list[tuple[Text, ...]] = []
    for state in present.states:
        made, refused = state.placements.stripes, state.placements.refused
        server = str(state.server)
        rows += [(server, f"stripes by {name}", Quantity(f"{count:,}")) for name, count in sorted(made.items())]
        rows += [(server, f"files refused: {name}", Quantity(f"{count:,}")) for name, count in sorted(refused.items())]
    none = "no file was placed since the servers started"
    return Panel("counts", "Placements", table=table_of(("server", "what", "number"), rows), none=none)


def _leaving(present: Present) -> Panel:
    rows: list[tuple[Text, ...]] = [
        (each.target, Quantity(f"{each.objects:,}"), str(state.server))
        for state in present.states
        for each in state.leaving
    ]
    header = ("target", "objects left", "known by server")
    return Panel("leaving", "Targets that retire", table=table_of(header, rows), none="no target is retiring")
