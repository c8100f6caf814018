"""The bandwidth that an analysis will perceive at its next step, forecast from its past steps.

Interface, for `weir.adaptive` and other programs that read step after step from shared storage::

    forecaster = make()                        # the online choice among all methods
    forecaster.observe(time, bandwidth)        # after each step; None where it did no I/O
    expected = forecaster.forecast(time)       # before the next; Forecast(value, low, high, method, warning)

Times are seconds from any origin and grow; steps may be uneven. Bandwidths are in any unit, and forecasts in the same.
Before the first bandwidth there is nothing to forecast from: `forecast` raises `NothingObservedError` (a ValueError).
`value` has the least expected relative error; the next value lies between `low` and `high` with probability `coverage`.
A forecast takes a part of a millisecond. An observation takes a few milliseconds by `online` and `comb`, and tens when
they look for periods again. `Background` does this on a thread of its own.
"""

from collections.abc import Callable

from weir.plugins import FORECASTER, given, named
from weir.plugins.forecaster import ForecasterLike
from weir.prediction.bandwidth.autoregression import Autoregression
from weir.prediction.bandwidth.background import Background
from weir.prediction.bandwidth.baselines import LastValue, Mean, Median
from weir.prediction.bandwidth.comb import Comb
from weir.prediction.bandwidth.forecast import Forecast, Forecaster, NothingObservedError, Outlook
from weir.prediction.bandwidth.harmonics import Harmonics
from weir.prediction.bandwidth.history import History
from weir.prediction.bandwidth.method import Method
from weir.prediction.bandwidth.nyquist import Sampling
from weir.prediction.bandwidth.online import Online
from weir.prediction.bandwidth.own import OwnMethod
from weir.prediction.bandwidth.paper_dft import PaperDft
from weir.prediction.bandwidth.seasonal import Seasonal
from weir.prediction.bandwidth.single import Single

__all__ = [
    "NAMES",
    "THRESHOLD",
    "WINDOW",
    "Background",
    "Forecast",
    "Forecaster",
    "NothingObservedError",
    "Outlook",
    "check",
    "make",
]

WINDOW = 48
"""The paper's N: 20 minutes of steps 25 s apart."""
THRESHOLD = 0.25
"""The lower of the two thresholds in the paper's figure 9, a part of the largest amplitude."""
_WINDOWS_KEPT = 4
"""Remembered windows of steps: a comb of any period needs many pulses, a season two seasons."""

_METHODS: dict[str, Callable[[int, float], Method]] = {
    LastValue.name: lambda window, threshold: LastValue(),
    Mean.name: lambda window, threshold: Mean(window),
    Median.name: lambda window, threshold: Median(window),
    PaperDft.name: PaperDft,
    Seasonal.name: lambda window, threshold: Seasonal(),
    Comb.name: lambda window, threshold: Comb(_WINDOWS_KEPT * window),
    Autoregression.name: lambda window, threshold: Autoregression(),
    Harmonics.name: lambda window, threshold: Harmonics(),
}
_ONLINE = "online"
NAMES = (*_METHODS, _ONLINE)
"""Names that `make` takes."""


def make(
    name: ForecasterLike = _ONLINE,
    *,
    period_seconds: float | None = None,
    window: int = WINDOW,
    threshold: float = THRESHOLD,
    coverage: float = 0.8,
) -> Forecaster:
    """Make a forecaster without a past.

    Args:
        name: One of `NAMES`, the name of a plug-in or its place, `module:attribute`, or the plug-in itself: a class, or
            a function that makes objects.
        period_seconds: The shortest period of the analysis' disturbances, where it is known: forecasts then warn when
            steps are too far apart to see it.
        window: Number of steps that the mean, the median and the paper's transform look at; others remember four times
            as many.
        threshold: Part of the largest amplitude below which the paper's transform leaves a frequency out.
        coverage: Probability that the next value lies between `low` and `high` of a forecast.

    Raises:
        ValueError: A number is out of its range.
        PluginError: There is no such forecaster, or the plug-in cannot be loaded or made.
    """
    if window < 4:
        raise ValueError(f"a window of {window} steps is too short to forecast from; give 4 or more")
    if not 0 <= threshold <= 1:
        raise ValueError(f"the threshold {threshold} is not a part of the largest amplitude; give 0 to 1")
    if not 0 < coverage < 1:
        raise ValueError(f"the coverage {coverage} is not a probability; give a number between 0 and 1")
    if period_seconds is not None and not period_seconds > 0:
        raise ValueError(f"a period of {period_seconds} s is not one; give more than 0, or nothing")
    history, sampling = History(_WINDOWS_KEPT * window), Sampling(period_seconds)
    if name == _ONLINE:
        methods = [method(window, threshold) for method in _METHODS.values()]
        return Online(methods, history=history, sampling=sampling, coverage=coverage)
    if isinstance(name, str) and name in _METHODS:
        method = _METHODS[name](window, threshold)
    else:
        method = OwnMethod(named(FORECASTER, name, NAMES) if isinstance(name, str) else given(FORECASTER, name))
    return Single(method, history=history, sampling=sampling, coverage=coverage)


def check(name: ForecasterLike) -> None:
    """Check that there is a forecaster, and that a plug-in loads.

    Args:
        name: As for `make`.

    Raises:
        PluginError: There is no such forecaster, or the plug-in cannot be loaded.
    """
    if not isinstance(name, str):
        given(FORECASTER, name)
    elif name not in NAMES:
        named(FORECASTER, name, NAMES).load()
