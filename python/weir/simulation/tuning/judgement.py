"""The judgement of a setting on workloads that the search never saw, and what the setting costs where it is wrong."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from weir.simulation.intervals import LEVEL, METHOD, Interval, ratio_of
from weir.simulation.tuning.cases import Case
from weir.simulation.tuning.search import Run

GAIN_MIN = 0.01
"""Least gain that is a reason to change a setting: the model of machines errs by more (docs/design/simulation.md)."""
_ROUNDING = 1e-6
"""Ratios that differ from 1 by less are those of one outcome, whose times were summed in another order."""


@dataclass(frozen=True)
class Comparison:
    """A workload under the found setting and under the default."""

    case: str
    found: Run
    default: Run

    @property
    def ratio(self) -> float | None:
        """Cost under the found setting by that under the default; None where one of them has none."""
        if self.found.cost is None or self.default.cost is None:
            return None
        return self.found.cost / self.default.cost


@dataclass(frozen=True)
class Loss:
    """The job that a setting slows the most."""

    case: str
    job: str
    ratio: float
    """Its time in I/O by that under the default."""


@dataclass(frozen=True)
class Judgement:
    """A setting beside the default."""

    comparisons: tuple[Comparison, ...]

    @property
    def ratios(self) -> list[float]:
        """The ratios of costs, where both have one."""
        return [each.ratio for each in self.comparisons if each.ratio is not None]

    @property
    def failures(self) -> list[Comparison]:
        """Workloads that the default carries and the setting does not."""
        return [each for each in self.comparisons if each.found.cost is None and each.default.cost is not None]

    @property
    def mean(self) -> Interval | None:
        """Geometric mean of the ratios with its interval; None where there are no ratios."""
        pairs = [each for each in self.comparisons if each.ratio is not None]
        return ratio_of([each.found.cost or 0.0 for each in pairs], [each.default.cost or 0.0 for each in pairs])

    @property
    def is_better(self) -> bool:
        """Whether the setting carries every workload, and the interval of its gain lies above `GAIN_MIN`."""
        mean = self.mean
        return not self.failures and mean is not None and mean.high is not None and mean.high < 1.0 - GAIN_MIN

    @property
    def worse(self) -> list[Comparison]:
        """The workloads on which the setting is worse than the default, the worst first."""
        found = [each for each in self.comparisons if each.ratio is not None and each.ratio > 1.0 + _ROUNDING]
        return sorted(found, key=lambda each: -(each.ratio or 0.0))

    @property
    def worst_job(self) -> Loss | None:
        """The job whose time in I/O grows the most; None where none grows."""
        losses = [loss for each in self.comparisons for loss in _losses(each)]
        worst = max(losses, key=lambda loss: loss.ratio, default=None)
        return worst if worst is not None and worst.ratio > 1.0 + _ROUNDING else None

    def document(self) -> dict[str, Any]:
        """Describe the judgement.

        Returns:
            Values for JSON; ratios below 1 are in favour of the setting.
        """
        mean, worst_job = self.mean, self.worst_job
        return {
            "ratio": None if mean is None else {"mean": mean.mean, "low": mean.low, "high": mean.high},
            "intervals": {"method": METHOD, "level": LEVEL},
            "is_better": self.is_better,
            "workloads": [
                {
                    "name": each.case,
                    "ratio": each.ratio,
                    "found": _figures(each.found),
                    "default": _figures(each.default),
                    "reason": each.found.reason or each.default.reason or None,
                }
                for each in self.comparisons
            ],
            "worse": [each.case for each in self.worse],
            "failed": [each.case for each in self.failures],
            "worst_job": None
            if worst_job is None
            else {"workload": worst_job.case, "job": worst_job.job, "ratio": worst_job.ratio},
        }


def judge(cases: Sequence[Case], found: Sequence[Run], defaults: Sequence[Run]) -> Judgement:
    """Put the runs of a setting beside those of the default.

    Args:
        found: The workloads under the setting.
        defaults: The workloads under the default.
    """
    return Judgement(
        tuple(Comparison(case.name, run, default) for case, run, default in zip(cases, found, defaults, strict=True))
    )


def _losses(comparison: Comparison) -> list[Loss]:
    if comparison.found.figures is None or comparison.default.figures is None:
        return []
    pairs = zip(comparison.found.figures["job_figures"], comparison.default.figures["job_figures"], strict=True)
    return [
        Loss(comparison.case, str(ours["name"]), ours["io_seconds"] / theirs["io_seconds"])
        for ours, theirs in pairs
        if theirs["io_seconds"] > 0
    ]


def _figures(run: Run) -> dict[str, Any] | None:
    if run.figures is None:
        return None
    return {name: value for name, value in run.figures.items() if name != "job_figures"}
