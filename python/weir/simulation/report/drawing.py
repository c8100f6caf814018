"""The common part of the figures: their look, and their way into the page as SVG."""

import io
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLOURS = ("#2b6a99", "#d9822b", "#3d8f6a", "#a8465c", "#7660a8", "#8c6d46", "#4f9fb3", "#b0892f")
"""Colours of runs and of jobs, which keep apart in print and for the colour-blind as far as eight can."""
OTHERS = "#b9bec4"
"""Colour of all jobs without a colour of their own."""
OWED = "#1c2025"
"""Colour of the marks of shares owed."""
_WIDTH_INCHES = 9.4
_LOOK: dict[str, Any] = {
    "axes.axisbelow": True,
    "axes.edgecolor": "#8a9099",
    "axes.grid": True,
    "axes.labelcolor": "#343a42",
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 10.5,
    "axes.titleweight": "bold",
    "figure.constrained_layout.use": True,
    "font.family": "sans-serif",
    "font.size": 9.5,
    "grid.color": "#e3e6ea",
    "grid.linewidth": 0.8,
    "legend.frameon": False,
    "legend.fontsize": 9,
    "svg.fonttype": "none",
    # Names of jobs are foreign: a dollar begins no formula.
    "text.parse_math": False,
    "xtick.color": "#343a42",
    "ytick.color": "#343a42",
}
_PRINTED_DPI = 160
"""Dots of the parts of a figure that are no lines: the cells of a map of the targets."""


@contextmanager
def _looks(name: str) -> Iterator[None]:
    import matplotlib

    look: Any = {**_LOOK, "svg.hashsalt": name}
    with matplotlib.rc_context(look):
        yield


def draw(name: str, inches: Sequence[float], panels: Sequence[Callable[["Axes"], None]], words: str) -> str:
    """Draw a figure of panels, one below the other.

    Args:
        name: Name of the figure, unique in its page.
        inches: Height of each panel.
        panels: Draws each panel.
        words: The figure in words, for readers who do not see it.

    Returns:
        The figure as an `svg` element.
    """
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    with _looks(name):
        figure = Figure(figsize=(_WIDTH_INCHES, sum(inches) + 0.15))
        FigureCanvasSVG(figure)
        grid = figure.subplots(len(panels), 1, squeeze=False, height_ratios=list(inches))
        for place, panel in zip(grid.flat, panels, strict=True):
            panel(place)
        text = io.StringIO()
        figure.savefig(text, format="svg", dpi=_PRINTED_DPI, metadata={"Date": None, "Creator": None})
    return _embedded(name, text.getvalue(), words)


def bars_of_shares(place: "Axes", rows: Sequence[tuple[str, float | None, float]]) -> None:
    """Draw shares of time: a bar for each share received, and a mark for each share owed.

    Args:
        rows: Name, share owed (None where nothing is owed) and share received of each job, as parts of 1.
    """
    places = range(len(rows))
    place.barh(places, [100 * received for _, _, received in rows], 0.62, color=COLOURS[0], label="received")
    is_labelled = False
    for row, (_, owed, _) in enumerate(rows):
        if owed is None:
            continue
        (mark,) = place.plot(
            [100 * owed] * 2, [row - 0.42, row + 0.42], color=OWED, linewidth=2.0, solid_capstyle="butt"
        )
        mark.set_label("_" if is_labelled else "owed")
        is_labelled = True
    place.set_yticks(places, [name for name, _, _ in rows])
    place.set_ylim(len(rows) - 0.4, -0.6)
    place.set_xlim(left=0)
    place.grid(visible=False, axis="y")
    place.set_xlabel("part of the targets' time (%)")
    spread_legend(place, 2)


def spread_legend(place: "Axes", entries: int) -> None:
    """Put the legend of a panel above it, in as many columns as fit."""
    columns = min(entries, 5)
    lines = -(-entries // columns) if columns else 0
    place.legend(loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=columns, borderaxespad=0.2, handlelength=1.2)
    if lines > 1:
        # The title stands beside one line of a legend, and above several.
        place.set_title(place.get_title(loc="left"), loc="left", pad=6 + 13 * lines)


def _distinct(name: str, seen: dict[str, int]) -> str:
    """A name of an element that no element before has."""
    seen[name] = seen.get(name, 0) + 1
    return name if seen[name] == 1 else f"{name}-{seen[name]}"


def _embedded(name: str, document: str, words: str) -> str:
    """An SVG document as an element of a page with others."""
    from html import escape

    _, _, body = document.partition("<svg ")
    # Two figures of one page share no names. An image that a figure has twice is there twice by one name.
    body = re.sub(r'(\bid="|href="#|url\(#)', rf"\1{name}-", body)
    seen: dict[str, int] = {}
    body = re.sub(r'\bid="([^"]*)"', lambda found: f'id="{_distinct(found[1], seen)}"', body)
    body = re.sub(r'\b(width|height)="[\d.]+pt" ?', "", body, count=2)
    return f'<svg role="img" aria-label="{escape(words, quote=True)}" {body}'.strip()
