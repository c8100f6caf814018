"""`weir simulate what-if`: settings in question beside those of now, from logs, with intervals over seeds."""

import dataclasses
import json
import math
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import simulated
from store import Store
from waits import PATIENCE_SECONDS
from weir.cli.simulate.what_if import spelled_ratio
from weir.simulation import alternatives
from weir.simulation.errors import ScenarioError
from weir.simulation.intervals import Interval, interval_of, ratio_of, spelled
from weir.simulation.what_if import ask

ROOT = Path(__file__).resolve().parents[2]
LOGS = ROOT / "tests/data/darshan"


def weir(*arguments: object, **options: Any) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "weir.cli", "simulate", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False, **options)


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """The logs of a week: four runs of two programs."""
    folder = tmp_path / "logs"
    folder.mkdir()
    for pattern in ("sample-dxt-simple*", "ior_hdf5_example*", "pq_app_write_id7129*", "pq_app_write_id7130*"):
        for log in LOGS.glob(pattern):
            shutil.copy(log, folder)
    return folder


def test_an_interval_is_that_of_student() -> None:
    # Four values with mean 5 and deviation 2: t(0.975, 3) is 3.1824.
    values = [3.0, 5.0, 5.0, 7.0]
    found = interval_of(values)
    assert found is not None and found.high is not None and found.low is not None
    deviation = math.sqrt(8 / 3)
    assert found.mean == 5.0
    assert found.high - 5.0 == pytest.approx(3.18245 * deviation / 2, rel=1e-4)
    assert 5.0 - found.low == pytest.approx(found.high - 5.0)
    assert interval_of([2.0]) == Interval(2.0, None, None)
    assert interval_of([]) is None


def test_a_ratio_compares_seed_by_seed() -> None:
    # The seeds differ by a thousand; the setting always takes half.
    found = ratio_of([1.0, 1000.0, 10.0], [2.0, 2000.0, 20.0])
    assert found is not None and found.low is not None and found.high is not None
    assert (found.mean, found.low, found.high) == pytest.approx((0.5, 0.5, 0.5))
    assert ratio_of([1.0], [4.0]) == Interval(0.25, None, None)
    assert ratio_of([1.0, 0.0], [1.0, 1.0]) is None


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (None, "-"),
        (Interval(1.3164, None, None), "1.316"),
        (Interval(1.3164, 1.2, 1.4328), "1.316 ± 0.12"),
        (Interval(7.974e9, 7.664e9, 8.284e9), "7.974 ± 0.31 G"),
        (Interval(-25e3, None, None), "-25 k"),
        (Interval(2e30, None, None), "2e+12 E"),
        (Interval(1e-14, 0.0, 2e-14), "0 ± 0"),
    ],
)
def test_means_are_spelled_with_their_half_width(found: Interval | None, text: str) -> None:
    assert spelled(found) == text


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (None, "-"),
        (Interval(1.8449, None, None), "x1.84"),
        (Interval(1.8449, 1.479, 2.281), "x1.84 (1.48 to 2.28)"),
        (Interval(27.21, 1e-12, 1.4843e16), "x27.21 (0.00 to 1e+16)"),
    ],
)
def test_factors_are_spelled_with_their_intervals(found: Interval | None, text: str) -> None:
    assert spelled_ratio(found) == text


def test_settings_stand_beside_that_of_now() -> None:
    now = simulated.scenario()
    settings = [
        alternatives.another_policy("job-fair"),
        alternatives.another_number_of_targets(8),
        alternatives.a_dying_server("1@0s"),
    ]
    answers = ask(now, settings, seeds=[0], spread_seconds=0.0)
    assert [answer.name for answer in answers] == ["now", "policy job-fair", "8 targets", "server 1 dies at 0s"]
    present, fair, many, dead = answers
    assert [answer.scenario.topology.targets for answer in answers] == [4, 4, 8, 4]
    assert present.ratios["io_slowdown_mean"] == Interval(1.0, None, None)
    # Size-fair: the small job gets a quarter, 4 times as long as alone, the large one 4/3. Job-fair: half each until
    # the small job ends, which is 2 times as long, and the large one ends when it did.
    assert present.figures["io_slowdown_mean"] is not None and fair.figures["io_slowdown_mean"] is not None
    assert present.figures["io_slowdown_mean"].mean == pytest.approx((4 + 4 / 3) / 2, rel=0.03)
    assert fair.figures["io_slowdown_mean"].mean == pytest.approx((2 + 4 / 3) / 2, rel=0.03)
    ratio = fair.ratios["io_slowdown_mean"]
    assert ratio is not None and ratio.mean == pytest.approx(10 / 16, rel=0.04)
    # The stripes of a file stay four, of eight targets.
    faster = many.ratios["bytes_per_second"]
    assert faster is not None and 1.0 < faster.mean < 2.1
    assert dead.runs[0].jobs_complete <= present.runs[0].jobs_complete == 2


def test_a_seed_draws_the_arrivals_of_all_settings() -> None:
    now = simulated.scenario()
    settings = [alternatives.another_policy("job-fair"), alternatives.another_policy("size-fair")]
    answers = ask(now, settings, seeds=range(4), spread_seconds=None)
    present, _, same = answers
    # The same setting with the same seeds is the same; the seeds differ.
    assert same.figures == present.figures
    assert same.ratios["io_slowdown_mean"] is not None
    assert same.ratios["io_slowdown_mean"].mean == pytest.approx(1.0)
    slowdowns = {run.io_slowdown_mean for run in present.runs}
    assert len(slowdowns) == 4
    again = ask(now, settings, seeds=range(4), spread_seconds=None)
    assert [dataclasses.asdict(run) for run in again[0].runs] == [dataclasses.asdict(run) for run in present.runs]


def test_targets_come_to_and_go_from_servers_evenly() -> None:
    now = simulated.scenario()
    for count, spread in ((1, [0, 1]), (3, [1, 2]), (4, [2, 2]), (7, [3, 4])):
        topology = alternatives.another_number_of_targets(count).change(now).topology
        assert sorted(len(server["targets"]) for server in topology.document["servers"]) == spread
    assert now.topology.targets == 4


@pytest.mark.parametrize(
    ("make", "argument", "message"),
    [
        (alternatives.another_policy, "nonsense", "nonsense"),
        (alternatives.another_policy, "size-fair by nonsense", "nonsense"),
        (alternatives.another_allocator, "nonsense", "unknown allocator `nonsense`"),
        (alternatives.another_layout, "-c many", "layout -c many"),
        (alternatives.another_number_of_targets, 0, "0 targets hold nothing"),
        (alternatives.a_dying_server, "1", "is no server and moment"),
        (alternatives.a_dying_server, "1@soon", "1@soon"),
        (alternatives.a_dying_server, "1@9s-3s", "returns before it ends"),
    ],
)
def test_a_setting_that_is_none_is_refused(make: Callable[[Any], Any], argument: Any, message: str) -> None:
    with pytest.raises(ScenarioError, match=re.escape(message)) as caught:
        make(argument)
    assert caught.value.hint


def test_a_server_that_is_not_there_cannot_die() -> None:
    with pytest.raises(ScenarioError, match="there is no server 9: pair has 2"):
        alternatives.a_dying_server("9@1s").change(simulated.scenario())


@pytest.mark.slow
def test_an_administrator_asks_about_the_sites_own_logs(logs: Path, tmp_path: Path) -> None:
    answer = weir("what-if", "--logs", logs, "--topology", "2x2", "--copies", 2, "--seeds", 3, "--policy", "job-fair",
                  "--policy", "fifo", "--output", "json")  # fmt: skip
    assert answer.returncode == 0, answer.stderr
    document = json.loads(answer.stdout)
    assert document["interval"] == {"level": 0.95, "method": "Student's t over seeds", "seeds": 3}
    present, *others = document["settings"]
    assert present["name"] == "now"
    assert present["policy"] == "size-fair"
    assert [other["name"] for other in others] == ["policy job-fair", "policy fifo"]
    for setting in document["settings"]:
        figures = setting["figures"]["io_slowdown_mean"]
        assert figures["low"] <= figures["mean"] <= figures["high"]
        assert figures["mean"] >= 0.99
        assert [run["jobs_complete"] for run in setting["runs"]] == [8] * 3

    table = weir("what-if", "--logs", logs, "--topology", "2x2", "--copies", 2, "--seeds", 3, "--policy", "job-fair")
    assert table.returncode == 0, table.stderr
    header, now, other = table.stdout.splitlines()
    assert header.startswith("SETTING")
    assert now.startswith("now") and "±" in now
    assert other.startswith("policy job-fair") and " to " in other
    assert "95% intervals" in table.stderr


@pytest.mark.slow
def test_jobs_arrive_as_the_accounting_says(logs: Path, tmp_path: Path) -> None:
    accounting = tmp_path / "sacct.txt"
    lines = ["JobID|JobName|User|Account|Submit|Start|Elapsed|NNodes|NCPUS"]
    for number in (71296, 71303):
        begin = "2026-03-01T10:00:00"
        lines.append(f"{number}|pq_app_write|ada|physics|{begin}|{begin}|00:10:00|2|4")
    accounting.write_text("\n".join([*lines, ""]))
    arguments = ["what-if", "--logs", logs, "--arrivals", accounting, "--topology", "2x2", "--policy", "fifo"]
    answer = weir(*arguments, "--seeds", 2, "--output", "json")
    assert answer.returncode == 0, answer.stderr
    present = json.loads(answer.stdout)["settings"][0]
    assert present["runs"][0]["jobs"] == 2
    accounting.write_text(lines[0] + "\n1|x|y\n")
    broken = weir(*arguments)
    assert broken.returncode == 2
    assert f"{accounting}" in broken.stderr and "line 2" in broken.stderr


@pytest.mark.slow
def test_the_store_itself_is_the_present(store: Store, logs: Path) -> None:
    store.up(servers=2, targets=1, policy="job-fair", write_speed="200MB/s", read_speed="200MB/s")
    answer = subprocess.run(
        [sys.executable, "-m", "weir.cli", "simulate", "what-if", "--logs", str(logs),
         "--from-store", "--policy", "size-fair", "--seeds", "2", "--output", "json"],
        capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False, env=store.variables(),
    )  # fmt: skip
    assert answer.returncode == 0, answer.stderr
    present, other = json.loads(answer.stdout)["settings"]
    assert present["policy"] == "job-fair"
    assert other["policy"] == "size-fair"
    assert present["targets"] == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "nothing to compare"),
        (["--policy", "nonsense"], "nonsense"),
        (["--policy", "fifo", "--from-store", "--topology", "2x2"], "not both"),
        (["--policy", "fifo", "--spread", "soon"], "'--spread'"),
        (["--policy", "fifo", "--topology", "nowhere"], "nowhere"),
        (["--server-dies", "9@1s", "--topology", "2x2"], "there is no server 9"),
    ],
)
def test_wrong_usage_is_one_error_with_a_hint(logs: Path, arguments: list[str], message: str) -> None:
    answer = weir("what-if", "--logs", logs, *arguments)
    assert answer.returncode == 2, answer.stderr
    error, hint = answer.stderr.splitlines()
    assert error.startswith("error: ") and message in error
    assert hint.startswith("hint: ")


def test_a_log_that_cannot_be_read_is_named(logs: Path) -> None:
    (logs / "broken.darshan").write_bytes(b"no log at all")
    answer = weir("what-if", "--logs", logs, "--policy", "fifo")
    assert answer.returncode == 2
    assert "broken.darshan" in answer.stderr.splitlines()[0]


@pytest.mark.slow
def test_a_log_that_cannot_be_read_is_left_out_where_that_is_asked(tmp_path: Path) -> None:
    folder = tmp_path / "logs"
    folder.mkdir()
    shutil.copy(LOGS / "sample-dxt-simple.darshan", folder)
    (folder / "broken.darshan").write_bytes(b"no log at all")
    answer = weir("what-if", "--logs", folder, "--skip-unreadable", "--topology", "2x2", "--seeds", 2, "--policy",
                  "fifo", "--output", "json")  # fmt: skip
    assert answer.returncode == 0, answer.stderr
    assert f"{folder}/broken.darshan" in answer.stderr and "1 log was left out" in answer.stderr
    document = json.loads(answer.stdout)
    (skipped,) = document["skipped_logs"]
    assert skipped["path"] == str(folder / "broken.darshan") and skipped["reason"]
    assert document["settings"][0]["runs"][0]["jobs"] == 1
