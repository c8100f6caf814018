"""Sweeps with the real simulator: the file and its errors, going on, and the same numbers on any pool."""

import dataclasses
import json
import signal
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest
from dask_cluster import dask_scheduler, dask_worker
from pages import check_needs_nothing, elements
from simulate_command import simulate
from slurm import missing, slurm
from waits import PATIENCE_SECONDS, wait_until
from weir.errors import WeirError
from weir.simulation import intervals
from weir.simulation.report.sweep import sweep_page
from weir.simulation.sweeps.errors import SweepError
from weir.simulation.sweeps.evaluation import OBJECTIVES, USUAL_OBJECTIVES
from weir.simulation.sweeps.execution import check
from weir.simulation.sweeps.plan import read_plan, spelled
from weir.simulation.sweeps.results import read_results

SCENARIO = """\
topology = "2x2"
lambda = "100ms"

[[jobs]]
generator = "checkpoints"
name = "climate"
user = "ann"
processes = 4
checkpoints = 2
period = "1s"
jitter = 0.5
bytes = "16MiB"

[[jobs]]
generator = "ior"
name = "dump"
user = "bob"
processes = 4
mode = "shared"
block = "16MiB"
"""
SWEEP = """\
base = "scenario.toml"

[sweep]
policy = ["fifo", "user-fair"]
allocator = ["balanced", "random"]
layout.stripe_count = [1, 4]
seeds = 3
"""
POINTS = 24


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "scenario.toml").write_text(SCENARIO)
    (tmp_path / "sweep.toml").write_text(SWEEP)
    return tmp_path


def points(folder: Path) -> dict[str, str]:
    """The finished points as their lines of text, by their settings: equal lines are equal in every bit."""
    lines = (folder / "points.ndjson").read_text().splitlines()
    return {json.dumps(json.loads(line)["settings"]): line for line in lines}


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The results of the sweep by one thread of this machine."""
    folder = tmp_path_factory.mktemp("alone")
    (folder / "scenario.toml").write_text(SCENARIO)
    (folder / "sweep.toml").write_text(SWEEP)
    answer = simulate(folder, "sweep", "sweep.toml", "--out", "results", "--threads", "1")
    assert answer.returncode == 0, answer.stderr
    return folder / "results"


def test_results_are_a_table_in_parquet_and_json(alone: Path) -> None:
    import pyarrow.parquet

    document = json.loads((alone / "results.json").read_text())
    assert len(document["points"]) == POINTS
    assert len(document["cells"]) == POINTS // 3
    assert [point["settings"]["seed"] for point in document["points"][:4]] == [0, 1, 2, 0]
    table = pyarrow.parquet.read_table(alone / "results.parquet")
    assert table.num_rows == POINTS
    assert table.column("setting.allocator").to_pylist()[:4] == ["balanced"] * 4
    assert table.column("seconds").to_pylist() == [point["figures"]["seconds"] for point in document["points"]]
    jobs = table.column("job_figures").to_pylist()[0]
    assert [job["name"] for job in jobs] == ["climate", "dump"]
    for cell in document["cells"]:
        values = [
            point["figures"]["seconds"]
            for point in document["points"]
            if all(point["settings"][key] == value for key, value in cell["settings"].items())
        ]
        assert len(values) == 3
        assert cell["figures"]["seconds"]["mean"] == pytest.approx(sum(values) / 3, rel=1e-12)
    best = document["best"]["seconds"]["settings"]
    means = {json.dumps(cell["settings"]): cell["figures"]["seconds"]["mean"] for cell in document["cells"]}
    assert means[json.dumps(best)] == min(means.values())


def test_settings_reach_the_simulator(alone: Path) -> None:
    found = [json.loads(line) for line in points(alone).values()]
    by = {
        (point["settings"]["allocator"], point["settings"]["layout.stripe_count"], point["settings"]["seed"]): point
        for point in found
        if point["settings"]["policy"] == "fifo"
    }
    # Four stripes on four targets leave the allocator no choice; one stripe for each of nine files does.
    assert by["balanced", 4, 0]["figures"]["target_cost"] == pytest.approx(1.0, abs=0.01)
    assert by["balanced", 1, 0]["figures"]["target_cost"] > 1.5
    # The seed decides about the periods between checkpoints, and about the random allocator.
    assert len({by["balanced", 1, seed]["figures"]["seconds"] for seed in range(3)}) == 3


def test_many_threads_give_the_same_bits(files: Path, alone: Path) -> None:
    answer = simulate(files, "sweep", "sweep.toml", "--out", "results", "--threads", "5")
    assert answer.returncode == 0, answer.stderr
    assert points(files / "results") == points(alone)
    assert (files / "results/results.json").read_bytes() == (alone / "results.json").read_bytes()


def test_an_interrupted_sweep_keeps_its_points_and_goes_on(files: Path, alone: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "weir.cli",
        "simulate",
        "sweep",
        "sweep.toml",
        "--out",
        "results",
        "--threads",
        "1",
    ]
    process = subprocess.Popen(command, cwd=files, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    file = files / "results/points.ndjson"
    wait_until(
        "a point has ended",
        lambda: process.poll() is not None or (file.exists() and file.read_bytes().count(b"\n") >= 2),
    )
    process.send_signal(signal.SIGINT)
    _, words = process.communicate(timeout=PATIENCE_SECONDS)
    done = points(files / "results")
    if process.returncode == 0:
        pytest.skip("the sweep ended before it was interrupted")
    assert process.returncode == 130, words
    assert f"{len(done)} of {POINTS} points are done; the same command continues" in words
    assert 2 <= len(done) < POINTS
    assert len(json.loads((files / "results/results.json").read_text())["points"]) == len(done)
    answer = simulate(files, "sweep", "sweep.toml", "--out", "results")
    assert answer.returncode == 0, answer.stderr
    assert points(files / "results") == points(alone)
    # The points that were done were not run again: their lines are the first of the file.
    assert file.read_text().splitlines()[: len(done)] == list(done.values())


def test_a_changed_sweep_is_refused_until_it_is_told(files: Path, alone: Path) -> None:
    assert simulate(files, "sweep", "sweep.toml", "--out", "results").returncode == 0
    (files / "sweep.toml").write_text(SWEEP.replace("seeds = 3", "seeds = 4"))
    answer = simulate(files, "sweep", "sweep.toml", "--out", "results")
    assert answer.returncode == 1
    assert "the values of seed" in answer.stderr and "`--changed`" in answer.stderr
    assert simulate(files, "sweep", "sweep.toml", "--out", "results", "--changed").returncode == 0
    found = points(files / "results")
    assert len(found) == POINTS // 3 * 4
    assert points(alone).items() <= found.items()


def test_a_changed_scenario_is_other_points(files: Path) -> None:
    assert simulate(files, "sweep", "sweep.toml", "--out", "results", "--no-alone").returncode == 0
    (files / "scenario.toml").write_text(SCENARIO.replace('bytes = "16MiB"', 'bytes = "8MiB"'))
    answer = simulate(files, "sweep", "sweep.toml", "--out", "results", "--no-alone")
    assert answer.returncode == 1
    assert "the machines or the work" in answer.stderr
    answer = simulate(files, "sweep", "sweep.toml", "--out", "results", "--no-alone", "--changed", "--output", "json")
    assert answer.returncode == 0, answer.stderr
    assert len(json.loads(answer.stdout)["points"]) == POINTS


FAULTS = {
    'polcy = ["fifo"]': r"sweep\.toml: line 4: sweep\.polcy.*there is no such key",
    'policy = ["fifo", "fair-ish"]': r"sweep\.toml: line 4: sweep\.policy\[1\]",
    'policy = "fifo"': r"sweep\.toml: line 4: sweep\.policy: fifo is no list of values",
    "policy = []": r"sweep\.toml: line 4: sweep\.policy: the list is empty",
    'policy = ["fifo", "fifo"]': r"line 4: sweep\.policy.*there twice",
    "layout.stripes = [1]": r"line 4: sweep\.layout\.stripes",
    '"jobs.7.count" = [1]': r"there is no jobs\.7\.count",
    "seeds = 0": r"line 4: sweep\.seeds: 0 is no number of seeds",
    "seeds = 3\nseed = [1]": r"seeds and seed contradict each other",
    "seeds = 1000\nlambda = ["
    + ", ".join(f'"{value}ms"' for value in range(1, 102))
    + "]": "101000 points; 100000 are",
    'policy = ["fifo", "user-fair"]\nscheduler = ["gift"]': r"the point policy=fifo, scheduler=gift is no scenario",
    'policy = ["fifo"]\n[[sweep.leave_out]]\nallocator = "random"': r"line 6: .*does not vary this key",
    'policy = ["fifo"]\n[[sweep.leave_out]]\npolicy = "size-fair"': r"line 6: .*none of its values",
    'policy = ["fifo"]\n[[sweep.leave_out]]\npolicy = "fifo"': r"leaves no point",
    "policy = [": "is not TOML",
}


@pytest.mark.parametrize("text", FAULTS)
def test_a_fault_of_the_file_is_one_error_with_its_place(files: Path, text: str) -> None:
    (files / "sweep.toml").write_text(f'base = "scenario.toml"\n\n[sweep]\n{text}\n')
    with pytest.raises(WeirError, match=FAULTS[text]) as caught:
        check(read_plan(files / "sweep.toml"), has_slowdowns=False)
    assert "sweep.toml" in caught.value.message
    assert "\n" not in caught.value.message


def test_a_sweep_without_its_table_or_base_is_refused(files: Path) -> None:
    for text, words in (
        ('base = "scenario.toml"\n', "no .sweep. table"),
        ('base = "nowhere.toml"\n[sweep]\nseeds = 1\n', "nowhere.toml does not exist"),
        ('base = "scenario.toml"\npolicy = "fifo"\n[sweep]\nseeds = 1\n', "policy: there is no such key"),
        ("sweep = 3\n", "no .sweep. table"),
    ):
        (files / "sweep.toml").write_text(text)
        with pytest.raises(WeirError, match=words):
            read_plan(files / "sweep.toml")


def test_a_scenario_may_hold_its_sweep(files: Path) -> None:
    (files / "both.toml").write_text(
        f'{SCENARIO}\n[sweep]\npolicy = ["fifo", "job-fair"]\n"jobs.1.processes" = [2, 4]\n'
    )
    checked = check(read_plan(files / "both.toml"), has_slowdowns=False)
    assert [point.settings for point in checked.points] == [
        {"policy": policy, "jobs.1.processes": count} for policy in ("fifo", "job-fair") for count in (2, 4)
    ]
    scenario, _ = checked.scenarios.of(checked.points[0].settings)
    assert len(scenario.workload.stream_jobs) == 4 + 2


def test_combinations_are_left_out(files: Path) -> None:
    left_out = '[[sweep.leave_out]]\npolicy = "fifo"\nseed = [1, 2]\n'
    (files / "sweep.toml").write_text(SWEEP + left_out)
    found = [point.settings for point in check(read_plan(files / "sweep.toml"), has_slowdowns=False).points]
    assert len(found) == POINTS - 8
    assert all(settings["policy"] != "fifo" or settings["seed"] == 0 for settings in found)


def test_a_point_that_the_engine_refuses_is_told_and_others_run(files: Path) -> None:
    # The layout names a target that the machines do not have, which only the engine sees.
    (files / "sweep.toml").write_text(
        'base = "scenario.toml"\n[sweep]\n"layout.components" = ["-c 1", "-c 1 -o 9.9"]\n'
    )
    answer = simulate(files, "sweep", "sweep.toml", "--out", "results", "--output", "json")
    assert answer.returncode == 1
    first, second = json.loads(answer.stdout)["points"]
    assert first["refusal"] is None and first["figures"]["is_complete"]
    assert second["figures"] is None and "9.9" in second["refusal"]
    assert "was not run" in answer.stderr


@pytest.mark.parametrize(
    "words", [["--objective", "beauty"], ["--objective", "slowdown_max", "--no-alone"], ["--threads", "0"]]
)
def test_wrong_usage_has_exit_code_2(files: Path, words: list[str]) -> None:
    answer = simulate(files, "sweep", "sweep.toml", *words)
    assert answer.returncode == 2, answer.stderr
    assert not (files / "sweep").exists()


@pytest.mark.slow
def test_a_killed_worker_changes_no_bit(files: Path, alone: Path) -> None:
    with ExitStack() as ends:
        address = ends.enter_context(dask_scheduler(files))
        workers = [ends.enter_context(dask_worker(files, address, number)) for number in range(2)]
        command = ["sweep", "sweep.toml", "--out", "results", "--dask", address]
        sweep = ends.enter_context(
            subprocess.Popen(
                [sys.executable, "-m", "weir.cli", "simulate", *command],
                cwd=files, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            )
        )  # fmt: skip
        file = files / "results/points.ndjson"
        wait_until(
            "points have ended on the cluster",
            lambda: sweep.poll() is not None or (file.exists() and file.read_bytes().count(b"\n") >= 4),
        )
        was_running = sweep.poll() is None
        workers[0].kill()
        _, words = sweep.communicate(timeout=PATIENCE_SECONDS)
        assert sweep.returncode == 0, words
        assert was_running, "the sweep ended before a worker was killed"
        assert workers[1].poll() is None
    assert points(files / "results") == points(alone)
    assert (files / "results/results.json").read_bytes() == (alone / "results.json").read_bytes()


@pytest.mark.slow
def test_a_scheduler_that_is_not_there_is_one_error(files: Path) -> None:
    answer = simulate(files, "sweep", "sweep.toml", "--dask", "tcp://127.0.0.1:9")
    assert answer.returncode == 1
    assert "error: no Dask scheduler answers at tcp://127.0.0.1:9" in answer.stderr
    assert "Traceback" not in answer.stderr


@pytest.mark.slow
@pytest.mark.skipif(bool(missing()), reason=missing() or "Slurm is there")
def test_workers_that_slurm_starts_give_the_same_bits(files: Path, alone: Path) -> None:
    with slurm(files / "slurm") as environment:
        words = ("--dask", "slurm", "--slurm-jobs", "2", "--slurm-memory", "1GiB", "--slurm-interface", "lo")
        answer = simulate(files, "sweep", "sweep.toml", "--out", "results", *words, environment=environment)
        assert answer.returncode == 0, answer.stderr
        left = subprocess.run(
            ["squeue", "-h", "-t", "R"], env=environment, capture_output=True, text=True, timeout=PATIENCE_SECONDS
        )
        assert left.stdout == "", "jobs of the sweep outlive it"
        logs = list((files / "results").glob("dask-worker-*.out"))
        assert logs, "no job of Slurm wrote a log"
    assert points(files / "results") == points(alone)


@pytest.mark.slow
def test_a_page_shows_every_choice_with_its_interval(alone: Path, tmp_path: Path) -> None:
    answer = simulate(tmp_path, "report", str(alone), "--html", "page.html")
    assert answer.returncode == 0, answer.stderr
    assert answer.stdout.splitlines()[0].split()[:3] == ["POLICY", "ALLOCATOR", "LAYOUT.STRIPE_COUNT"]
    text = (tmp_path / "page.html").read_text()
    check_needs_nothing(text)
    found = elements(text)
    results = read_results(alone)
    shown = "".join(found.text)
    drawn = [name for name in OBJECTIVES if any(name in cell.figures for cell in results.cells)]
    assert found.names.count("svg") == len(drawn)
    for cell in results.cells:
        assert spelled(cell.settings) in shown
        for name in USUAL_OBJECTIVES:
            assert intervals.spelled(cell.mean(name)) in shown, name
    # The seeds of the random allocator differ, so some choice has an interval with a width.
    assert any(
        mean.high > mean.low
        for cell in results.cells
        if (mean := cell.mean("target_cost")) is not None and mean.low is not None and mean.high is not None
    )
    assert "fewer than" not in shown


def test_a_page_of_a_sweep_that_has_not_ended_says_so(alone: Path) -> None:
    results = read_results(alone)
    half = dataclasses.replace(results, records=results.records[:5])
    shown = "".join(elements(sweep_page("half", half)).text)
    assert "5 points of 2 settings" in shown
    assert "1 of 2 settings have fewer than 3 seeds" in shown
    with pytest.raises(SweepError, match="no point of nothing has run"):
        sweep_page("nothing", dataclasses.replace(results, records=()))


def test_a_refused_point_is_on_the_page(alone: Path) -> None:
    results = read_results(alone)
    refused = dataclasses.replace(results.records[-1], figures=None, refusal="the targets are full")
    page = sweep_page("refused", dataclasses.replace(results, records=(*results.records[:-1], refused)))
    assert f"Not run: {spelled(refused.settings)}: the targets are full" in "".join(elements(page).text)


def test_a_sweep_is_reported_alone(alone: Path) -> None:
    answer = simulate(alone, "report", str(alone), str(alone))
    assert answer.returncode == 2
    assert "the folder of a sweep is reported alone" in answer.stderr


def test_nothing_is_pickled(alone: Path) -> None:
    assert {entry.name for entry in alone.iterdir()} == {
        *("sweep.json", "points.ndjson", "results.json", "results.parquet", "lock")
    }
    assert (alone / "lock").stat().st_size == 0
