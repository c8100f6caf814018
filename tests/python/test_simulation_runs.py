"""Runs of scenarios from Python: outcomes, jobs alone, interruptions, faults of scenarios."""

import dataclasses
import json
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy
import pytest
import simulated
import weir
from waits import PATIENCE_SECONDS
from weir import _core
from weir.simulation import Progress, ScenarioError
from weir.simulation.alone import Baseline
from weir.simulation.engine import Prepared, simulate
from weir.simulation.figures import figures_of_jobs, figures_of_run
from weir.simulation.runs import prepare, record
from weir.simulation.workload import Kind, Steps

MIB = 1 << 20
TARGETS_BYTES_PER_SECOND = 4 * 100e6


def test_two_writers_share_the_targets_by_their_size() -> None:
    scenario = simulated.scenario()
    outcome = weir.simulation.run(scenario)
    assert outcome.is_complete
    assert not outcome.is_interrupted
    large, small = outcome.jobs
    assert large.written_bytes == 3 * 400 * MIB
    assert small.written_bytes == 400 * MIB
    # Three nodes write three times as much at three times the share: both end together, and the targets are never idle.
    assert outcome.seconds == pytest.approx(4 * 400 * MIB / TARGETS_BYTES_PER_SECOND, rel=0.02)
    assert small.ended_seconds == pytest.approx(large.ended_seconds, rel=0.02)
    jobs = figures_of_jobs(outcome, scenario.workload.jobs)
    assert jobs[0].share_owed == pytest.approx(0.75, abs=0.01)
    assert jobs[0].share_received == pytest.approx(0.75, abs=0.01)
    figures = figures_of_run(outcome, jobs)
    assert figures.share_error == pytest.approx(0.0, abs=0.01)
    assert figures.target_busy == pytest.approx(1.0, abs=0.02)
    assert figures.target_cost == pytest.approx(1.0, abs=0.02)
    assert figures.bytes_per_second == pytest.approx(TARGETS_BYTES_PER_SECOND, rel=0.02)
    assert figures.io_slowdown_mean is None


def test_a_slowdown_compares_with_the_job_alone() -> None:
    made = record("two", simulated.scenario(), baseline=Baseline())
    large, small = made.jobs
    assert large.alone is not None and small.alone is not None
    # Alone each job has all targets.
    assert large.alone.seconds == pytest.approx(3 * 400 * MIB / TARGETS_BYTES_PER_SECOND, rel=0.02)
    assert small.alone.seconds == pytest.approx(400 * MIB / TARGETS_BYTES_PER_SECOND, rel=0.02)
    assert large.slowdown == pytest.approx(4 / 3, rel=0.03)
    assert small.slowdown == pytest.approx(4.0, rel=0.03)
    assert small.io_slowdown == pytest.approx(4.0, rel=0.03)
    assert made.figures.io_slowdown_max == small.io_slowdown


def test_a_job_alone_has_no_neighbours_no_faults_and_no_limit() -> None:
    text = simulated.TWO_WRITERS + "[[share]]\nuser = 'bob'\nlimit = 0.1\n[[faults]]\nat = '1s'\nkind = 'speed'\n"
    text += "server = 0\ntarget = 0\nvalue = 0.5\n"
    plain = Baseline().of_jobs(prepare(simulated.scenario()))
    assert Baseline().of_jobs(prepare(simulated.scenario(text))) == plain


def test_jobs_of_one_shape_are_run_alone_once() -> None:
    text = simulated.TWO_WRITERS.replace('name = "small"', 'name = "small"\ncount = 5\nevery = "1s"')
    runs: list[tuple[int, int]] = []
    baseline = Baseline()
    scenario = simulated.scenario(text)
    alone = baseline.of_jobs(prepare(scenario), progress=lambda done, count: runs.append((done, count)))
    assert [count for _, count in runs] == [2, 2]
    assert len(alone) == 6
    assert len({one.seconds for one in alone[1:] if one is not None}) == 1
    # Another policy compares with the same runs.
    again = dataclasses.replace(scenario, policy="job-fair")
    runs.clear()
    assert baseline.of_jobs(prepare(again), progress=lambda done, count: runs.append((done, count))) == alone
    assert not runs


def test_a_file_of_another_job_was_there_before_for_a_job_alone() -> None:
    """A reader of another job's file once read nothing when it ran alone, and its slowdown had no end."""
    scenario = simulated.scenario()
    prepared = prepare(scenario)
    steps = Steps.of(
        3,
        stream=[0, 0, 1],
        kind=[Kind.CREATE, Kind.WRITE, Kind.READ],
        not_before_seconds=[0.0, 0.0, 10.0],
        bytes=[0, 40 * MIB, 40 * MIB],
    ).columns()
    document = json.loads(json.dumps(prepared.document))
    document["workload"]["streams"] = [{"job": 0, "node": 0}, {"job": 1, "node": 1}]
    document["workload"]["files"] = [{"job": 0, "bytes": 0, "placement": "usual"}]
    both = Prepared(document, steps)
    outcome = simulate(both)
    assert outcome.jobs[1].read_bytes == 40 * MIB
    writer, reader = Baseline().of_jobs(both)
    assert writer is not None and reader is not None
    assert reader.busy_seconds == pytest.approx(outcome.jobs[1].busy_seconds, rel=0.02)


def test_series_add_up_to_the_totals_and_their_interval_grows() -> None:
    scenario = dataclasses.replace(simulated.scenario(), sample_seconds=0.001)
    outcome = weir.simulation.run(scenario)
    intervals = len(outcome.targets[0].busy_series)
    assert outcome.seconds / 0.001 > 1024 >= intervals > 256
    assert outcome.sample_seconds * (intervals - 1) < outcome.seconds <= outcome.sample_seconds * intervals
    for job in outcome.jobs:
        assert job.device_series.sum() == pytest.approx(job.device_seconds, rel=1e-3)
    for target in outcome.targets:
        assert target.busy_series.sum() * outcome.sample_seconds == pytest.approx(target.busy_seconds, rel=1e-3)
        assert target.busy_series.max() <= 1.001
    assert all(len(server.link_series) == intervals for server in outcome.servers)


def test_progress_is_told_and_grows() -> None:
    seen: list[Progress] = []
    text = simulated.TWO_WRITERS.replace("[[jobs]]", "[[jobs]]\ncount = 3000\nevery = '1s'")
    text = text.replace('block = "400MiB"', 'block = "4MiB"')
    outcome = weir.simulation.run(simulated.scenario(text), progress=seen.append)
    assert outcome.events > 10_000
    assert seen
    assert [at.steps_done for at in seen] == sorted(at.steps_done for at in seen)
    assert seen[-1].steps_done <= seen[-1].steps
    assert seen[0].seconds <= seen[-1].seconds


def test_an_interruption_keeps_what_was_done() -> None:
    text = simulated.TWO_WRITERS.replace("[[jobs]]", "[[jobs]]\ncount = 3000\nevery = '1s'")
    text = text.replace('block = "400MiB"', 'block = "4MiB"')
    scenario = simulated.scenario(text)

    def interrupt(_: Progress) -> None:
        raise KeyboardInterrupt

    outcome = weir.simulation.run(scenario, progress=interrupt)
    assert outcome.is_interrupted
    assert not outcome.is_complete
    done = [job.is_complete for job in outcome.jobs]
    assert any(done)
    assert not all(done)
    made = record("cut", scenario, baseline=Baseline(), progress=interrupt)
    assert made.outcome.is_interrupted
    assert made.figures.io_slowdown_mean is None


def test_another_exception_of_progress_is_raised() -> None:
    text = simulated.TWO_WRITERS.replace("[[jobs]]", "[[jobs]]\ncount = 3000\nevery = '1s'")

    def fail(_: Progress) -> None:
        raise ZeroDivisionError("told")

    with pytest.raises(ZeroDivisionError, match="told"):
        weir.simulation.run(simulated.scenario(text.replace("400MiB", "4MiB")), progress=fail)


def answer_of(prepared: Prepared) -> str:
    return _core.simulate(json.dumps(prepared.document), prepared.steps)


def test_threads_and_processes_have_one_answer() -> None:
    prepared = prepare(dataclasses.replace(simulated.scenario(), sample_seconds=0.1, allocator="random"))
    with ThreadPoolExecutor(4) as pool:
        answers = set(pool.map(answer_of, [prepared] * 8))
    (answer,) = answers
    program = "import sys, dataclasses, simulated\nfrom weir.simulation.runs import prepare\nfrom weir import _core\n"
    program += (
        "import json\nscenario = dataclasses.replace(simulated.scenario(), sample_seconds=0.1, allocator='random')\n"
    )
    program += "prepared = prepare(scenario)\nprint(_core.simulate(json.dumps(prepared.document), prepared.steps))\n"
    other = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert other.stdout.strip() == answer


def test_the_interpreter_is_free_during_a_run() -> None:
    """Two threads meet in the middle of two runs: each waits until the other has been told of progress."""
    text = simulated.TWO_WRITERS.replace("[[jobs]]", "[[jobs]]\ncount = 3000\nevery = '1s'")
    scenario = simulated.scenario(text.replace("400MiB", "4MiB"))
    meeting = threading.Barrier(2, timeout=PATIENCE_SECONDS)

    def run(_: int) -> bool:
        met = False

        def meet(_: Progress) -> None:
            nonlocal met
            if not met:
                meeting.wait()
                met = True

        weir.simulation.run(scenario, progress=meet)
        return met

    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(run, range(2))) == [True, True]


def test_the_kinds_and_types_of_steps_are_those_of_the_engine() -> None:
    assert [kind.name.lower() for kind in Kind] == _core.step_kinds()
    columns = Steps.of(1).columns()
    assert {name: str(column.dtype) for name, column in columns.items()} == dict(_core.step_columns())


def columns_of(**changes: Any) -> dict[str, Any]:
    return {**prepare(simulated.scenario()).steps, **changes}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"kind": numpy.zeros(2, numpy.uint8)}, "the column kind has 2 numbers"),
        ({"offset": numpy.zeros(8, numpy.float32)}, "the column offset is no array of uint64"),
        ({"offset": "words"}, "the column offset is no array of uint64"),
        ({"more": numpy.zeros(8)}, "no column more"),
    ],
)
def test_wrong_columns_are_named(changes: dict[str, Any], message: str) -> None:
    document = json.dumps(prepare(simulated.scenario()).document)
    with pytest.raises((ValueError, TypeError), match=message):
        _core.simulate(document, columns_of(**changes))


def test_steps_of_an_unknown_kind_are_refused() -> None:
    columns = columns_of()
    columns["kind"] = numpy.full_like(columns["kind"], 9)
    with pytest.raises(ValueError, match="step 0 has the kind 9; kinds are 0 to 6"):
        _core.simulate(json.dumps(prepare(simulated.scenario()).document), columns)


def test_a_fault_of_a_scenario_is_one_error_with_a_hint() -> None:
    scenario = simulated.scenario()
    broken = Prepared({**scenario.document(), "policy": "nonsense"}, scenario.workload.steps.columns())
    with pytest.raises(ScenarioError, match="nonsense") as caught:
        simulate(broken)
    assert caught.value.hint
    broken = Prepared({**scenario.document(), "surprise": 1}, scenario.workload.steps.columns())
    with pytest.raises(ScenarioError, match="surprise"):
        simulate(broken)
