"""The question of an administrator: what would another setting do to the jobs of this site?

Each setting is run with the same seeds, beside the settings of now. A seed draws the moments at which jobs arrive,
where no accounting file tells them, and all dice of the run. Slowdowns of all settings compare with one baseline: the
job alone on the system of now.
"""

import dataclasses
import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from typing import TYPE_CHECKING

from weir.simulation.alone import Alone, Baseline
from weir.simulation.engine import simulate
from weir.simulation.figures import RunFigures, figures_of_jobs, figures_of_run
from weir.simulation.intervals import Interval, interval_of, ratio_of
from weir.simulation.runs import prepare

if TYPE_CHECKING:
    from weir.simulation.scenario import Scenario

COMPARED = ("io_slowdown_mean", "io_slowdown_max", "slowdown_mean", "bytes_per_second", "share_error", "target_cost")
"""Figures of runs that an answer estimates."""
NOW = "now"
"""Name of the settings that the others are compared with."""


@dataclass(frozen=True, slots=True)
class Setting:
    """A setting in question."""

    name: str
    """Its name in the answer."""
    change: "Callable[[Scenario], Scenario]"
    """Makes its scenario of the scenario of now."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The effect of a setting."""

    name: str
    """Name of the setting."""
    scenario: "Scenario"
    """Its scenario with the first seed."""
    runs: tuple[RunFigures, ...]
    """Its runs, seed by seed."""
    figures: dict[str, Interval | None]
    """Means over seeds of the `COMPARED` figures; None where a seed's run has none."""
    ratios: dict[str, Interval | None]
    """The same as factors of the settings of now."""


def ask(
    now: "Scenario",
    settings: Sequence[Setting],
    *,
    seeds: Sequence[int],
    spread_seconds: float | None,
    progress: Callable[[str, int, int], object] | None = None,
) -> list[Answer]:
    """Run settings beside those of now.

    Args:
        settings: The settings in question.
        seeds: The seeds, each of which is one run of each setting.
        spread_seconds: Time over which a seed spreads the arrivals of jobs; 0 for the arrivals of the scenario, None
            for the time of the longest job alone.
        progress: Called with the name of a work, the number of its runs done, and of all.

    Returns:
        The answers, that of now first.

    Raises:
        ScenarioError: A scenario has a fault, which the error names.
        KeyboardInterrupt: The user ended the runs.
    """
    show = progress or (lambda *_: None)
    baseline = Baseline().of_jobs(prepare(now), progress=lambda done, runs: show("each job alone", done, runs))
    if spread_seconds is None:
        spread_seconds = max((job.seconds for job in baseline if job is not None), default=0.0)
    arrivals = [_arrivals(now, seed, spread_seconds) for seed in seeds]
    every = [Setting(NOW, lambda scenario: scenario), *settings]
    scenarios = [
        [dataclasses.replace(setting.change(arrived), seed=seed) for seed, arrived in zip(seeds, arrivals, strict=True)]
        for setting in every
    ]
    runs = _run_all(scenarios, baseline, lambda done, count: show("settings and seeds", done, count))
    return [
        _answer(setting.name, row[0], own, runs[0]) for setting, row, own in zip(every, scenarios, runs, strict=True)
    ]


def _arrivals(now: "Scenario", seed: int, spread_seconds: float) -> "Scenario":
    """The scenario with the arrivals of a seed."""
    import numpy

    if spread_seconds <= 0:
        return now
    moments = numpy.random.default_rng(seed).uniform(0.0, spread_seconds, len(now.workload.jobs))
    jobs = tuple(
        dataclasses.replace(job, arrival_seconds=float(moment))
        for job, moment in zip(now.workload.jobs, moments, strict=True)
    )
    return dataclasses.replace(now, workload=dataclasses.replace(now.workload, jobs=jobs))


def _run_all(
    scenarios: "Sequence[Sequence[Scenario]]",
    baseline: Sequence[Alone | None],
    progress: Callable[[int, int], object],
) -> list[list[RunFigures]]:
    """Run all scenarios on all processors; the figures stand as the scenarios do."""
    is_over = threading.Event()

    def watch(*_: object) -> None:
        if is_over.is_set():
            raise KeyboardInterrupt

    def run(scenario: "Scenario") -> RunFigures:
        watch()
        outcome = simulate(prepare(scenario), progress=watch)
        return figures_of_run(outcome, figures_of_jobs(outcome, scenario.workload.jobs, baseline))

    found: dict[tuple[int, int], RunFigures] = {}
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        try:
            futures = {
                pool.submit(run, scenario): (row, column)
                for row, of_setting in enumerate(scenarios)
                for column, scenario in enumerate(of_setting)
            }
            for done, future in enumerate(as_completed(futures), start=1):
                found[futures[future]] = future.result()
                progress(done, len(futures))
        finally:
            # Runs under way end at their next report, and those that wait do not begin.
            is_over.set()
            pool.shutdown(cancel_futures=True)
    return [[found[row, column] for column in range(len(of_setting))] for row, of_setting in enumerate(scenarios)]


def _answer(name: str, scenario: "Scenario", runs: Sequence[RunFigures], now: Sequence[RunFigures]) -> Answer:
    own = {key: [getattr(run, key) for run in runs] for key in COMPARED}
    reference = {key: [getattr(run, key) for run in now] for key in COMPARED}
    are_known = {key: None not in own[key] for key in COMPARED}
    return Answer(
        name=name,
        scenario=scenario,
        runs=tuple(runs),
        figures={key: interval_of(own[key]) if are_known[key] else None for key in COMPARED},
        ratios={
            key: ratio_of(own[key], reference[key]) if are_known[key] and None not in reference[key] else None
            for key in COMPARED
        },
    )
