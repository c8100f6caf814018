"""Measured waiting, which outranks a model: no shown class is below the slowdown that the store itself measured."""

import math
from bisect import bisect_right
from collections.abc import Sequence

from weir.store.observations import measured_slowdown
from weir.store.predictions import MEASURED, NOT_KNOWN, PredictedHorizon

STARVED_WINDOWS = 0.5
"""Wait, in windows, from which a job that received nothing is slowed beyond any bound. A shorter wait may be the begin
of a request whose device time is in the next window."""


def slowdown_of(device_seconds: float, waited_seconds: float, window_seconds: float) -> float | None:
    """The slowdown of a window as the store measured it.

    Args:
        device_seconds: Device time that the job received.
        waited_seconds: Device time that others received while the job had requests queued.
        window_seconds: Length of the window.

    Returns:
        The slowdown, infinite for a job that only waited; None where the window shows none.
    """
    if device_seconds <= 0 and waited_seconds >= STARVED_WINDOWS * window_seconds:
        return math.inf
    return measured_slowdown(device_seconds, waited_seconds)


def outranking(
    bins: Sequence[float],
    names: Sequence[str],
    basis: str,
    horizons: tuple[PredictedHorizon, ...],
    slowdown: float | None,
) -> tuple[str, tuple[PredictedHorizon, ...]]:
    """Put a measured slowdown above a model that says less, or nothing.

    A model that misses the present does not foresee the next windows: these are not known then.

    Args:
        bins: Slowdowns at which a class begins.
        names: Names of the classes.
        basis: Basis of the model's predictions.
        horizons: The model's predictions, of the window itself first.
        slowdown: The measured slowdown of the window; None where there is none.

    Returns:
        The basis, `measured` where the model is outranked, and the predictions.
    """
    if slowdown is None:
        return basis, horizons
    place = bisect_right(bins, slowdown)
    if basis != NOT_KNOWN and names.index(horizons[0].slowdown) >= place:
        return basis, horizons
    certain = tuple(float(other == place) for other in range(len(names)))
    now = PredictedHorizon(horizons[0].ahead, names[place], 1.0, certain)
    return MEASURED, (now, *(PredictedHorizon(later.ahead, NOT_KNOWN, 0.0, ()) for later in horizons[1:]))
