"""Times of single operations alone and among others (the interference paper's figure 1), a picture for each target."""

import math
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from weir.interference.labels import Operation, numbered, read_operations
from weir.interference.plan import Case, Loaded, Program, cases
from weir.ways import make_folders, replacing

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_PANEL_INCHES = (9.0, 3.0)
_SMOOTHED = 100
"""Times are smoothed by a moving mean over this part of the operations."""
_SMOOTHED_MIN = 5
"""Least number of operations of the moving mean."""
Key = tuple[str, str, int]


def draw(loaded: Loaded, folder: Path) -> list[Path]:
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
        runs = [case for case in cases(loaded.plan) if case.target.name == target.name]
        if target.kernel is not None and any(case.interferer for case in runs):
            make_folders(folder / "plots")
            path = folder / "plots" / f"{target.name}.png"
            _draw_target(target, runs, folder, path)
            drawn.append(path)
    return drawn


def _draw_target(target: Program, runs: Sequence[Case], folder: Path, path: Path) -> None:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    order, alone = _baseline(runs, folder)
    panels = panels_of(runs)
    figure = Figure(figsize=(_PANEL_INCHES[0], _PANEL_INCHES[1] * len(panels) + 0.4), layout="constrained")
    FigureCanvasAgg(figure)
    figure.suptitle(f"{target.name}: {len(order)} operations")
    places = figure.subplots(len(panels), 1, squeeze=False)
    for place, (title, levels) in zip(places.flat, panels.items(), strict=True):
        _line(place, "alone", alone)
        for name, chosen in levels.items():
            times = medians(chosen, folder)
            _line(place, name, [times.get(key, math.nan) for key in order])
        place.set_title(title, fontsize=10)
        place.set_xlabel("operation")
        place.set_ylabel("time (ms)")
        _make_logarithmic(place)
        place.grid(alpha=0.3)
        place.legend(fontsize=7, loc="upper right", ncols=4)
    with replacing(path, mode=None) as file:
        figure.savefig(file, format="png", dpi=110)


def _make_logarithmic(place: "Axes") -> None:
    """A logarithmic axis with plain numbers."""
    from matplotlib.ticker import LogLocator, NullFormatter, ScalarFormatter

    place.set_yscale("log")
    place.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    place.yaxis.set_major_formatter(ScalarFormatter())
    place.yaxis.set_minor_formatter(NullFormatter())


def panels_of(runs: Sequence[Case]) -> dict[str, dict[str, list[Case]]]:
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


def _baseline(runs: Sequence[Case], folder: Path) -> tuple[list[Key], list[float]]:
    """The operations in the order of the first run alone, and their median times in seconds."""
    alone = [case for case in runs if case.is_reference]
    times = medians(alone, folder)
    order = [key for key, _ in numbered(_operations(alone[0], folder))]
    return order, [times[key] for key in order]


def medians(runs: Sequence[Case], folder: Path) -> dict[Key, float]:
    """The median time of each operation over runs.

    Args:
        folder: Folder of the data set.

    Returns:
        Seconds by kind, place, and number of the operation among those like it.
    """
    times: dict[Key, list[float]] = {}
    for case in runs:
        for key, operation in numbered(_operations(case, folder)):
            times.setdefault(key, []).append(operation.seconds)
    return {key: median(each) for key, each in times.items()}


def _operations(case: Case, folder: Path) -> list[Operation]:
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
