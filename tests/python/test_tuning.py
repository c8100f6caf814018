"""Tuning: the space of layouts, workloads that are held out, a search that goes on, and honest judgements."""

import json
import shutil
import signal
import sqlite3
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from simulate_command import simulate
from store import Store
from waits import PATIENCE_SECONDS, wait_until
from weir import _core
from weir.simulation.documents import Document, parse_document
from weir.simulation.errors import ScenarioError, SimulationError
from weir.simulation.scenario import scenario_of
from weir.simulation.sweeps.pools import Threads
from weir.simulation.topology import parse_topology, topology_named
from weir.simulation.tuning.application import application_of
from weir.simulation.tuning.cases import Case, Log, Mixes, cases_of_logs, cases_of_seeds, find_logs
from weir.simulation.tuning.errors import TuningError
from weir.simulation.tuning.judgement import judge
from weir.simulation.tuning.search import Run
from weir.simulation.tuning.space import Space, space_of
from weir.simulation.tuning.tuner import Options, Tuned, tune
from weir.simulation.workload import SkippedLog

LOGS = Path(__file__).resolve().parents[1] / "data/darshan"
SCENARIO = """\
topology = "2x4"
policy = "user-then-size-fair"

[layout]
components = "{layout}"

[[jobs]]
generator = "checkpoints"
name = "wide"
user = "ann"
group = "physics"
processes = 2
checkpoints = 2
period = "1s"
jitter = 0.5
bytes = "256MiB"
mode = "shared"

[[jobs]]
generator = "ior"
name = "narrow"
user = "bob"
group = "biology"
processes = 4
block = "4MiB"
"""
TARGETS = 8


def scenario(folder: Path, layout: str = "-c 1") -> Document:
    return parse_document(SCENARIO.format(layout=layout), origin="scenario.toml", folder=folder)


def space(*parts: str, policies: tuple[str, ...] = ()) -> Space:
    return space_of(scenario_of(scenario(Path())), parts, policies=policies, shares=[])


@given(st.data())
def test_every_point_of_the_space_is_a_layout(data: st.DataObject) -> None:
    dimensions = space("layout").distributions()
    numbers: dict[str, Any] = {name: data.draw(st.integers(each.low, each.high)) for name, each in dimensions.items()}
    changes = space("layout").changes(numbers)
    components = _core.parse_layout(changes["layout.components"])
    assert len(components) == numbers["components"]
    assert [part["start"] for part in components[1:]] == [part["end"] for part in components[:-1]]
    assert all(part["start"] < (part["end"] or 0) for part in components[:-1])
    assert components[-1]["end"] is None
    assert all(1 <= (part["stripes"] or 0) <= TARGETS for part in components)
    assert {part["stripe_bytes"] for part in components} == {changes["layout.stripe_size"]}


@pytest.mark.parametrize(
    ("components", "is_there"),
    [
        (((128 << 20, 1), (512 << 20, 3), (2 << 30, 8), (None, -1)), True),
        (((128 << 20, 1), (512 << 20, 3), (2 << 30, 8), (None, 16)), False),
        (((100 << 20, 1), (None, 4)), False),
        (((None, 8),), True),
    ],
)
def test_layouts_are_found_in_the_space(components: Any, is_there: bool) -> None:
    numbers = space("layout").numbers_of_layout(components, 1 << 20)
    assert (numbers is not None) == is_there
    if numbers is not None:
        found = _core.parse_layout(space("layout").changes(numbers)["layout.components"])
        assert [(part["end"], part["stripes"]) for part in found] == [
            (end, TARGETS if count == -1 else count) for end, count in components
        ]


def test_parameters_of_the_policy_are_changes_of_the_scenario() -> None:
    found = space("policy", "scheduler", "lambda", "weights", "allocator", policies=("fifo",))
    assert set(found.policies) == {"user-then-size-fair", "size-then-user-fair", "fifo"} & set(found.policies)
    assert {"user-then-size-fair", "fifo"} <= set(found.policies)
    numbers = {"scheduler": "tbf", "lambda_seconds": 0.123, "policy": "fifo", "weight_physics": 2.0}
    changes = found.changes(numbers)
    # The policy fifo is its own scheduler.
    assert changes == {
        "policy": "fifo",
        "scheduler": "fifo",
        "lambda": "123ms",
        "share": [{"group": "physics", "weight": 2.0}],
    }
    scenario_of(scenario(Path()).changed(changes))


def test_what_cannot_be_searched_is_refused() -> None:
    with pytest.raises(TuningError, match="no part of the settings is called colour"):
        space("colour")
    with pytest.raises(TuningError, match="nothing to search"):
        space()
    with pytest.raises(TuningError, match="nice-fair is no policy"):
        space("policy", policies=("nice-fair",))


@given(st.integers(2, 30), st.integers(0, 100), st.integers(1, 5))
def test_no_log_is_searched_with_and_judged_by(count: int, seed: int, at_once: int) -> None:
    logs = [Log(Path(f"/logs/{number}.darshan"), number) for number in range(count)]
    mixes = Mixes(training=3, held_out=4, room_bytes=30, at_once=at_once)
    cases = cases_of_logs(logs, seed, mixes)
    assert cases == cases_of_logs(logs, seed, mixes)

    def names(part: tuple[Case, ...]) -> set[str]:
        return {job["log"] for case in part for job in case.changes["jobs"]}

    assert names(cases.training) and names(cases.held_out)
    assert not names(cases.training) & names(cases.held_out)
    assert all(len(case.changes["jobs"]) <= at_once for case in cases.training)
    # The targets hold 30 bytes, and the number of a log is its bytes.
    for case in (*cases.training, *cases.held_out):
        assert sum(int(Path(job["log"]).stem) for job in case.changes["jobs"]) <= 30


def test_no_seed_is_searched_with_and_judged_by() -> None:
    cases = cases_of_seeds(7, 2, 3)
    assert [case.changes["seed"] for case in cases.training] == [7, 8]
    assert [case.changes["seed"] for case in cases.held_out] == [9, 10, 11]


def test_a_folder_with_one_log_is_not_enough(tmp_path: Path) -> None:
    topology = topology_named("2x2")
    with pytest.raises(SimulationError, match="there are no Darshan logs"):
        find_logs(tmp_path, topology)
    shutil.copy(LOGS / "ior_hdf5_example.darshan", tmp_path)
    with pytest.raises(TuningError, match=r"1 of 1 logs in .* can be used"):
        find_logs(tmp_path, topology)


def test_a_log_that_the_targets_cannot_hold_is_an_error_or_left_out_by_name(tmp_path: Path) -> None:
    for name in ("ior_hdf5_example", "sample-dxt-simple", "sample-goodost"):
        shutil.copy(LOGS / f"{name}.darshan", tmp_path)
    # 48 GiB of sample-goodost, of 4 GiB.
    topology = parse_topology(topology_named("2x2").text().replace("1TiB", "1GiB"), origin="small")
    with pytest.raises(ScenarioError, match=r"sample-goodost\.darshan hold 51539607552 bytes .* room for 4294967296"):
        find_logs(tmp_path, topology)
    skipped: list[SkippedLog] = []
    found = find_logs(tmp_path, topology, skip_too_large=skipped.append)
    assert [log.path.stem for log in found] == ["ior_hdf5_example", "sample-dxt-simple"]
    assert [log.path.stem for log in skipped] == ["sample-goodost"]
    (tmp_path / "machines.toml").write_text(topology.text())
    answer = simulate(tmp_path, "tune", "--logs", ".", "--topology", "machines.toml", "--trials", "1")
    assert answer.returncode == 2
    error, hint = answer.stderr.splitlines()
    assert "sample-goodost.darshan" in error and "leave such logs out by `--skip-too-large`" in hint


def run(cost: float | None, **jobs: float) -> Run:
    rows = [{"name": name, "io_seconds": seconds} for name, seconds in jobs.items()]
    return Run(cost, None if cost is None else {"job_figures": rows}, "" if cost else "it is full")


def test_a_judgement_names_the_worst_case_and_the_job_that_pays() -> None:
    cases = [Case(name, {}) for name in ("a", "b", "c", "d")]
    defaults = [run(10.0, x=1.0, y=1.0), run(10.0, x=1.0), run(10.0, x=1.0), run(10.0, x=2.0)]
    found = judge(cases, [run(5.0, x=0.4, y=3.0), run(6.0, x=0.5), run(11.0, x=1.1), run(5.0, x=1.0)], defaults)
    assert [each.case for each in found.worse] == ["c"]
    assert found.worst_job is not None
    assert (found.worst_job.case, found.worst_job.job, found.worst_job.ratio) == ("a", "y", 3.0)
    mean = found.mean
    assert mean is not None and mean.high is not None
    assert mean.mean == pytest.approx((0.5 * 0.6 * 1.1 * 0.5) ** 0.25)
    # Three of four workloads take nearly half, and yet one that loses makes the interval reach 1.
    assert mean.high > 1.0
    assert not found.is_better


def test_a_setting_that_fails_a_workload_is_not_better() -> None:
    cases = [Case(str(number), {}) for number in range(5)]
    defaults = [run(10.0, x=1.0)] * 5
    assert judge(cases, [run(5.0 + number / 10, x=0.5) for number in range(5)], defaults).is_better
    found = judge(cases, [*(run(5.0 + number / 10, x=0.5) for number in range(4)), run(None)], defaults)
    assert [each.case for each in found.failures] == ["4"]
    assert not found.is_better


def test_an_outcome_that_differs_by_rounding_is_neither_better_nor_worse() -> None:
    # Layouts that leave no job waiting for another end with sums of times that differ in the last digits.
    cases = [Case(str(number), {}) for number in range(5)]
    defaults = [run(1.0, x=1.0)] * 5
    for sign in (-1, 1):
        found = judge(cases, [run(1.0 + sign * (number + 1) * 1e-10, x=1.0 + 1e-10) for number in range(5)], defaults)
        assert not found.is_better
        assert found.worse == [] and found.worst_job is None
    # A gain of half a percent on each workload is less than the model's own error.
    assert not judge(cases, [run(0.995 - number * 1e-4, x=1.0) for number in range(5)], defaults).is_better


def tuned(folder: Path, layout: str = "-c 1", **options: Any) -> Tuned:
    folder.mkdir(exist_ok=True)
    chosen = Options(**{"objective": "job_bytes_per_second", "trials": 16, **options})
    return tune(
        scenario(folder, layout), cases_of_seeds(0, 2, 4), chosen, folder, pool=Threads(2), progress=lambda *_: None
    )


def trials(folder: Path) -> list[tuple[str, str]]:
    """The parameters and values of the trials that ended, in their order."""
    with sqlite3.connect(folder / "trials.db") as database:
        return database.execute(
            "SELECT trials.trial_id, param_name || '=' || param_value || ':' || IFNULL(value, '') FROM trials"
            " JOIN trial_params USING (trial_id) LEFT JOIN trial_values USING (trial_id)"
            " WHERE state IN ('COMPLETE', 'PRUNED') ORDER BY trials.trial_id, param_name"
        ).fetchall()


def values(folder: Path) -> list[str]:
    return [text for _, text in trials(folder)]


@pytest.mark.slow
def test_a_layout_that_is_better_is_found_and_judged(tmp_path: Path) -> None:
    found = tuned(tmp_path / "one")
    assert found.judgement is not None
    components = _core.parse_layout(found.changes["layout.components"])
    # Two processes write one file of 512 MiB: on one of eight targets it takes several times as long as on many.
    assert max(part["stripes"] or 0 for part in components) > 1
    assert found.judgement.is_better
    # How much better depends on the machine: the sampler's dice end differently on other processors.
    mean = found.judgement.mean
    assert mean is not None and mean.mean < 1
    assert len(found.judgement.comparisons) == 4
    again = tuned(tmp_path / "two")
    assert again.document() == found.document()
    assert values(tmp_path / "two") == values(tmp_path / "one")


@pytest.mark.slow
def test_a_search_goes_on_as_if_it_had_not_stopped(tmp_path: Path) -> None:
    tuned(tmp_path / "whole", trials=18)
    with pytest.raises(KeyboardInterrupt):
        folder = tmp_path / "parts"
        folder.mkdir()

        def stop(done: int, _: int) -> None:
            if done == 15:
                raise KeyboardInterrupt

        chosen = Options(objective="job_bytes_per_second", trials=18)
        tune(scenario(folder), cases_of_seeds(0, 2, 4), chosen, folder, pool=Threads(2), progress=stop)
    assert len({trial for trial, _ in trials(tmp_path / "parts")}) == 15
    tuned(tmp_path / "parts", trials=18)
    assert values(tmp_path / "parts") == values(tmp_path / "whole")


@pytest.mark.slow
def test_trials_of_another_search_are_refused(tmp_path: Path) -> None:
    tuned(tmp_path / "out", trials=2)
    with pytest.raises(TuningError, match="holds trials of another search"):
        tuned(tmp_path / "out", trials=3, seed=1)
    with pytest.raises(TuningError, match="holds trials of another search"):
        tuned(tmp_path / "out", "-c 2", trials=3)
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad/trials.db").write_bytes(b"no database at all" * 1000)
    with pytest.raises(TuningError, match=r"trials\.db cannot be used"):
        tuned(tmp_path / "bad", trials=2)


@pytest.mark.slow
def test_the_command_answers_with_its_exit_code(tmp_path: Path) -> None:
    (tmp_path / "scenario.toml").write_text(SCENARIO.format(layout="-c 1"))
    words = ("tune", "scenario.toml", "--objective", "job_bytes_per_second", "--training", "2", "--held-out", "4")
    answer = simulate(tmp_path, *words, "--trials", "8", "--out", "better", "--output", "json")
    assert answer.returncode == 0, answer.stderr
    document = json.loads(answer.stdout)
    assert document["held_out"]["is_better"]
    assert document["commands"][0][:3] == ["weir", "layout", "set"]
    assert json.loads((tmp_path / "better/tuning.json").read_text())["found"] == document["found"]
    # The default of this one is what the search would find, so nothing is better.
    (tmp_path / "scenario.toml").write_text(SCENARIO.format(layout=document["found"]["layout.components"]))
    answer = simulate(tmp_path, *words, "--trials", "2", "--out", "no-better", "--apply", str(tmp_path))
    assert answer.returncode == 1
    assert "not shown to be better" in answer.stderr
    assert "nothing is applied" in answer.stderr
    assert "Traceback" not in answer.stderr


@pytest.mark.slow
def test_a_site_tunes_its_running_store_from_its_own_logs(store: Store, tmp_path: Path) -> None:
    store.up(servers=2, targets=2, policy="job-fair", read_speed="200MB/s", write_speed="200MB/s")
    logs = tmp_path / "logs"
    logs.mkdir()
    for pattern in ("sample-dxt-simple*", "ior_hdf5_example*", "pq_app_write_id71296*"):
        for log in LOGS.glob(pattern):
            shutil.copy(log, logs)
    (logs / "broken.darshan").write_bytes(b"no log at all")
    words = ("--trials", "3", "--training", "2", "--held-out", "2", "--skip-unreadable", "--from-store")
    answer = simulate(tmp_path, "tune", "--logs", "logs", *words, "--out", "tuned", environment=store.variables())
    assert answer.returncode in (0, 1), answer.stderr
    assert "broken.darshan" in answer.stderr and "1 log was left out" in answer.stderr
    # The found setting stands beside the default, with the figures of logs that the search never saw.
    for start in ("found: layout.components = ", "default: layout.components = -c -1 -S 1048576", "held out: "):
        assert any(line.startswith(start) for line in answer.stderr.splitlines()), start
    assert answer.stdout.splitlines()[0].split()[-1] == "RATIO"
    document = json.loads((tmp_path / "tuned/tuning.json").read_text())
    assert document["default"]["policy"] == "job-fair"
    assert [Path(log["path"]).name for log in document["skipped_logs"]] == ["broken.darshan"]
    judged = document["held_out"]["workloads"]
    assert len(judged) == 3 and all(each["default"] is not None for each in judged)
    assert set(document["held_out"]["worse"]) <= {each["name"] for each in judged}


@pytest.mark.slow
def test_an_interrupted_tuning_says_where_its_trials_are(tmp_path: Path) -> None:
    (tmp_path / "scenario.toml").write_text(SCENARIO.format(layout="-c 1"))
    command = [
        sys.executable,
        "-m",
        "weir.cli",
        "simulate",
        "tune",
        "scenario.toml",
        "--trials",
        "2000",
        "--out",
        "out",
    ]
    process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def has_begun() -> bool:
        try:
            return process.poll() is not None or len(trials(tmp_path / "out")) > 0
        except sqlite3.OperationalError:
            return False

    wait_until("a trial has ended", has_begun)
    process.send_signal(signal.SIGINT)
    _, words = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 130, words
    assert "the trials that ended are in out; the same command continues" in words


def test_the_model_of_the_runs_is_chosen(tmp_path: Path) -> None:
    (tmp_path / "scenario.toml").write_text(SCENARIO.format(layout="-c 1"))
    costs = {}
    for mode in ("flow", "request"):
        words = ("--mode", mode, "--trials", "1", "--training", "1", "--held-out", "1", "--out", mode)
        answer = simulate(tmp_path, "tune", "scenario.toml", *words, "--output", "json")
        document = json.loads(answer.stdout)
        assert document["default"]["mode"] == mode
        (workload,) = document["held_out"]["workloads"]
        costs[mode] = workload["default"]
    assert costs["flow"] != costs["request"]


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("--logs", "."),
        ("scenario.toml", "--topology", "2x2"),
        ("scenario.toml", "--from-store"),
        ("scenario.toml", "--skip-unreadable"),
        ("scenario.toml", "--skip-too-large"),
        ("--logs", ".", "--topology", "2x2", "--from-store"),
        ("scenario.toml", "--objective", "beauty"),
        ("scenario.toml", "--dask", "tcp://127.0.0.1:9", "--threads", "2"),
    ],
)
def test_wrong_usage_has_exit_code_2(tmp_path: Path, words: tuple[str, ...]) -> None:
    (tmp_path / "scenario.toml").write_text(SCENARIO.format(layout="-c 1"))
    answer = simulate(tmp_path, "tune", *words)
    assert answer.returncode == 2, answer.stderr


def test_the_way_onto_a_store_is_commands_and_lines() -> None:
    changes = {
        "layout.components": "-E 1M -c 1 -S 64k -E -1 -c 4 -S 64k",
        "layout.stripe_size": 65536,
        "scheduler": "tbf",
        "lambda": "50ms",
        "share": [{"group": "physics", "weight": 2.0}],
    }
    found = application_of(changes, "user-fair", "/weir/data")
    assert found.commands == (
        ("layout", "set", *["-E", "1M", "-c", "1", "-S", "64k", "-E", "-1", "-c", "4", "-S", "64k"], "/weir/data"),
        ("policy", "set", "user-fair", "--scheduler", "tbf"),
    )
    assert tomllib.loads("\n".join(found.lines)) == {
        "lambda_milliseconds": 50,
        "share": [{"group": "physics", "weight": 2.0}],
    }


@pytest.mark.slow
def test_a_found_setting_is_set_on_a_real_store(fuse: None, make_store: Callable[[], Store], tmp_path: Path) -> None:
    store = make_store()
    store.up(servers=2, targets=4)
    folder = store.mount / "data"
    folder.mkdir()
    (tmp_path / "scenario.toml").write_text(SCENARIO.format(layout="-c 1"))
    words = ("--home", str(store.home), "simulate", "tune", "scenario.toml", "--objective", "job_bytes_per_second")
    more = ("--training", "2", "--held-out", "4", "--trials", "6", "--out", "out", "--apply", str(folder))
    answer = subprocess.run(
        [sys.executable, "-m", "weir.cli", *words, *more, "--output", "json"],
        cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False,
    )  # fmt: skip
    assert answer.returncode == 0, answer.stderr
    wanted = json.loads(answer.stdout)["found"]["layout.components"]
    got = subprocess.run(
        [sys.executable, "-m", "weir.cli", "--home", str(store.home), "layout", "get", str(folder), "--output", "json"],
        capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=True,
    )  # fmt: skip
    assert json.loads(got.stdout)["components"] == _core.parse_layout(wanted)


def test_a_scenario_that_cannot_run_is_one_error(tmp_path: Path) -> None:
    with pytest.raises(SimulationError):
        tuned(tmp_path / "out", "-c 4 -o 9.9", trials=2)
