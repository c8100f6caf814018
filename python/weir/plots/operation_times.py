"""Times of single operations alone and among others (the interference paper's figure 1), a picture for each target."""

import math
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from weir.plots.canvas import grid, picture, plain_logarithm
from weir.ways import make_folders

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import FigureBase

    from weir.interference.labels import Operation
    from weir.interference.plan import Case, Loaded

_PANEL_INCHES = (9.0, 3.0)
_SMOOTHED = 100
"""Times are smoothed by a moving mean over this part of the operations."""
_SMOOTHED_MIN = 5
"""Least number of operations of the moving mean."""
Key = tuple[str, str, int]


def operations(loaded: "Loaded", folder: Path, target: str, *, figure: "FigureBase | None" = None) -> "list[Axes]":
    """Plot the times of a program's single operations alone and among others.

    Args:
        loaded: Plan of a data set that `weir interference collect` made.
        folder: Folder of the data set.
        target: Name of the program among the plan's targets; it is a kernel, and has interferers.
        figure: Figure to fill; None makes one.

    Returns:
        The axes: instances of one interferer, and kinds of interferers where there are several.

    Raises:
        ImportError: matplotlib is not installed.
        InterferenceError: A record of operations cannot be read.
    """
    runs = _runs(loaded, target)
    order, alone = _baseline(runs, folder)
    panels = panels_of(runs)
    title = f"{target}: {len(order)} operations"
    places = grid(figure, len(panels), columns_max=1, inches=_PANEL_INCHES, title=title)
    for place, (heading, levels) in zip(places, panels.items(), strict=True):
        _line(place, "alone", alone)
        for name, chosen in levels.items():
            times = medians(chosen, folder)
            _line(place, name, [times.get(key, math.nan) for key in order])
        place.set_title(heading, fontsize=10)
        place.set_xlabel("operation")
        place.set_ylabel("time (ms)")
        plain_logarithm(place)
        place.grid(alpha=0.3)
        place.legend(fontsize=7, loc="upper right", ncols=4)
    return places


def draw(loaded: "Loaded", folder: Path) -> list[Path]:
    """Draw the operations of a data set that `weir interference collect` made.

    Args:
        loaded: Plan of the data set.
        folder: Folder of the data set; the pictures are in `plots` below it.

    Returns:
        Paths of the pictures, one for each target that is a kernel and has interferers.

    Raises:
        ImportError: matplotlib is not installed.
        InterferenceError: A record of operations cannot be read.
    """
    drawn = []
    for target in loaded.plan.target:
        if target.kernel is not None and any(case.interferer for case in _runs(loaded, target.name)):
            make_folders(folder / "plots")
            path = folder / "plots" / f"{target.name}.png"
            with picture(path) as figure:
                operations(loaded, folder, target.name, figure=figure)
            drawn.append(path)
    return drawn


def _runs(loaded: "Loaded", target: str) -> "list[Case]":
    from weir.interference.plan import cases

    return [case for case in cases(loaded.plan) if case.target.name == target]


def panels_of(runs: "Sequence[Case]") -> "dict[str, dict[str, list[Case]]]":
    """Choose the lines of a target's picture.

    Args:
        runs: All runs of the target.

    Returns:
        Runs by line and panel: numbers of instances of the interferer that has most of them (figure 1a), and every
        interferer with its most instances (figure 1b) where there are several.
    """
    levels: dict[str, dict[int, list[Case]]] = {}
    for case in runs:
        if case.interferer is not None:
            levels.setdefault(case.interferer.name, {}).setdefault(case.instances, []).append(case)
    varied = max(levels, key=lambda name: len(levels[name]))
    panels = {f"instances of {varied}": {str(count): levels[varied][count] for count in sorted(levels[varied])}}
    if len(levels) > 1:
        panels["kinds of interferers"] = {
            f"{max(of_name)} x {name}": of_name[max(of_name)] for name, of_name in levels.items()
        }
    return panels


def _baseline(runs: "Sequence[Case]", folder: Path) -> tuple[list[Key], list[float]]:
    """The operations in the order of the first run alone, and their median times in seconds."""
    from weir.interference.labels import numbered

    alone = [case for case in runs if case.is_reference]
    times = medians(alone, folder)
    order = [key for key, _ in numbered(_operations(alone[0], folder))]
    return order, [times[key] for key in order]


def medians(runs: "Sequence[Case]", folder: Path) -> dict[Key, float]:
    """The median time of each operation over runs.

    Args:
        folder: Folder of the data set.

    Returns:
        Seconds by kind, place, and number of the operation among those like it.
    """
    from weir.interference.labels import numbered

    times: dict[Key, list[float]] = {}
    for case in runs:
        for key, operation in numbered(_operations(case, folder)):
            times.setdefault(key, []).append(operation.seconds)
    return {key: median(each) for key, each in times.items()}


def _operations(case: "Case", folder: Path) -> "list[Operation]":
    from weir.interference.labels import read_operations

    return read_operations(folder / "runs" / case.name / "operations.csv")


def _line(place: "Axes", name: str, seconds: Sequence[float]) -> None:
    window = max(len(seconds) // _SMOOTHED, _SMOOTHED_MIN)
    place.plot([1e3 * each for each in smoothed(seconds, window)], label=name, linewidth=1.1)


def smoothed(values: Sequence[float], window: int) -> list[float]:
    """Take a moving mean.

    Args:
        values: The values; NaN does not count.
        window: Number of values of a mean, of which half lie on each side.

    Returns:
        As many means; NaN where no value of the window is known.
    """
    half = window // 2
    found = []
    for place in range(len(values)):
        near = [value for value in values[max(place - half, 0) : place + half + 1] if not math.isnan(value)]
        found.append(sum(near) / len(near) if near else math.nan)
    return found
