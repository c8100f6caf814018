"""Plots of adaptive reading: the time and the accuracy of each step."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from weir.plots.canvas import grid

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import FigureBase

    from weir.adaptive.reader import Step

_INCHES = (7.0, 2.3)


def steps(
    found: "Iterable[Step]", *, deadline_seconds: float | None = None, figure: "FigureBase | None" = None
) -> "list[Axes]":
    """Plot the time that each step took, the part of its augmentation that was read, and its stated error.

    Args:
        found: Steps of a reader.
        deadline_seconds: The deadline of the reader, which is drawn beside the times.
        figure: Figure to fill; None makes one.

    Returns:
        Three axes, one below the other: times, parts, errors.

    Raises:
        ImportError: matplotlib is not installed.
    """
    kept = list(found)
    numbers = [step.number for step in kept]
    times, parts, errors = grid(figure, 3, columns_max=1, inches=_INCHES)
    from matplotlib.ticker import MaxNLocator

    times.plot(numbers, [step.waited_seconds for step in kept], marker="o", label="waited")
    times.plot(numbers, [step.seconds for step in kept], marker="x", linestyle="--", label="reads")
    late = [step for step in kept if step.late]
    if late:
        at = [step.waited_seconds for step in late]
        times.plot([step.number for step in late], at, "s", fillstyle="none", markersize=11, label="late")
    if deadline_seconds is not None:
        times.axhline(deadline_seconds, color="black", linestyle=":", label="deadline")
    times.set_ylabel("time (s)")
    times.set_ylim(bottom=0)
    times.legend(fontsize=8)
    parts.plot(numbers, [100 * step.augmentation for step in kept], marker="o")
    parts.set_ylabel("augmentation read (%)")
    parts.set_ylim(-3, 103)
    errors.plot(numbers, [step.max_error for step in kept], marker="o", label="max_error")
    errors.plot(numbers, [step.rmse for step in kept], marker="x", linestyle="--", label="rmse")
    errors.set_ylabel("stated error")
    if all(step.rmse > 0 for step in kept):
        errors.set_yscale("log")
    errors.legend(fontsize=8)
    for place in (times, parts, errors):
        place.set_xlabel("step")
        place.xaxis.set_major_locator(MaxNLocator(integer=True))
        place.grid(alpha=0.3)
    return [times, parts, errors]
