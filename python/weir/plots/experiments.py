"""The plots of ThemisIO's experiments, as `weir bench` runs them."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weir.experiments.figures import Figure, Panel
from weir.experiments.jobs import Job
from weir.experiments.windows import Row
from weir.plots.canvas import grid, picture, plain_logarithm

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import FigureBase

_COLUMNS_MAX = 3
_PLOT_INCHES = (5.2, 3.7)
_OWED: dict[str, Any] = {"color": "black", "linestyle": ":", "linewidth": 1.2, "zorder": 3}
_LINEAR_MAX = 6
"""Most lines on a linear scale; more lines are drawn on a logarithmic one, down to a small part of the whole."""
_LEAST_PART = 0.02
_TITLES = {"name": "each job", "user": "each user", "group": "each group"}


def experiment(found: Figure, *, figure: "FigureBase | None" = None) -> "list[Axes]":
    """Plot the throughput or the shares of each job of an experiment over time, a panel for each run and grouping.

    Args:
        found: Results of `weir.experiments.figures.run`.
        figure: Figure to fill; None makes one.

    Returns:
        The axes of each panel; none where nothing was run.

    Raises:
        ImportError: matplotlib is not installed.
    """
    plots = [(panel, grouping) for panel in found.panels if panel.rows for grouping in panel.groupings]
    if not plots:
        return []
    title = f"{found.title} (targets of {found.options.speed})"
    columns = 2 if len(plots) == 4 else _COLUMNS_MAX
    places = grid(figure, len(plots), columns_max=columns, inches=_PLOT_INCHES, title=title)
    for place, (panel, grouping) in zip(places, plots, strict=True):
        _draw_panel(place, panel, grouping)
    return places


def draw(found: Figure, folder: Path) -> Path | None:
    """Draw an experiment into `NAME.png`.

    Args:
        found: Results of the experiment.
        folder: Folder of the picture.

    Returns:
        Path of the picture; None where nothing was run.

    Raises:
        ImportError: matplotlib is not installed.
    """
    if not any(panel.rows for panel in found.panels):
        return None
    path = folder / f"{found.name}.png"
    with picture(path) as figure:
        experiment(found, figure=figure)
    return path


def _draw_panel(place: "Axes", panel: Panel, grouping: str) -> None:
    """One run, its jobs added up by `grouping`."""
    of_shares = panel.convergence is not None
    jobs = {job.name: job for job in panel.jobs}
    totals = _curve(panel.rows, lambda row: _megabytes(panel, row))
    labels = list(dict.fromkeys(_label(job, grouping) for job in panel.jobs))
    for number, label in enumerate(labels):
        of_label = [row for row in panel.rows if _label(jobs[row.job], grouping) == label]
        received = _curve(
            of_label, lambda row: 100 * (row.share_device or 0.0) if of_shares else _megabytes(panel, row)
        )
        owed = _curve(of_label, lambda row: (row.share_owed or 0.0) * (100 if of_shares else totals[row.window]))
        edges = [window * panel.window_seconds for window in range(len(received) + 1)]
        # The first line is the widest, so that lines on each other are all visible.
        width = 1.5 + 3 * (len(labels) - 1 - number) / len(labels)
        place.stairs(received, edges, baseline=None, label=label, linewidth=width)
        # A job without work is owed nothing, which is not drawn.
        place.stairs([value or math.nan for value in owed], edges, baseline=None, **_OWED)
    if any(row.share_owed for row in panel.rows):
        place.stairs([math.nan], [0, 0], baseline=None, label="owed", **_OWED)
    if panel.convergence is not None and panel.convergence.right_seconds is not None:
        label = f"weights right after {1000 * panel.convergence.right_seconds:.0f} ms"
        place.axvline(panel.convergence.right_seconds, color="black", linewidth=1, linestyle="--", label=label)
    place.set_title(panel.title if len(panel.groupings) == 1 else f"{panel.title}: {_TITLES[grouping]}", fontsize=10)
    place.set_xlabel("time (s)")
    place.set_ylabel("share of the targets' time (%)" if of_shares else "throughput (MB/s)")
    if len(labels) > _LINEAR_MAX:
        # The small shares of many jobs are told apart.
        plain_logarithm(place)
        place.set_ylim(_LEAST_PART * max(totals), 6 * max(totals))
    else:
        place.set_ylim(bottom=0, top=100 if of_shares else 1.32 * max(totals))
    place.grid(alpha=0.3)
    place.legend(fontsize=7, ncols=3 if len(labels) > _LINEAR_MAX else 2, loc="upper center")


def _curve(rows: list[Row], value: Callable[[Row], float]) -> list[float]:
    """The sum of `value` over the rows of each window, window after window."""
    sums: dict[int, float] = {}
    for row in rows:
        sums[row.window] = sums.get(row.window, 0.0) + value(row)
    return list(sums.values())


def _megabytes(panel: Panel, row: Row) -> float:
    """Throughput, in MB/s."""
    return row.bytes_total / panel.window_seconds / 1e6


def _label(job: Job, grouping: str) -> str:
    if grouping == "name":
        nodes = f"{job.nodes} node{'s' if job.nodes > 1 else ''}"
        return f"{job.name}, {nodes}"
    return str(getattr(job, grouping))
