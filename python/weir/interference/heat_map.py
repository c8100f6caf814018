"""The heat map of a matrix of slowdowns, a panel for each policy."""

from pathlib import Path
from typing import TYPE_CHECKING

from weir.interference.slowdowns import Matrix, UnderPolicy
from weir.ways import replacing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.image import AxesImage

_COLUMNS_MAX = 2
_CELL_INCHES = 0.62
_MARGIN_INCHES = 2.3
_TICKS = (1, 1.5, 2, 3, 5, 10, 20, 50, 100, 1000)
_DARK_PART = 0.55
"""Part of the scale from which the words of a cell are light."""


def draw(matrix: Matrix, path: Path) -> None:
    """Draw a heat map.

    Args:
        path: A file whose name ends in .png or .svg, which is replaced.

    Raises:
        ImportError: matplotlib is not installed.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    columns = min(len(matrix.policies), _COLUMNS_MAX)
    lines = -(-len(matrix.policies) // columns)
    side = _CELL_INCHES * len(matrix.tasks) + _MARGIN_INCHES
    figure = Figure(figsize=(side * columns, side * lines), layout="constrained")
    FigureCanvasAgg(figure)
    grid = figure.subplots(lines, columns, squeeze=False)
    most = max(cell.slowdown for each in matrix.policies for cell in each.cells)
    image = None
    for place, each in zip(grid.flat, matrix.policies, strict=False):
        image = _panel(place, matrix, each, max(most, 2.0))
    for place in list(grid.flat)[len(matrix.policies) :]:
        place.set_axis_off()
    if image is not None:
        ticks = [tick for tick in _TICKS if tick <= max(most, 2.0)]
        bar = figure.colorbar(image, ax=grid.ravel().tolist(), shrink=0.6, label="slowdown", ticks=ticks)
        bar.minorticks_off()
        bar.set_ticklabels([f"{tick:g}" for tick in ticks])
    with replacing(path, mode=None) as file:
        figure.savefig(file, format=path.suffix.removeprefix("."), dpi=110)


def _panel(place: "Axes", matrix: Matrix, each: UnderPolicy, most: float) -> "AxesImage":
    """One policy: a line for each task, a column for each interferer, a logarithmic scale from 1 on."""
    from matplotlib.colors import LogNorm

    rows = [[each.slowdown(task, other) for other in matrix.tasks] for task in matrix.tasks]
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
    place.set_xticks(range(len(matrix.tasks)), matrix.tasks, rotation=45, ha="right", fontsize=8)
    place.set_yticks(range(len(matrix.tasks)), matrix.tasks, fontsize=8)
    low, high = each.noise
    place.set_xlabel(f"{matrix.instances} instances that interfere; tasks alone once more: {low:.2f} to {high:.2f}")
    place.set_ylabel("task")
    place.set_title(each.policy)
    return image
