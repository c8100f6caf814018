"""The heat map of a matrix of slowdowns, a panel for each policy."""

from typing import TYPE_CHECKING

from weir.plots.canvas import grid

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import FigureBase
    from matplotlib.image import AxesImage

    from weir.interference.slowdowns import Matrix, UnderPolicy

_COLUMNS_MAX = 2
_CELL_INCHES = 0.62
_MARGIN_INCHES = 2.3
_TICKS = (1, 1.5, 2, 3, 5, 10, 20, 50, 100, 1000)
_DARK_PART = 0.55
"""Part of the scale from which the words of a cell are light."""


def matrix(found: "Matrix", *, figure: "FigureBase | None" = None) -> "list[Axes]":
    """Plot how much tasks slow each other, a panel for each policy.

    Args:
        found: A matrix of slowdowns, as `weir.interference.slowdowns` measures or reads it.
        figure: Figure to fill; None makes one.

    Returns:
        The axes of each panel.

    Raises:
        ImportError: matplotlib is not installed.
    """
    side = _CELL_INCHES * len(found.tasks) + _MARGIN_INCHES
    places = grid(figure, len(found.policies), columns_max=_COLUMNS_MAX, inches=(side, side))
    most = max(2.0, *(cell.slowdown for each in found.policies for cell in each.cells))
    images = [_panel(place, found, each, most) for place, each in zip(places, found.policies, strict=True)]
    ticks = [tick for tick in _TICKS if tick <= most]
    bar = places[0].figure.colorbar(images[-1], ax=places, shrink=0.6, label="slowdown", ticks=ticks)
    bar.minorticks_off()
    bar.set_ticklabels([f"{tick:g}" for tick in ticks])
    return places


def _panel(place: "Axes", found: "Matrix", each: "UnderPolicy", most: float) -> "AxesImage":
    """One policy: a line for each task, a column for each interferer, a logarithmic scale from 1 on."""
    from matplotlib.colors import LogNorm

    rows = [[each.slowdown(task, other) for other in found.tasks] for task in found.tasks]
    image = place.imshow(rows, cmap="YlOrRd", norm=LogNorm(1.0, most))
    for row, values in enumerate(rows):
        for column, value in enumerate(values):
            is_dark = value > most**_DARK_PART
            place.text(
                column,
                row,
                f"{value:.3g}",
                ha="center",
                va="center",
                fontsize=8,
                color="white" if is_dark else "black",
            )
    place.set_xticks(range(len(found.tasks)), found.tasks, rotation=45, ha="right", fontsize=8)
    place.set_yticks(range(len(found.tasks)), found.tasks, fontsize=8)
    low, high = each.noise
    place.set_xlabel(f"{found.instances} instances that interfere; tasks alone once more: {low:.2f} to {high:.2f}")
    place.set_ylabel("task")
    place.set_title(each.policy)
    return image
