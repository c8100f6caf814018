"""The paper's experiment with real I/O: three analyses read from a shared tier while three programs write to it.

Best effort reads everything, isolation nothing from the shared tier, dynamic what should fit (figures 11 to 14).
Every case has the same noise with the same phases; the first half of a run teaches the forecast, the second counts.
"""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import _examples  # noqa: F401 - makes the package `adaptive` known
import numpy as np
from adaptive.quality import psnr
from weir.experiments.shared_tier import CADENCE_SECONDS, PAPER, Noise, SharedTier

from io_variation.analyses import STEPS, Analysis
from io_variation.fields import Field

HISTORY_SECONDS = 1200.0
"""The paper learns from 20 minutes, and measures in the next 20."""
ISOLATION_STEPS = 16
SEED = 11
_STREAM = Path(__file__).with_name("stream.py")
PLANNED_SHARE = 0.25
"""Part of the mean time of reading everything for which a step's augmentation is planned; every user knows this mean.

The paper saves two thirds of that time; a quarter leaves the rest of its third to the base and to forecasts that were
too high. It is one number for all analyses, and `budgets` shows the results of others."""
LONGEST_TIMES = 2.0
"""Multiple of the planned time after which reads are given up; the step goes on with the bytes that it has."""
PSNR_MAX_DB = 20 * math.log10(2**24)
"""PSNR of a step without an error: float32 knows no better.

A mean of decibels depends on this number, so the mean of the squared errors counts."""


@dataclass(frozen=True)
class Case:
    """The amount to read at each step."""

    name: str
    policy: str
    arguments: Mapping[str, float] = field(default_factory=dict)
    forecaster: str = "online"


BEST_EFFORT = Case("best effort", "best-effort")
ISOLATION = Case("isolation", "isolation")


def paper_plot(
    capacity_megabytes: float, *, low: float = 0.5, high: float = 1.0, forecaster: str = "paper-dft"
) -> Case:
    """The paper's case: an augmentation-bandwidth plot between two parts of the capacity, and its DFT."""
    bytes_per_second = capacity_megabytes * 1e6
    arguments = {"low": low * bytes_per_second, "high": high * bytes_per_second}
    name = "plot" if forecaster == "paper-dft" else f"plot, {forecaster}"
    return Case(name, "plot", arguments, forecaster)


def budget(usual_seconds: float, *, share: float = PLANNED_SHARE, name: str = "time budget") -> Case:
    """Our case, for an analysis that has read everything in `usual_seconds` until now."""
    seconds = share * usual_seconds
    return Case(name, "budget", {"seconds": seconds, "seconds_max": LONGEST_TIMES * seconds})


@dataclass(frozen=True)
class Measured:
    """The steps of one case behind the warm-up."""

    case: str
    codec: str
    seconds: tuple[float, ...]
    """Time of I/O in each step."""
    augmentation: tuple[float, ...]
    bytes_read: tuple[int, ...]
    forecast_errors: tuple[float, ...]
    """Relative errors of the bandwidth's forecast, of the steps that measured a bandwidth."""
    psnr: float
    """PSNR in dB, of the mean of the squared errors of all steps."""
    psnr_mean: float
    """Mean PSNR of the steps in dB, in which a step without an error counts `PSNR_MAX_DB`."""
    whole: int
    """Number of steps without an error."""
    scores: Mapping[str, float]
    """Means of the analysis' scores."""

    @property
    def mean(self) -> float:
        """Mean I/O time in seconds."""
        return statistics.fmean(self.seconds)

    @property
    def variance(self) -> float:
        """Variance of the I/O time, in seconds squared."""
        return statistics.pvariance(self.seconds)


class Experiment:
    """One analysis and its streams on a shared tier."""

    def __init__(
        self, tier: SharedTier, analysis: Analysis, *, period_seconds: float = CADENCE_SECONDS, seed: int = SEED
    ) -> None:
        self.tier = tier
        self.analysis = analysis
        self.period_seconds = period_seconds
        self.warm_up_steps = round(HISTORY_SECONDS / period_seconds)
        self.phases = list(np.random.default_rng(seed).random(16))
        self._written: set[str] = set()

    def run(self, codec: str, case: Case, *, noises: Sequence[Noise] = PAPER) -> Measured:
        """Read the stream of `codec` from beginning to end."""
        self._write(codec)
        # Isolation learns nothing, and one step is like the other.
        warm_up_steps = 0 if case == ISOLATION else self.warm_up_steps
        steps = ISOLATION_STEPS if case == ISOLATION else 2 * self.warm_up_steps
        seconds = steps * self.period_seconds / self.tier.scale
        epoch = self.tier.epoch()
        output = self.tier.local / "read.npy"
        with self.tier.noise(noises, self.phases[: len(noises)], epoch=epoch, seconds=seconds):
            reads: list[dict[str, Any]] = self.tier.run(
                (str(_STREAM),),
                {
                    **self._tiers(codec),
                    "policy": case.policy,
                    "arguments": dict(case.arguments),
                    "forecaster": case.forecaster,
                    "warm_up_steps": warm_up_steps,
                    "steps": steps,
                    "epoch": epoch,
                    "period_seconds": self.period_seconds / self.tier.scale,
                    "scale": self.tier.scale,
                    "output": str(output),
                },
            )
        found = np.load(output)
        output.unlink()
        return self._measured(codec, case, reads[warm_up_steps:], found, first=warm_up_steps)

    def _measured(
        self, codec: str, case: Case, reads: Sequence[Mapping[str, Any]], found: Field, *, first: int
    ) -> Measured:
        truth = self.analysis.steps()
        pairs = [(truth[(first + number) % STEPS], each) for number, each in enumerate(found)]
        decibels = [min(psnr(exact, each), PSNR_MAX_DB) for exact, each in pairs]
        scores = [self.analysis.scores(exact, each) for exact, each in pairs]
        return Measured(
            case.name,
            codec,
            tuple(read["seconds"] for read in reads),
            tuple(read["augmentation"] for read in reads),
            tuple(read["bytes_read"] for read in reads),
            tuple(
                abs(read["forecast"] - read["bandwidth"]) / read["bandwidth"]
                for read in reads
                if read["forecast"] and read["bandwidth"]
            ),
            -10 * math.log10(statistics.fmean(10 ** (-each / 10) for each in decibels)),
            statistics.fmean(decibels),
            sum(each == PSNR_MAX_DB for each in decibels),
            {name: statistics.fmean(score[name] for score in scores) for name in scores[0]},
        )

    def _tiers(self, codec: str) -> dict[str, str]:
        name = f"{self.analysis.name}-{codec}-{self.period_seconds:g}"
        return {"fast": str(self.tier.local / name), "shared": self.tier.url(name)}

    def _write(self, codec: str) -> None:
        if codec in self._written:
            return
        arrays = self.tier.local / "steps.npy"
        np.save(arrays, self.analysis.steps())
        self.tier.run(
            (str(_STREAM),),
            {
                **self._tiers(codec),
                "codec": codec,
                "arrays": str(arrays),
                "steps": 2 * self.warm_up_steps,
                "scale": self.tier.scale,
            },
        )
        arrays.unlink()
        self._written.add(codec)
