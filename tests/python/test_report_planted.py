"""Pages of real runs beside the faults that were planted in them before their author saw a rule of the report."""

import pytest
from planted_runs import (
    RULES,
    PlantedRun,
    judged,
    known_to_the_store,
    mpi_launcher,
    page_of,
    page_of_job,
    planted_runs,
)

MISSED = {"sync_each_write"}
"""Kinds that no source of a store's run tells: neither windows nor traces count calls that make bytes durable."""
QUICK = ("append", "backwards", "samples", "verify", "analysis")
"""Runs of every test; the others are slow."""

PAST = ("rows", "append", "starved", "slow", "analysis")
"""Runs of one process whose faults the servers can know, and one without a fault."""


def test_every_kind_has_a_rule_and_some_runs_have_no_fault() -> None:
    runs = planted_runs()
    assert {fault.kind for run in runs for fault in run.faults} <= RULES.keys()
    assert sum(bool(run.faults) for run in runs) == 10
    assert sum(not run.faults for run in runs) == 2


@pytest.mark.parametrize(
    "run",
    [pytest.param(run, id=run.name, marks=() if run.name in QUICK else pytest.mark.slow) for run in planted_runs()],
)
def test_a_page_says_what_was_planted_and_nothing_else(run: PlantedRun) -> None:
    if run.needs_mpi and mpi_launcher() is None:
        pytest.skip("MPICH or mpi4py is not there")
    page = page_of(run)
    verdict = judged(run, page)
    expected = [fault for fault in run.faults if fault.kind not in MISSED]
    assert verdict.confirmed == expected, page["findings"]
    assert not verdict.wrong, page["findings"]


@pytest.mark.slow
@pytest.mark.parametrize("run", [run for run in planted_runs() if run.name in PAST], ids=lambda run: run.name)
def test_a_past_job_has_the_faults_that_its_store_can_know(run: PlantedRun) -> None:
    page = page_of_job(run)
    assert known_to_the_store(run, page) == [fault for fault in run.faults if fault.store_knows], page["findings"]
    assert not judged(run, page).wrong, page["findings"]
