"""Plots of stores, jobs, plans, runs, steps and experiments, which return matplotlib's axes.

A plot of one panel takes `ax`, and one of several panels `figure`; without these pyplot makes a figure, which a
notebook shows. The commands of Weir draw their pictures by the same functions. The extra `plots` brings matplotlib.
"""

from typing import TYPE_CHECKING

from weir.exports import exporting

if TYPE_CHECKING:
    from weir.plots.confusion import confusions
    from weir.plots.experiments import experiment
    from weir.plots.heat_map import matrix
    from weir.plots.operation_times import operations
    from weir.plots.planned import plan
    from weir.plots.server_counts import scaling
    from weir.plots.simulated import bandwidths, device_time, simulated_shares, slowdowns
    from weir.plots.stores import shares, targets, windows
    from weir.plots.streams import steps
    from weir.plots.variation import blobs, forecasts

__all__ = [
    "bandwidths",
    "blobs",
    "confusions",
    "device_time",
    "experiment",
    "forecasts",
    "matrix",
    "operations",
    "plan",
    "scaling",
    "shares",
    "simulated_shares",
    "slowdowns",
    "steps",
    "targets",
    "windows",
]

__getattr__, __dir__ = exporting(
    __name__,
    {
        "bandwidths": "simulated",
        "blobs": "variation",
        "confusions": "confusion",
        "device_time": "simulated",
        "experiment": "experiments",
        "forecasts": "variation",
        "matrix": "heat_map",
        "operations": "operation_times",
        "plan": "planned",
        "scaling": "server_counts",
        "shares": "stores",
        "simulated_shares": "simulated",
        "slowdowns": "simulated",
        "steps": "streams",
        "targets": "stores",
        "windows": "stores",
    },
)
