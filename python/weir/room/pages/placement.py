"""The page *Placement*: how stripes were spread over targets, predictions that were refused, and moves under way."""

from weir.amounts import Quantity, seconds, share, size
from weir.room.looks import Look
from weir.room.pages.store import notes_of, order
from weir.room.panels import Page, Panel, Table, Text, table_of
from weir.room.sources import Present, Sources
from weir.room.visitors import Visitor


def page(sources: Sources, look: Look, visitor: Visitor) -> Page:
    """Make the page."""
    if not look.is_live:
        panel = Panel("allocators", "Allocators", table=_allocators(sources, look), none="nothing is recorded of then")
        return Page("Placement", (panel,))
    present = sources.present()
    allocators = sorted({state.allocator for state in present.states})
    return Page(
        "Placement",
        (_targets(present), _counts(present), _leaving(present)),
        (("allocator", ", ".join(allocators) or "-"),),
        notes_of(present),
    )


def _allocators(sources: Sources, look: Look) -> Table:
    rows: list[tuple[Text, ...]] = []
    with sources.history() as history:
        in_force = {} if history is None else history.in_force(look.until)
    rows += [(str(server), value or "-") for (server, subject), value in in_force.items() if subject == "allocator"]
    return table_of(("server", "allocator"), rows)


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
    return Panel("moves", "Moves under way", table=table_of(header, rows), none="no target is retiring")
