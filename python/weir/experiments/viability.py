"""Viability of the forecast: a window of perceived bandwidths foretells the next one.

Figure 9 of Qiao et al., "Taming I/O variation on QoS-less HPC storage" (IPDPS 2021): the bandwidths that an analysis
perceives for 20 minutes are transformed, amplitudes below a part of the largest one are left out, and the rest
foretells the next 20 minutes. Here the paper's noise writes to a target of a real store, with times and sizes divided.
"""

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING, Any

from weir.experiments.shared_tier import CADENCE_SECONDS, PAPER, READ_MEGABYTES, SharedTier
from weir.experiments.tidy import Observation, Parameter

if TYPE_CHECKING:
    from weir.prediction.bandwidth import Forecaster

STEPS = 48
"""Steps that are learnt from, and steps that are foretold: the paper's 20 minutes."""
THRESHOLDS = (0.25, 0.75)
"""The paper's thresholds, as parts of the largest amplitude."""
SCALE = 25.0
"""Divisor of the paper's times and sizes: a step each second."""
SEED = 9
"""Start of the dice of the noise's phases."""
_REQUEST_BYTES = 1 << 20


@dataclass(frozen=True)
class Foretold:
    """One run: perceived bandwidths, and forecasts of the second half from the first."""

    name: str
    bandwidths: tuple[float, ...]
    """Bandwidth of each step in bytes a second: as many steps to learn from as to foretell."""
    forecasts: dict[str, tuple[float, ...]]
    """Forecasts of the second half, in bytes a second, by method."""

    @property
    def errors(self) -> dict[str, float]:
        """Mean relative error of each method, |forecast - value| / value."""
        values = self.bandwidths[len(self.bandwidths) // 2 :]
        return {
            name: fmean(abs(forecast - value) / value for forecast, value in zip(found, values, strict=True))
            for name, found in self.forecasts.items()
        }


def measure(
    runs: int,
    steps: int,
    thresholds: Sequence[float],
    capacity_megabytes: float,
    say: Callable[[str], None],
    forecasters: Sequence[str] = (),
) -> list[Foretold]:
    """Measure runs, each with other phases of the noise.

    Args:
        steps: Number of steps to learn from, and of steps to forecast.
        thresholds: Parts of the largest amplitude below which the transform leaves a frequency out.
        capacity_megabytes: Speed of the shared target in megabytes a second.
        say: Takes a line about each run.
        forecasters: Further forecasters, plug-ins among them.

    Raises:
        ExperimentError: A program fails.
        StoreError: The store does not come up.
        PluginError: A forecaster is a plug-in, and fails.
    """
    dice = random.Random(SEED)
    found = []
    with SharedTier(scale=SCALE, capacity_megabytes=capacity_megabytes) as tier:
        for number in range(runs):
            name, period = f"run {number + 1}", CADENCE_SECONDS / SCALE
            say(f"{name}: {2 * steps} steps of {period:g} s")
            epoch = tier.epoch()
            specification = {
                "path": tier.url(f"analysis-{number}"),
                "step_bytes": round(READ_MEGABYTES * 1e6 / SCALE),
                "request_bytes": round(_REQUEST_BYTES / SCALE),
                "period_seconds": period,
                "epoch": epoch,
                "steps": 2 * steps,
            }
            with tier.noise(PAPER, [dice.random() for _ in PAPER], epoch=epoch, seconds=2 * steps * period):
                bandwidths = tier.run(("-m", "weir.experiments.paced_reads"), specification)
            found.append(Foretold(name, tuple(bandwidths), foretell(bandwidths, thresholds, forecasters)))
    return found


def foretell(
    bandwidths: Sequence[float], thresholds: Sequence[float], forecasters: Sequence[str] = ()
) -> dict[str, tuple[float, ...]]:
    """Foretell the second half of a series from the first.

    Args:
        bandwidths: Bandwidths of steps of equal distance.
        forecasters: Further forecasters, plug-ins among them.

    Returns:
        Forecasts by the paper's transform for each threshold, by the online choice, by the mean, and by the others.
    """
    from weir.prediction.bandwidth import make

    steps = len(bandwidths) // 2
    methods: dict[str, Forecaster] = {
        f"DFT, threshold {100 * threshold:g} %": make("paper-dft", window=steps, threshold=threshold)
        for threshold in thresholds
    }
    methods |= {"online": make("online", window=steps), "mean": make("mean", window=steps)}
    methods |= {name: make(name, window=steps) for name in forecasters}
    found = {}
    for name, method in methods.items():
        for step, value in enumerate(bandwidths[:steps]):
            method.observe(CADENCE_SECONDS * step, value)
        found[name] = tuple(method.forecast(CADENCE_SECONDS * step).value for step in range(steps, len(bandwidths)))
    return found


def observations(found: Sequence[Foretold], *, steps: int, speed_megabytes: float) -> Iterator[Observation]:
    """List the figures: the mean relative error of each forecast, and the mean bandwidth of each run.

    Args:
        steps: Steps that were learnt from, and steps that were foretold.
        speed_megabytes: Speed of the shared target in megabytes a second.

    Yields:
        The figures, run by run.
    """
    for each in found:
        run: dict[str, Parameter] = {"run": each.name, "steps": steps, "speed_bytes_per_second": 1e6 * speed_megabytes}
        yield Observation(run, "bandwidth_mean", fmean(each.bandwidths), "B/s")
        for name, error in each.errors.items():
            yield Observation({**run, "forecast": name}, "relative_error_mean", error, "1")


def document(found: Sequence[Foretold]) -> dict[str, Any]:
    """Describe the results for JSON.

    Returns:
        Bandwidths and forecasts in bytes a second, and mean relative errors, of each run.
    """
    runs = [
        {"name": each.name, "bandwidths": each.bandwidths, "forecasts": each.forecasts, "errors": each.errors}
        for each in found
    ]
    return {"version": 1, "figure": "io-variation-figure-9", "period_seconds": CADENCE_SECONDS, "runs": runs}
