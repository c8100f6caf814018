"""Features of windows, by the native code that predicts with them: a model is trained on what it is asked.

Three kinds differ in reach. Pooled features are counts and rates of the job and of the servers, the same for any number
of servers in any order; they suit a job that was seen in training. Relative features compare a window with the job's
own quiet behaviour, and ratios compare the job's waits with the device time of its own work; so they mean the same for
a job that was never seen.
"""

from functools import cache
from typing import Any

import numpy as np

from weir.interference.capacity import Costs
from weir.interference.errors import InterferenceError
from weir.interference.windows import Floats, Windows

WINDOWS_MIN = 10
"""A job with fewer windows has no quiet behaviour to compare with (as in `crates/interference`)."""


@cache
def names() -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    """Name the features.

    Returns:
        The names of pooled and of relative features, and of ratios.
    """
    from weir import _core

    none, flags = np.zeros(0), np.zeros(0, np.uint8)
    pooled, relative, ratios = _core.window_features(1, (none, flags, flags, none, none), ((0.0,) * 4, 0.0))
    return tuple(pooled[0]), tuple(relative[0]), tuple(ratios[0])


def of_windows(windows: Windows, known: Costs) -> tuple[Floats, Floats, Floats]:
    """Compute the features. Labels are not used.

    Args:
        windows: The windows; those of a workload are compared among themselves.
        known: Costs of requests, for the ratios.

    Returns:
        Pooled features, relative ones and ratios, each of shape (windows, features). The last two are NaN where a
        workload has fewer windows than `WINDOWS_MIN`.

    Raises:
        InterferenceError: A count or a cost is too large.
    """
    from weir import _core

    pooled, relative, ratios = (np.full((len(windows), len(each)), np.nan) for each in names())
    for workload in np.unique(windows.workloads):
        own = np.flatnonzero(windows.workloads == workload)
        part = windows.take(own)
        try:
            found = _core.window_features(part.present.shape[1], columns_of(part), (known.targets, known.metadata))
        except ValueError as error:
            raise InterferenceError(f"the windows of {workload} cannot be used: {error}") from error
        for matrix, (_, rows) in zip((pooled, relative, ratios), found, strict=True):
            if rows:
                matrix[own] = rows
    return pooled, relative, ratios


def columns_of(windows: Windows) -> tuple[Any, Any, Any, Any, Any]:
    """The columns of windows as the native code takes them.

    Returns:
        Times, whether a server was there, whether it keeps metadata, counts, and counters.
    """
    flags = windows.present.view(np.uint8), windows.is_metadata.view(np.uint8)
    return (windows.io_seconds, *flags, windows.client, windows.server)
