"""Estimates from few runs: a mixed model of the logarithm of measured time over predicted time.

A run's logarithm is the sum of three parts: one that the job has on all storage, one that it has on this class of
devices, and noise. The first two are random with spreads that are stated below, so few runs move an estimate only as
far as they can be told from noise: the best linear unbiased predictor (Henderson, 1975; Robinson, Statistical Science
6, 1991). The noise is estimated from repeats, with an inverse gamma prior, so intervals are Student's (Gelman et al.,
Bayesian Data Analysis, section 3.3).
"""

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist, fmean, median
from typing import Generic, TypeVar

Group = TypeVar("Group", bound=Hashable)
COMMON_SPREAD = math.log(2.0)
"""Standard deviation of the part that all storage shares: tables take a job's need for half or twice of it."""
OWN_SPREAD = math.log(2.0)
"""Standard deviation of the part of one class of devices."""
NOISE_SPREAD = math.log(1.25)
"""Noise of a run before any repeat tells: four in five of 18,452 repeated benchmark jobs of NERSC's year on Cori and
Edison took 0.75 to 1.37 times the median of their kind (Lockwood et al., SC 2018)."""
NOISE_WORTH = 2.0
"""Repeats that this noise is worth."""
LEVEL = 0.8
"""Part of the later runs that are to lie in an interval."""
OUTLIER = 2 * NOISE_SPREAD
"""Distance from the median of a group beyond which a run counts as no farther. A tenth of real runs lie there, which
would move the mean of few runs (Huber, Annals of Mathematical Statistics 35, 1964)."""
RUNS_MAX = 20
"""Latest runs of a group that count: storage wears, and jobs change."""


@dataclass(frozen=True)
class Estimate:
    """An estimated ratio of measured to predicted time."""

    ratio: float
    """Median."""
    low: float
    high: float
    """Ends of the interval in which `LEVEL` of further runs lie."""
    runs: int
    """Runs of this group that count."""


@dataclass(frozen=True)
class _Moments:
    """A predicted logarithm."""

    mean: float
    variance: float
    """Variance of the mean of the group, without the noise of a single run."""


class MixedModel(Generic[Group]):
    """The logarithms of ratios of one job, or of many, by groups that share a part."""

    def __init__(
        self,
        groups: Mapping[Group, Sequence[float]],
        *,
        prior: Callable[[Group], float] = lambda _: 0.0,
        noise: float = NOISE_SPREAD,
    ) -> None:
        """Fit the model.

        Args:
            groups: Logarithms of ratios by group, the latest last; a group may be empty.
            prior: The logarithm that is expected of a group before any run.
            noise: Standard deviation of a run before repeats tell.
        """
        self._prior = prior
        found = {name: list(values)[-RUNS_MAX:] for name, values in groups.items() if values}
        self._counts = {name: len(values) for name, values in found.items()}
        self._means = {name: _middle(values) - prior(name) for name, values in found.items()}
        squares = sum((value - fmean(values)) ** 2 for values in found.values() for value in values)
        repeats = sum(len(values) - 1 for values in found.values())
        self._freedom = NOISE_WORTH + repeats
        self._noise = (NOISE_WORTH * noise**2 + squares) / self._freedom
        weights = {name: 1.0 / (OWN_SPREAD**2 + self._noise / count) for name, count in self._counts.items()}
        precision = 1.0 / COMMON_SPREAD**2 + sum(weights.values())
        self._common = sum(weights[name] * mean for name, mean in self._means.items()) / precision
        self._common_variance = 1.0 / precision

    @property
    def runs(self) -> int:
        """Runs that count, of all groups."""
        return sum(self._counts.values())

    def of(self, name: Group) -> Estimate:
        """Estimate the ratio of a group.

        Args:
            name: The group; one without runs has what the others tell.
        """
        moments, count = self._moments(name), self._counts.get(name, 0)
        # Student's quantile, for a further run of the group.
        reach = _student(self._freedom) * math.sqrt(moments.variance + self._noise)
        return Estimate(
            ratio=math.exp(moments.mean),
            low=math.exp(moments.mean - reach),
            high=math.exp(moments.mean + reach),
            runs=count,
        )

    def _moments(self, name: Group) -> _Moments:
        count = self._counts.get(name, 0)
        part = OWN_SPREAD**2 / (OWN_SPREAD**2 + self._noise / count) if count else 0.0
        left = self._means.get(name, 0.0) - self._common
        return _Moments(
            mean=self._prior(name) + self._common + part * left,
            variance=(1.0 - part) * OWN_SPREAD**2 + (1.0 - part) ** 2 * self._common_variance,
        )


def _middle(values: Sequence[float]) -> float:
    """The mean of the runs of a group, without the excess of outliers."""
    centre = median(values)
    return centre + fmean(max(-OUTLIER, min(value - centre, OUTLIER)) for value in values)


def _student(freedom: float) -> float:
    """Quantile of Student's distribution for an interval of `LEVEL` (Abramowitz and Stegun, 26.7.5).

    The expansion is within 2 % from two degrees of freedom on.
    """
    z = NormalDist().inv_cdf(0.5 + LEVEL / 2)
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
    )
    return z + sum(term / freedom**power for power, term in enumerate(terms, 1))
