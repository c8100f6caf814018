"""Runs of scenarios, and of their jobs alone."""

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING

from weir.simulation.alone import Baseline
from weir.simulation.engine import Prepared, Progress, simulate
from weir.simulation.figures import figures_of_jobs
from weir.simulation.outcome import Outcome
from weir.simulation.records import Record, record_of

if TYPE_CHECKING:
    from weir.simulation.scenario import Scenario

SAMPLE_SECONDS = 1e-3
"""Interval of the series, where a scenario names none; the engine doubles it in a long run."""


def prepare(scenario: "Scenario") -> Prepared:
    """Put a scenario into the engine's shape.

    Returns:
        The scenario as JSON's values and columns.
    """
    return Prepared(scenario.document(), scenario.workload.steps.columns())


def run(scenario: "Scenario", *, progress: Callable[[Progress], object] | None = None) -> Outcome:
    """Run a scenario in virtual time. One scenario has one outcome, bit for bit.

    The interpreter's lock is free while the engine works, so that threads run scenarios beside each other.

    Args:
        progress: Called now and then. A KeyboardInterrupt that it raises ends the run early, like that of the user.

    Returns:
        The outcome. After an interruption it has all that was done, and `is_interrupted` is true.

    Raises:
        ScenarioError: The scenario has a fault, which the error names.
    """
    return simulate(prepare(scenario), progress=progress)


def observe(scenario: "Scenario", job: int, window_seconds: float) -> Outcome:
    """Run a scenario in virtual time, and keep the store's windows and the steps of one job.

    Args:
        scenario: A scenario of the mode `request` with an end.
        job: Place of the job in the workload.

    Returns:
        The outcome, whose `observed` is there.

    Raises:
        ScenarioError: The scenario has a fault, which the error names.
    """
    prepared = prepare(scenario)
    watched = {"observe": {"job": job, "window_seconds": window_seconds}}
    return simulate(dataclasses.replace(prepared, document={**prepared.document, **watched}))


def record(
    name: str,
    scenario: "Scenario",
    *,
    baseline: Baseline | None = None,
    progress: Callable[[Progress], object] | None = None,
    progress_alone: Callable[[int, int], object] | None = None,
) -> Record:
    """Run a scenario, and each of its jobs alone, for the slowdowns.

    Args:
        name: Name of the run in reports.
        scenario: The scenario. Where it keeps no series, one of about 1,000 intervals is kept.
        baseline: Runs of jobs alone, which are kept there for the next scenario; without it none is run alone.
        progress: As for `run`.
        progress_alone: Called with the number of runs of jobs alone that are done, and of all.

    Returns:
        The record. After an interruption of the run, no job was run alone; after one of the runs alone, no job has a
        slowdown.

    Raises:
        ScenarioError: The scenario has a fault, which the error names.
    """
    prepared = prepare(dataclasses.replace(scenario, sample_seconds=scenario.sample_seconds or SAMPLE_SECONDS))
    outcome = simulate(prepared, progress=progress)
    alone = None
    if baseline is not None and not outcome.is_interrupted:
        try:
            alone = baseline.of_jobs(prepared, progress=progress_alone)
        except KeyboardInterrupt:
            outcome = dataclasses.replace(outcome, is_interrupted=True)
    return record_of(name, prepared, outcome, figures_of_jobs(outcome, scenario.workload.jobs, alone))
