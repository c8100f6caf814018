"""Plots of simulated runs, as the pages of `weir simulate report` have them."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from weir.plots.canvas import axes_of, literal

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from weir.simulation.records import Record

_WIDTH_INCHES = 7.5


def slowdowns(runs: "Sequence[Record]", *, ax: "Axes | None" = None) -> "Axes":
    """Plot how much slower each job's I/O was than alone, a bar for each run; of many jobs the distributions.

    Args:
        runs: Runs of `weir.simulation.runs.record` with a baseline, of the same jobs.
        ax: Axes to draw into; None makes a figure.

    Raises:
        ImportError: matplotlib is not installed.
    """
    from weir.simulation.report.jobs import draw_slowdowns

    place = axes_of(ax, (_WIDTH_INCHES, _height(runs)))
    draw_slowdowns(place, runs)
    return literal(place)


def bandwidths(runs: "Sequence[Record]", *, ax: "Axes | None" = None) -> "Axes":
    """Plot the bandwidth of each job, a bar for each run; of many jobs the distributions.

    Args:
        runs: Runs of the same jobs.
        ax: Axes to draw into; None makes a figure.

    Raises:
        ImportError: matplotlib is not installed.
    """
    from weir.simulation.report.jobs import draw_bandwidths

    place = axes_of(ax, (_WIDTH_INCHES, _height(runs)))
    draw_bandwidths(place, runs)
    return literal(place)


def simulated_shares(run: "Record", *, ax: "Axes | None" = None) -> "Axes":
    """Plot the shares of device time that the policy owed the jobs of a run, and that they received.

    Args:
        ax: Axes to draw into; None makes a figure.

    Raises:
        ImportError: matplotlib is not installed.
    """
    from weir.simulation.report.jobs import draw_shares

    place = axes_of(ax, (_WIDTH_INCHES, _height([run])))
    draw_shares(place, run)
    return literal(place)


def device_time(run: "Record", *, ax: "Axes | None" = None) -> "Axes":
    """Plot the targets' time over time, divided among the jobs of a run, or among its users where the jobs are many.

    Args:
        ax: Axes to draw into; None makes a figure.

    Raises:
        ImportError: matplotlib is not installed.
        SimulationError: The run kept no series.
    """
    from weir.simulation.errors import SimulationError
    from weir.simulation.report.jobs import draw_device_time, holders_of

    if not run.sample_seconds or not run.jobs or not len(run.outcome.jobs[0].device_series):
        raise SimulationError(f"the run {run.name} kept no series", hint="give its scenario `sample_seconds`")
    place = axes_of(ax, (_WIDTH_INCHES, 3.0))
    draw_device_time(place, run, *holders_of([run]))
    return literal(place)


def _height(runs: "Sequence[Record]") -> float:
    return min(8.0, 1.2 + len(runs[0].jobs) * (0.14 + 0.16 * len(runs)))
