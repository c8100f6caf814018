"""The plot of ThemisIO's figure 7: rates and efficiencies by the number of servers."""

from typing import TYPE_CHECKING

from weir.plots.canvas import grid

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import FigureBase

    from weir.simulation.scaling_study import Study


def scaling(found: "Study", *, figure: "FigureBase | None" = None) -> "list[Axes]":
    """Plot the rates and the efficiencies by the number of servers, simulated, real and the paper's.

    Args:
        found: Results of `weir.simulation.scaling_study.study`.
        figure: Figure to fill; None makes one.

    Returns:
        Two axes: the rates, and to their right the efficiencies.

    Raises:
        ImportError: matplotlib is not installed.
    """
    from weir.simulation.scaling import PAPER_BYTES_PER_SECOND

    rates, efficiencies = grid(figure, 2, columns_max=2, inches=(5.5, 4.2))
    for curve in found.curves:
        counts = [point.servers for point in curve.points]
        rates.plot(counts, [point.bytes_per_second / 1e9 for point in curve.points], marker="o", label=curve.name)
        efficiencies.plot(counts, [curve.efficiency(point) for point in curve.points], marker="o", label=curve.name)
    paper = list(PAPER_BYTES_PER_SECOND)
    rates.plot(paper, [PAPER_BYTES_PER_SECOND[count] / 1e9 for count in paper], "k--s", label="the paper's")
    first = PAPER_BYTES_PER_SECOND[1]
    parts = [PAPER_BYTES_PER_SECOND[count] / count / first for count in paper]
    efficiencies.plot(paper, parts, "k--s", label="the paper's")
    if found.real:
        one = min(found.real, key=lambda each: each.real.servers)
        base = one.real.bytes_per_second / one.real.servers
        counts = [each.real.servers for each in found.real]
        efficiencies.plot(
            counts, [each.real.bytes_per_second / each.real.servers / base for each in found.real], "x", label="real"
        )
    for axes, words in ((rates, "aggregate rate, slower direction (GB/s)"), (efficiencies, "efficiency")):
        axes.set_xscale("log", base=2)
        axes.set_xlabel("servers")
        axes.set_ylabel(words)
        axes.grid(alpha=0.3)
    rates.set_yscale("log")
    efficiencies.set_ylim(0, 1.1)
    efficiencies.legend(fontsize=7)
    return [rates, efficiencies]
