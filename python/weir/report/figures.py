"""The figures of a page, as SVG. Series differ by hatches, marks and labels, so that a page needs no colour."""

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from weir.plain_text import plain
from weir.report.facts import Facts, Phase, Target, Transfers
from weir.simulation.report.drawing import COLOURS, OTHERS, draw, spread_legend

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Panel = Callable[["Axes"], None]

_HATCHES = ("", "///", "...", "xxx", "\\\\\\", "++")
_OTHER_JOBS_MAX = 4
"""Most other jobs with a hatch of their own."""
_TARGETS_MAX = 24
_DARK = "#1c2025"
_MIB = 1 << 20


def timeline(facts: Facts, words: str) -> str | None:
    """Draw the phases with what was possible, and the waits below.

    Returns:
        The figure as an `svg` element; None where no phase moved a byte.
    """
    phases = [phase for phase in facts.phases if phase.bytes]
    if not phases:
        return None
    panels: list[Panel] = [lambda place: _draw_phases(place, facts, phases)]
    inches = [2.9]
    if any(wait.seconds for wait in facts.waits):
        panels.append(lambda place: _draw_waits(place, facts))
        inches.append(1.7)
    return draw("timeline", inches, panels, words)


def targets(facts: Facts, words: str) -> str | None:
    """Draw the bytes of each target and the time that it worked.

    Returns:
        The figure as an `svg` element; None where no target is known.
    """
    shown = sorted((each for each in facts.targets if not each.is_metadata), key=lambda each: (-each.bytes, each.name))[
        :_TARGETS_MAX
    ]
    if len(shown) < 2 or not any(each.bytes for each in shown):
        return None
    shown.sort(key=lambda each: _numbers(each.name))
    return draw("targets", [max(1.6, 0.24 * len(shown) + 0.7)], [lambda place: _draw_targets(place, shown)], words)


def accesses(facts: Facts, words: str) -> str | None:
    """Draw how many accesses were small, astray or unaligned.

    Returns:
        The figure as an `svg` element; None where nothing of that is known.
    """
    rows = list(_access_rows(facts))
    if not rows:
        return None
    return draw("accesses", [0.42 * len(rows) + 0.8], [lambda place: _draw_accesses(place, rows)], words)


def _numbers(name: str) -> tuple[Any, ...]:
    """Targets in the order of their numbers."""
    return tuple((int(part), "") if part.isdigit() else (-1, part) for part in name.replace("OST ", "").split("."))


def _draw_phases(place: "Axes", facts: Facts, phases: Sequence[Phase]) -> None:
    marks = {"read": ("R", ""), "write": ("W", "///"), "mixed": ("R+W", "..."), "metadata": ("", "")}
    for phase in phases:
        width = max(phase.end - phase.begin, facts.seconds / 400)
        if phase.possible:
            place.bar(
                phase.begin, phase.possible / _MIB, width, align="edge", facecolor="none", edgecolor=_DARK,
                linestyle="--", linewidth=1.0,
            )  # fmt: skip
        if phase.owed:
            place.plot([phase.begin, phase.begin + width], [phase.owed / _MIB] * 2, color=_DARK, linewidth=2.4)
        letter, hatch = marks[phase.kind]
        place.bar(
            phase.begin, phase.achieved / _MIB, width, align="edge", facecolor=COLOURS[0] if hatch == "" else "#9cc3de",
            edgecolor=_DARK, hatch=hatch, linewidth=0.6,
        )  # fmt: skip
        place.annotate(
            letter, (phase.begin + width / 2, phase.achieved / _MIB), xytext=(0, 3), textcoords="offset points",
            ha="center", fontsize=9,
            bbox={"boxstyle": "round,pad=0.1", "facecolor": "white", "edgecolor": "none", "alpha": 0.85},
        )  # fmt: skip
    _legend_of_phases(place, phases)
    place.set_xlim(0, max(facts.seconds, phases[-1].end))
    place.set_ylim(bottom=0)
    place.margins(y=0.15)
    place.set_ylabel("MiB/s")
    place.set_xlabel("seconds from the job's begin")
    place.set_title("Phases")


def _legend_of_phases(place: "Axes", phases: Sequence[Phase]) -> None:
    entries = 0
    for kind, label, colour, hatch in (
        ("read", "reads (R)", COLOURS[0], ""),
        ("write", "writes (W)", "#9cc3de", "///"),
        ("mixed", "both (R+W)", "#9cc3de", "..."),
    ):
        if any(phase.kind == kind for phase in phases):
            place.bar([0], [0], color=colour, hatch=hatch, edgecolor=_DARK, label=label)
            entries += 1
    if any(phase.possible for phase in phases):
        place.bar([0], [0], facecolor="none", edgecolor=_DARK, linestyle="--", label="possible")
        entries += 1
    if any(phase.owed for phase in phases):
        place.plot([], [], color=_DARK, linewidth=2.4, label="owed")
        entries += 1
    spread_legend(place, entries)


def _draw_waits(place: "Axes", facts: Facts) -> None:
    sums: dict[str, float] = {}
    for wait in facts.waits:
        sums[_other(wait.job, wait.user)] = sums.get(_other(wait.job, wait.user), 0.0) + wait.seconds
    named = sorted(sums, key=lambda name: -sums[name])[:_OTHER_JOBS_MAX]
    begins = sorted({wait.begin for wait in facts.waits})
    usual = min((after - before for before, after in pairwise(begins)), default=max(facts.seconds / 100, 0.1))
    heights = dict.fromkeys(begins, 0.0)
    for number, name in enumerate([*named, *(name for name in sums if name not in named)]):
        mine: dict[float, float] = {}
        for wait in facts.waits:
            if _other(wait.job, wait.user) == name:
                mine[wait.begin] = mine.get(wait.begin, 0.0) + wait.seconds
        is_named = number < _OTHER_JOBS_MAX
        label = name if is_named else "others" if number == _OTHER_JOBS_MAX else "_"
        place.bar(
            list(mine), list(mine.values()), usual, bottom=[heights[each] for each in mine], align="edge",
            color=COLOURS[(number + 1) % len(COLOURS)] if is_named else OTHERS, edgecolor=_DARK, linewidth=0.3,
            hatch=_HATCHES[min(number, len(_HATCHES) - 1)], label=label,
        )  # fmt: skip
        for begin, seconds in mine.items():
            heights[begin] += seconds
    place.set_xlim(0, max(facts.seconds, max(begins) + usual))
    place.set_ylabel("seconds")
    place.set_xlabel("seconds from the job's begin")
    place.set_title("Device time of others while it waited")
    spread_legend(place, min(len(sums), _OTHER_JOBS_MAX + 1))


def _other(job: str, user: str) -> str:
    name = f"{plain(job)} ({plain(user)})" if job else "not named"
    return name if len(name) <= 28 else f"{name[:27]}…"


def _draw_targets(place: "Axes", shown: Sequence[Target]) -> None:
    rows = range(len(shown))
    place.barh(
        [row - 0.2 for row in rows], [each.bytes / _MIB for each in shown], 0.38, color="#9cc3de", hatch="///",
        edgecolor=_DARK, linewidth=0.6, label="MiB moved",
    )  # fmt: skip
    place.set_yticks(rows, [each.name + (" (slow)" if each.is_slow else "") for each in shown])
    place.set_ylim(len(shown) - 0.4, -0.6)
    place.grid(visible=False, axis="y")
    place.set_xlabel("MiB moved (hatched)")
    beside = place.twiny()
    beside.barh(
        [row + 0.2 for row in rows], [each.seconds for each in shown], 0.38, color=COLOURS[0], edgecolor=_DARK,
        linewidth=0.6, label="seconds at work",
    )  # fmt: skip
    beside.set_xlabel("seconds at work (plain)")
    beside.grid(visible=False)
    beside.spines["top"].set_visible(True)


Row = tuple[str, int, int, str]
"""Title, faulty accesses, all that are known, and the word for the faulty ones."""


def _access_rows(facts: Facts) -> "list[Row]":
    found: list[Row] = []
    ways: tuple[tuple[str, Transfers], ...] = (("reads", facts.accesses.reads), ("writes", facts.accesses.writes))
    for title, each in ways:
        if each.sized:
            found.append((f"{title}: size", each.small, each.sized, "below 1 MiB"))
        if each.placed:
            found.append((f"{title}: order", each.astray, each.placed, "astray"))
    if facts.accesses.alignable:
        found.append(("alignment", facts.accesses.unaligned, facts.accesses.alignable, "unaligned"))
    return found


def _draw_accesses(place: "Axes", rows: Sequence[Row]) -> None:
    for row, (_, faulty, known, word) in enumerate(rows):
        part = 100 * faulty / known
        place.barh(row, part, 0.6, color="#d9822b", hatch="xxx", edgecolor=_DARK, linewidth=0.6)
        place.barh(row, 100 - part, 0.6, left=part, color="#e3e6ea", edgecolor=_DARK, linewidth=0.6)
        is_left = part < 55
        place.annotate(
            f"{part:.0f} % {word} ({faulty:,} of {known:,})", (part if is_left else 1, row),
            xytext=(4, 0), textcoords="offset points", va="center", fontsize=9,
            bbox={"boxstyle": "round,pad=0.15", "facecolor": "white", "edgecolor": "none", "alpha": 0.85},
        )  # fmt: skip
    place.set_yticks(range(len(rows)), [title for title, *_ in rows])
    place.set_ylim(len(rows) - 0.5, -0.5)
    place.set_xlim(0, 100)
    place.grid(visible=False, axis="y")
    place.set_xlabel("% of the accesses")
