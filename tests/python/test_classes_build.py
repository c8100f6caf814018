"""`weir classes build` on real logs and summaries: the classes, the report, a kill, a cluster."""

import gzip
import json
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest
import schemas
from dask_cluster import dask_scheduler, dask_worker
from slurm import missing, slurm
from waits import PATIENCE_SECONDS, wait_until
from weir.provisioning.behaviour.class_times import job_times
from weir.provisioning.behaviour.classes import NEW_CLASS_FITNESS, built_in, fitnesses, read_table
from weir.provisioning.behaviour.identity import identify
from weir.provisioning.behaviour.traits import of_log
from weir.provisioning.learning import usefulness
from weir.provisioning.learning.evaluation import ERROR_MAX, RUNS_ENOUGH
from weir.provisioning.learning.intervals import PROGRAMS_ENOUGH
from weir.provisioning.learning.report import Report
from weir.provisioning.learning.summaries import read_table as read_summaries
from weir.tracing.darshan import DarshanError
from weir.tracing.totals import read_totals

DATA = Path(__file__).parents[1] / "data"
SUMMARIES = DATA / "tokio"
LOGS = DATA / "darshan"
QUICK = ("--trials", "1", "--trees", "4", "--fitted-runs", "100", "--clusters", "6")
WEIR = (sys.executable, "-m", "weir.cli")
BUILD_SECONDS_MAX = 3 * PATIENCE_SECONDS
"""A build computes for half a minute in several processes, each of which may have a fiftieth of the machine."""


def weir(
    *words: object, folder: Path, environment: Mapping[str, str] | None = None
) -> "subprocess.CompletedProcess[str]":
    command = [*WEIR, *map(str, words)]
    return subprocess.run(
        command,
        cwd=folder, env=environment, capture_output=True, text=True, timeout=BUILD_SECONDS_MAX, check=False,
    )  # fmt: skip


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A build of a year of benchmark jobs of two machines, with real logs and a damaged one beside them."""
    folder = tmp_path_factory.mktemp("classes")
    logs = folder / "logs"
    shutil.copytree(LOGS, logs)
    (logs / "deep").mkdir()
    (logs / "deep" / "cut.darshan").write_bytes((LOGS / "noposix.darshan").read_bytes()[:300])
    answer = weir("classes", "build", SUMMARIES, "logs", "--to", "out", *QUICK, "--threads", "1", folder=folder)
    assert answer.returncode == 0, answer.stderr
    assert "Traceback" not in answer.stderr and "Warning" not in answer.stderr
    (folder / "stdout").write_text(answer.stdout)
    (folder / "stderr").write_text(answer.stderr)
    return folder


def report_of(folder: Path) -> Report:
    document = (folder / "out" / "report.json").read_bytes()
    jsonschema.validate(json.loads(document), schemas.schema("class-report"))
    return msgspec.json.decode(document, type=Report)


@pytest.mark.slow
def test_each_log_is_in_the_report(built: Path) -> None:
    report = report_of(built)
    readable = [log for _, log in read_totals(sorted(LOGS.rglob("*.darshan"))) if not isinstance(log, DarshanError)]
    rows = [run for path in sorted(SUMMARIES.glob("*.csv.gz")) for run in read_summaries(path)]
    assert report.runs == len(readable) + len(rows)
    assert report.logs == len(readable) + 1 + 2
    assert report.unreadable == 1
    assert any("deep/cut.darshan" in note for note in report.notes)
    assert "deep/cut.darshan" in (built / "stderr").read_text()
    assert report.months is not None
    starts = [log.started for log in readable] + [run.started for run in rows]
    assert report.months == tuple(f"{datetime.fromtimestamp(each, UTC):%Y-%m}" for each in (min(starts), max(starts)))
    for place, name in enumerate(("read", "write", "metadata")):
        assert report.targets[place].name == name
        assert report.targets[place].settings["trees"] == 4


@pytest.mark.slow
def test_the_best_model_is_that_of_held_out_months_and_applications(built: Path) -> None:
    report = report_of(built)
    products: dict[str, float] = {}
    for score in report.scores:
        if score.program is None and score.held_out != "random":
            products[score.model] = products.get(score.model, 1.0) * score.mape
    assert report.best_model == min(products, key=lambda model: products[model])
    for best in report.best:
        rivals = [
            score.mape
            for score in report.scores
            if (score.target, score.held_out, score.program) == (best.target, best.held_out, None)
        ]
        assert best.mape == min(rivals)
    held_out = {(score.target, score.held_out) for score in report.scores}
    assert held_out == {(t, h) for t in ("read", "write", "metadata") for h in ("random", "months", "applications")}
    applications = [each for each in report.scores if each.held_out == "applications" and each.target == "metadata"]
    programs = {each.program for each in applications} - {None}
    assert {"ior", "vpicio_uni", "hacc_io_read"} <= programs
    for score in report.scores:
        assert 0 <= score.coverage <= 1 and score.factor >= 1


@pytest.mark.slow
def test_later_months_are_held_out_whole(built: Path) -> None:
    report = report_of(built)
    assert report.months is not None
    assert max(report.later_months) == report.months[1]
    assert all(report.months[0] < month for month in report.later_months)


@pytest.mark.slow
def test_every_run_is_near_its_class(built: Path) -> None:
    """A run that was too far from every cluster has opened a class."""
    report = report_of(built)
    table = read_table(built / "out" / "classes.json")
    jsonschema.validate(json.loads((built / "out" / "classes.json").read_bytes()), schemas.schema("classes"))
    own = [each for each in table.classes if each.source == "site"]
    assert [each.name for each in own] == [each.name for each in report.classes]
    assert [each.times for each in own] == [each.times for each in report.classes]
    assert report.runs < RUNS_ENOUGH and len(table.classes) == len(own) + len(built_in().classes)
    assert sum(each.runs for each in report.classes) == report.runs == table.jobs
    assert sum(each.jobs_fraction for each in table.classes) == pytest.approx(1)
    assert any(each.is_opened for each in report.classes)
    assert report.chosen in {point.classes for point in report.clusters}
    runs = [of_log(log) for _, log in read_totals(sorted(LOGS.rglob("*.darshan"))) if not isinstance(log, DarshanError)]
    runs += [run.traits for path in SUMMARIES.glob("*.csv.gz") for run in read_summaries(path)]
    for traits in runs:
        assert fitnesses(identify(traits), table.classes)[0].fitness >= NEW_CLASS_FITNESS - 1e-6
    assert {each.centre.program for each in table.classes} == {""}, "a class tells no user's program"
    for each in report.classes:
        assert each.times.keys() | each.refused.keys() == {"read", "write", "metadata"}
        assert not each.times.keys() & each.refused.keys()
        assert each.middle_seconds.keys() == each.times.keys()
        for told in each.times.values():
            assert 1 <= told.factor <= report.interval_max and told.runs >= usefulness.RUNS_ENOUGH


@pytest.mark.slow
def test_a_build_of_few_runs_says_how_many_would_do(tmp_path: Path) -> None:
    """27 logs once gave errors of 66 % to 10^10 % without a word about their number."""
    header, *rows = gzip.decompress((SUMMARIES / "cori.csv.gz").read_bytes()).decode().splitlines()
    (tmp_path / "few.csv").write_text("\n".join([header, *rows[:: len(rows) // 27][:27]]) + "\n")
    answer = weir("classes", "build", "few.csv", "--to", "out", *QUICK, "--threads", "1", folder=tmp_path)
    assert answer.returncode == 0, answer.stderr
    report = report_of(tmp_path)
    assert report.runs == 27
    assert f"27 runs are too few to judge the models: {RUNS_ENOUGH} would do, because" in answer.stderr
    assert f"programs are too few to judge predictions for unknown ones: {PROGRAMS_ENOUGH} would do" in answer.stderr
    assert report.scores
    for score in report.scores:
        assert 0 <= score.mape <= ERROR_MAX and 0 <= score.median_error <= ERROR_MAX
    shown = [float(each) for each in re.findall(r"(?<!>)\b([0-9.]+)%", answer.stdout)]
    assert shown and max(shown) <= 1000, answer.stdout


@pytest.mark.slow
def test_of_few_runs_the_repeated_ones_have_useful_times(tmp_path: Path) -> None:
    """40 runs of IOR: a class of runs that repeat tells their times, and what is too wide or too rare is refused."""
    header, *rows = gzip.decompress((SUMMARIES / "cori.csv.gz").read_bytes()).decode().splitlines()
    ior = [row for row in rows if "/ior," in row and ",512," in row][:40]
    (tmp_path / "ior.csv").write_text("\n".join([header, *ior]) + "\n")
    words = ("classes", "build", "ior.csv", "--to", "out", *QUICK, "--threads", "1")
    answer = weir(*words, "--new-class", "0.9", folder=tmp_path)
    assert answer.returncode == 0, answer.stderr
    report = report_of(tmp_path)
    told = [(each, name) for each in report.classes for name in each.times]
    refused = [reason for each in report.classes for reason in each.refused.values()]
    assert told and refused
    assert any("would do" in reason for reason in refused)
    assert "the predicted write time is useful for" in answer.stderr
    table = read_table(tmp_path / "out" / "classes.json")
    assert table.new_class_fitness == 0.9
    of_class = next(each for each in table.classes if each.name == told[0][0].name)
    times = job_times(of_class.centre, of_class)
    for each in times:
        assert each.low_seconds <= each.seconds <= each.high_seconds
        assert each.seconds == pytest.approx(told[0][0].middle_seconds[each.name])
    strict = weir(*words, "--interval-max", "1", folder=tmp_path)
    assert strict.returncode == 0, strict.stderr
    assert not any(each.times for each in report_of(tmp_path).classes), "an interval has some width"


@pytest.mark.slow
def test_plans_use_the_classes(built: Path) -> None:
    log = LOGS / "sample-badost.darshan"
    answer = weir(*("plan", "similar", log, "--classes-table", "out/classes.json", "--output", "json"), folder=built)
    assert answer.returncode == 0, answer.stderr
    (found,) = json.loads(answer.stdout)
    names = [each.name for each in report_of(built).classes]
    assert found["known"] and found["classes"][0]["name"] in names
    refused = weir("plan", "similar", log, "--classes-table", "out/report.json", folder=built)
    assert refused.returncode == 1
    assert refused.stderr.startswith("error: out/report.json is no table of classes")
    assert "hint: `weir classes build` writes such a file" in refused.stderr


@pytest.mark.slow
def test_a_log_unlike_all_others_opens_a_class(built: Path) -> None:
    table = read_table(built / "out" / "classes.json")
    few = msgspec.structs.replace(table, classes=table.classes[:1])
    (built / "few.json").write_bytes(msgspec.json.encode(few))
    log = LOGS / "noposix.darshan"
    words = ("classes", "add", "few.json", log, log, "--to", "more.json", "--output", "json")
    answer = weir(*words, folder=built)
    assert answer.returncode == 0, answer.stderr
    first, second = json.loads(answer.stdout)
    assert first["is_new"] and not second["is_new"], "the second run is at home in the class of the first"
    assert first["class"] == second["class"] == "medium-write-moderate-sequential-stdio"
    more = read_table(built / "more.json")
    assert more.jobs is not None and few.jobs is not None
    assert (len(more.classes), more.jobs) == (2, few.jobs + 2)
    assert more.classes[1].jobs_fraction == pytest.approx(2 / more.jobs)


def steps(archive: Path) -> Mapping[str, int]:
    """Finished steps by their keys, read beside the build that has the file locked; none while it changes."""
    try:
        file = sqlite3.connect(f"file:{archive}?mode=ro&immutable=1", uri=True)
        try:
            return dict(file.execute("SELECT key, rowid FROM steps"))
        finally:
            file.close()
    except sqlite3.DatabaseError:
        return {}


def is_there(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.slow
def test_a_killed_build_goes_on(tmp_path: Path) -> None:
    """The classes are those of a build that nobody killed, on any number of processors, and no step is done twice."""
    words = ("classes", "build", SUMMARIES / "cori.csv.gz", *QUICK, "--to")
    whole = weir(*words, "whole", "--threads", "1", folder=tmp_path)
    assert whole.returncode == 0, whole.stderr
    archive = tmp_path / "killed" / "archive.db"
    killed = subprocess.Popen(
        [*WEIR, *map(str, words), "killed", "--threads", "2"],
        cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip
    try:
        wait_until("some steps are done", lambda: killed.poll() is not None or len(steps(archive)) >= 3)
        assert killed.poll() is None, "the build ended before it was killed"
        killed.send_signal(signal.SIGKILL)
        killed.wait(PATIENCE_SECONDS)
        wait_until("the build's own processes have ended", lambda: not is_there(killed.pid))
    finally:
        killed.kill()
    assert not (tmp_path / "killed" / "classes.json").exists()
    done = steps(archive)
    assert len(done) >= 3
    resumed = weir(*words, "killed", "--threads", "1", folder=tmp_path)
    assert resumed.returncode == 0, resumed.stderr
    assert done.items() <= steps(archive).items()
    for name in ("classes.json", "report.json"):
        assert (tmp_path / "killed" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    assert resumed.stdout == whole.stdout


@pytest.mark.slow
@pytest.mark.skipif(not missing(), reason="the cluster that Slurm starts shows it")
def test_a_cluster_gives_the_same_classes(built: Path) -> None:
    with ExitStack() as ends:
        address = ends.enter_context(dask_scheduler(built))
        ends.enter_context(dask_worker(built, address, 0))
        words = ("classes", "build", SUMMARIES, "logs", "--to", "cluster", *QUICK, "--dask", address)
        answer = weir(*words, folder=built)
    assert answer.returncode == 0, answer.stderr
    assert (built / "cluster" / "classes.json").read_bytes() == (built / "out" / "classes.json").read_bytes()


@pytest.mark.slow
@pytest.mark.skipif(bool(missing()), reason=missing() or "Slurm is there")
def test_workers_that_slurm_starts_give_the_same_classes(built: Path) -> None:
    with slurm(built / "slurm") as environment:
        cluster = ("--dask", "slurm", "--slurm-memory", "1GiB", "--slurm-interface", "lo")
        words = ("classes", "build", SUMMARIES, "logs", "--to", "slurmed", *QUICK, *cluster)
        answer = weir(*words, folder=built, environment=environment)
    assert answer.returncode == 0, answer.stderr
    assert (built / "slurmed" / "classes.json").read_bytes() == (built / "out" / "classes.json").read_bytes()


def test_too_few_logs_are_one_error(tmp_path: Path) -> None:
    shutil.copy(LOGS / "noposix.darshan", tmp_path)
    answer = weir("classes", "build", ".", "--to", "out", folder=tmp_path)
    assert answer.returncode == 1
    assert answer.stderr.startswith("error: 1 usable runs are too few to make classes from: at least 20 are needed")
    assert "hint: give more logs" in answer.stderr
    assert not (tmp_path / "out" / "classes.json").exists()
    none = weir("classes", "build", ".", "nowhere", "--to", "made", folder=tmp_path)
    assert none.returncode == 1
    assert not (tmp_path / "made").exists()
    assert none.stderr.startswith("error: nowhere: No such file or directory\nhint: give logs")


def test_two_builds_share_no_folder(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    with sqlite3.connect(tmp_path / "out" / "archive.db") as file:
        file.execute("CREATE TABLE other (a)")
        file.execute("BEGIN EXCLUSIVE")
        answer = weir("classes", "build", SUMMARIES, "--to", "out", folder=tmp_path)
    assert answer.returncode == 1
    assert "hint: does another build use the folder?" in answer.stderr
    (tmp_path / "out" / "archive.db").write_bytes(b"no archive" * 1000)
    damaged = weir("classes", "build", SUMMARIES, "--to", "out", folder=tmp_path)
    assert damaged.returncode == 1
    assert "is no archive of a build" in damaged.stderr and "Traceback" not in damaged.stderr


def test_plans_import_nothing_of_the_learning(tmp_path: Path) -> None:
    program = (
        "import sys\nfrom weir import cli\nsys.argv = ['weir', 'plan', 'similar', sys.argv[1]]\ncode = cli._run()\n"
        "import weir.cli.classes\n"
        "heavy = {'sklearn', 'xgboost', 'optuna', 'joblib', 'distributed', 'scipy', 'pandas', 'numpy'}\n"
        "print(code, sorted(heavy & sys.modules.keys()), file=sys.stderr)\n"
        "import weir.provisioning.learning.building\n"
        "print(sorted(heavy & sys.modules.keys()), file=sys.stderr)\n"
    )
    answer = subprocess.run(
        [sys.executable, "-c", program, str(LOGS / "noposix.darshan")],
        capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=True, cwd=tmp_path,
    )  # fmt: skip
    assert answer.stderr == "0 []\n['numpy']\n"


def test_the_report_as_a_table_names_the_best(built: Path) -> None:
    text = (built / "stdout").read_text()
    report = report_of(built)
    assert f"best on held-out months and applications: {report.best_model}" in text
    assert text.splitlines()[0].split()[:5] == ["TIME", "HELD", "OUT", "MODEL", "RUNS"]
    lines: list[Any] = [line for line in text.splitlines() if " *" in line]
    assert len(lines) == len(report.best)
