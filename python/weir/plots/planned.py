"""The plot of a plan: the time and the price of each storage that would serve a job."""

from typing import TYPE_CHECKING, Any

from weir.plots.canvas import axes_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from weir.provisioning.planning.planner import Plan

_MARKERS = "osD^vPX*<>"


def plan(found: "Plan", *, ax: "Axes | None" = None) -> "Axes":
    """Plot the expected time of a job's I/O on each candidate by its price, with the chosen one in a ring.

    Args:
        found: A plan of `weir.provisioning.plan`.
        ax: Axes to draw into; None makes a figure.

    Raises:
        ImportError: matplotlib is not installed.
    """
    place = axes_of(ax, (6.5, 3.6))
    chosen = found.selected.candidate
    every = [chosen, *found.alternatives]
    kinds = dict.fromkeys(each.deployment.system.device for each in every)
    for kind, marker in zip(kinds, _MARKERS * len(kinds), strict=False):
        of_kind = [each for each in every if each.deployment.system.device == kind]
        prices = [each.deployment.price for each in of_kind]
        place.plot(prices, [each.io_seconds for each in of_kind], marker, label=kind, alpha=0.8)
    ring: dict[str, Any] = {"markersize": 15, "fillstyle": "none", "color": "black", "label": "chosen"}
    place.plot([chosen.deployment.price], [chosen.io_seconds], "o", **ring)
    place.axhline(found.mapping.allowed_seconds, linestyle=":", color="black", label="allowed")
    place.set_yscale("log")
    place.set_xlabel("price (node-hours)")
    place.set_ylabel("expected time of I/O (s)")
    place.set_title(found.deployment.name)
    place.grid(alpha=0.3)
    place.legend(fontsize=8)
    return place
