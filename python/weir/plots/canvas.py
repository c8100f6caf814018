"""The figures of plots: made by pyplot for a notebook, or by no global state for a file; and grids of axes in them."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from weir.distribution import install_command
from weir.ways import replacing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, FigureBase

_DPI = 110


def axes_of(ax: "Axes | None", inches: tuple[float, float]) -> "Axes":
    """Find the axes of a plot.

    Args:
        ax: Axes of the caller; None makes a figure of pyplot's, which a notebook shows.
        inches: Width and height of a new figure.

    Raises:
        ImportError: matplotlib is not installed.
    """
    if ax is not None:
        return ax
    _need_matplotlib()
    from matplotlib import pyplot

    return pyplot.subplots(figsize=inches, layout="constrained")[1]


def grid(
    figure: "FigureBase | None", panels: int, *, columns_max: int, inches: tuple[float, float], title: str = ""
) -> "list[Axes]":
    """Fill a figure with panels, row by row.

    Args:
        figure: Figure of the caller, whose size is set; None makes one of pyplot's, which a notebook shows.
        panels: Number of panels, at least 1.
        columns_max: Most panels of a row.
        inches: Width and height of a panel.

    Returns:
        The axes of each panel.

    Raises:
        ImportError: matplotlib is not installed.
    """
    _need_matplotlib()
    from matplotlib.figure import Figure

    columns = min(panels, columns_max)
    rows = -(-panels // columns)
    size = (inches[0] * columns, inches[1] * rows + (0.5 if title else 0.0))
    if figure is None:
        from matplotlib import pyplot

        figure = pyplot.figure(figsize=size, layout="constrained")
    elif isinstance(figure, Figure):
        figure.set_size_inches(*size)
    if title:
        figure.suptitle(title)
    places = list(figure.subplots(rows, columns, squeeze=False).flat)
    for place in places[panels:]:
        place.set_axis_off()
    return places[:panels]


@contextmanager
def picture(path: Path) -> "Iterator[Figure]":
    """Make a figure that is written to a file at the end of the block.

    Args:
        path: A file whose name ends in .png or .svg, which is replaced.

    Yields:
        The figure, which pyplot does not know.

    Raises:
        ImportError: matplotlib is not installed.
        OSError: The file cannot be written.
    """
    _need_matplotlib()
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(layout="constrained")
    FigureCanvasAgg(figure)
    yield figure
    with replacing(path, mode=None) as file:
        figure.savefig(file, format=path.suffix.removeprefix("."), dpi=_DPI)


def plain_logarithm(place: "Axes") -> None:
    """Make the vertical axis logarithmic, with plain numbers."""
    from matplotlib.ticker import LogLocator, NullFormatter, ScalarFormatter

    place.set_yscale("log")
    place.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    place.yaxis.set_major_formatter(ScalarFormatter())
    place.yaxis.set_minor_formatter(NullFormatter())


def literal(place: "Axes") -> "Axes":
    """Show the texts of axes as they are: names of jobs are foreign, and a dollar in them begins no formula.

    Returns:
        The same axes.
    """
    from matplotlib.text import Text

    for text in place.findobj(Text):
        text.set_parse_math(False)
    return place


def _need_matplotlib() -> None:
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        lacking = ImportError("matplotlib is not installed", name="matplotlib")
        lacking.add_note(f"hint: {install_command('plots')}")
        raise lacking from error
