"""The plots of the experiments of I/O variation: foretold bandwidths (figure 9), and blobs by accuracy (figure 10)."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from weir.experiments.shared_tier import CADENCE_SECONDS
from weir.plots.canvas import grid

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import FigureBase

    from weir.experiments.blobs import Outcome
    from weir.experiments.viability import Foretold

_TICKS = (0, 0.3, 1, 2, 5, 10, 20, 40, 100)


def forecasts(found: "Sequence[Foretold]", *, figure: "FigureBase | None" = None) -> "list[Axes]":
    """Plot measured bandwidths, and those that each method foretold, a panel for each run.

    Args:
        found: Runs of `weir.experiments.viability.measure`.
        figure: Figure to fill; None makes one.

    Returns:
        The axes of each panel.

    Raises:
        ImportError: matplotlib is not installed.
    """
    title = "Bandwidth that an analysis perceives, foretold from the first half"
    places = grid(figure, len(found), columns_max=1, inches=(10.0, 2.9), title=title)
    for place, each in zip(places, found, strict=True):
        steps = len(each.bandwidths) // 2
        times = [CADENCE_SECONDS * step for step in range(2 * steps)]
        measured = [value / 1e6 for value in each.bandwidths]
        place.plot(times, measured, color="black", linewidth=1.1, marker=".", markersize=3, label="measured")
        for name, foretold in each.forecasts.items():
            label = f"{name} (error {100 * each.errors[name]:.0f} %)"
            place.plot(times[steps:], [value / 1e6 for value in foretold], linewidth=1.2, label=label)
        place.axvline(times[steps] - CADENCE_SECONDS / 2, color="black", linestyle=":")
        place.set_title(each.name, fontsize=10)
        place.set_xlabel("time (s, as in the paper)")
        place.set_ylabel("bandwidth (MB/s)")
        # The legend has the room above the lines.
        place.set_ylim(0, 1.4 * max(measured))
        place.grid(alpha=0.3)
        place.legend(fontsize=7, loc="upper left", ncols=3)
    return places


def blobs(found: "Sequence[Outcome]", *, figure: "FigureBase | None" = None) -> "list[Axes]":
    """Plot blobs that are found by the degree of augmentation, a panel for each measure.

    Args:
        found: Outcomes of `weir.experiments.blobs.measure`.
        figure: Figure to fill; None makes one.

    Returns:
        The axes of each panel.

    Raises:
        ImportError: matplotlib is not installed.
    """
    panels = {
        "number of blobs / true": [each.blobs / each.blobs_true for each in found],
        "mean diameter / true": [each.diameter_ratio for each in found],
        "area of all blobs / true": [each.area_ratio for each in found],
        "overlap with true blobs": [each.overlap for each in found],
        "F1 of blobs": [each.f1 for each in found],
        "PSNR (dB)": [float("nan") if each.psnr is None else each.psnr for each in found],
    }
    title = "Blobs that are found, by the degree of augmentation"
    places = grid(figure, len(panels), columns_max=3, inches=(3.7, 2.75), title=title)
    for place, (heading, values) in zip(places, panels.items(), strict=True):
        for codec in dict.fromkeys(each.codec for each in found):
            line = [
                (100 * each.degree, value) for each, value in zip(found, values, strict=True) if each.codec == codec
            ]
            place.plot(*zip(*line, strict=True), marker="o", markersize=4, label=codec)
        place.set_xscale("symlog", linthresh=0.3)
        place.set_xticks(_TICKS, [f"{tick:g}" for tick in _TICKS], fontsize=8)
        place.minorticks_off()
        place.set_title(heading, fontsize=10)
        place.set_xlabel("augmentation (%)")
        place.grid(alpha=0.3)
        place.legend(fontsize=8)
    return places
