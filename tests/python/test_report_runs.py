"""Reports of real runs: planted faults are found, and a run without a fault has none of them."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import weir.store
from hogged import configuration, hog_at_work
from planted import CLEAN, RULES, RUNS, Run, reported
from recorded import answer, document, known_windows, now_milliseconds, recording
from store import Store
from waits import wait_until
from weir.history.reading import History
from weir.store.answers import WaitedFor
from weir.store.observations import JobKey
from weir.store.predictions import JobPrediction, PredictedHorizon, Predictions


@pytest.mark.slow
@pytest.mark.parametrize("case", RUNS, ids=lambda case: case.name)
def test_a_planted_fault_is_found(case: Run) -> None:
    report = reported(case)
    found = {finding["rule"]: finding for finding in report["findings"]}
    assert RULES[case.fault] in found, report["findings"]
    assert report["job"] == "planted"
    if case.is_flooded:
        assert found["neighbour"]["where"][0].startswith("flood of bob")
        assert found["neighbour"]["command"] == "weir policy set size-fair"
    if case.slow:
        assert found["slow-target"]["where"] == ["0.0"]


@pytest.mark.slow
def test_a_run_without_a_fault_has_none_of_the_planted_ones() -> None:
    report = reported(CLEAN)
    assert not {finding["rule"] for finding in report["findings"]} & set(RULES.values()), report["findings"]
    phases = {phase["kind"] for phase in report["phases"]}
    assert {"read", "write"} <= phases
    assert all(phase["achieved"] <= phase["possible"] * 1.25 for phase in report["phases"] if phase["possible"])


@pytest.fixture
def up(store: Store) -> Store:
    store.up(mount=False)
    return store


def test_a_report_of_a_run_leaves_its_exit_code_and_nothing_behind(up: Store, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    script = "echo words > /weir/file; exit 7"
    told = up.weir(
        "run", "--prefix", "/weir", "--report", page, "--", "sh", "-c", script, code=7,
        environment={"TMPDIR": str(tmp_path)},
    )  # fmt: skip
    assert f"the report is {page}" in told.stderr
    assert "/weir/file" in page.read_text()
    assert [each.name for each in tmp_path.iterdir() if each.name.startswith("weir-")] == []


def test_a_report_needs_a_name_that_says_its_form(up: Store, tmp_path: Path) -> None:
    told = up.weir("run", "--prefix", "/weir", "--report", tmp_path / "report.pdf", "--", "true", code=2)
    assert ".html" in told.stderr


def test_a_report_that_cannot_be_written_is_a_warning(up: Store, tmp_path: Path) -> None:
    target = tmp_path / "none" / "report.json"
    told = up.weir("run", "--prefix", "/weir", "--report", target, "--", "sh", "-c", "echo x > /weir/x", code=0)
    assert "no report is written" in told.stderr


def test_a_user_with_a_grant_gets_a_report_of_the_own_run(up: Store) -> None:
    """Without the site's key a server tells a user the windows of the own jobs alone."""
    credential = up.grant(54321, "--job", "granted")
    folder = up.root / "reports"
    folder.mkdir()
    folder.chmod(0o777)
    page = folder / "report.json"
    script = "for turn in 1 2 3; do dd if=/dev/zero of=/weir/file-$turn bs=1M count=8 2>&1; done"
    up.weir(
        "run", "--prefix", "/weir", "--report", page, "--", "sh", "-c", script, uid=54321, environment=credential,
        code=0,
    )  # fmt: skip
    report = json.loads(page.read_text())
    assert report["job"] == "granted" and report["accesses"]["writes"]["bytes"] >= 24 << 20


def test_what_was_predicted_of_a_past_job_is_on_its_page(tmp_path: Path) -> None:
    """The page has what the store was told while the job ran, by the same call as `weir interference serve`."""
    program = (
        "import os, time\nfile = os.open('/weir/told', os.O_RDWR | os.O_CREAT)\n"
        "while True: os.pwrite(file, b'x' * 4096, 0), time.sleep(0.05)\n"
    )
    horizons = (PredictedHorizon(0, "2 to 5", 0.8, (0.1, 0.8, 0.1)),)
    responsible = (WaitedFor("flood", "bob", 7, 0.5),)
    told = JobPrediction("told", "ada", os.getuid(), "trees", horizons, (), 0.1, 0.5, 5.0, responsible)

    def is_kept() -> bool:
        store.servers[0].tell_interference(Predictions(now_milliseconds() // 1000, 1.0, (), (told,)))
        history = History(store.home / "history")
        try:
            worked = history.last_stretch(JobKey("told", os.getuid()), 600_000)
            return worked is not None and bool(history.predictions(*worked, JobKey("told", os.getuid())))
        finally:
            history.close()

    with weir.store.up(home=tmp_path / "home", mount=False) as store:
        try:
            with recording(store), store.job(job="told", user="ada") as environment:
                writer = subprocess.Popen([sys.executable, "-c", program], env=environment)
                try:
                    wait_until("the predictions are kept", is_kept)
                finally:
                    writer.kill()
                    writer.wait()
                ended = now_milliseconds()
                wait_until("the last windows are kept", lambda: known_windows(store, ended) >= 3)
            page = tmp_path / "told.html"
            report = json.loads(answer(store, "report", "told", "--output", "json", "--html", str(page)).stdout)
            predicted = report["predicted"]
            assert predicted["slowed"] == predicted["windows"] > 0
            assert (predicted["worst"], predicted["basis"]) == (2.0, "trees")
            assert "predicted" in {finding["rule"] for finding in report["findings"]}
            assert "mostly for flood of bob" in page.read_text()
        finally:
            store.down(discard=True)


def test_a_job_of_the_past_is_reported_with_its_waits(tmp_path: Path) -> None:
    file = tmp_path / "cluster.toml"
    file.write_text(configuration("fifo"))
    program = (
        "import os\nfile = os.open('/weir/past', os.O_RDWR | os.O_CREAT)\n"
        "for turn in range(24): os.pwrite(file, b'x' * (1 << 20), (turn % 8) << 20)\n"
    )
    with weir.store.up(file, home=tmp_path / "home", mount=False) as store:
        try:
            with recording(store):
                begun = now_milliseconds()
                with hog_at_work(store):
                    wait_until("the hog has worked", lambda: known_windows(store, begun) >= 3)
                    with store.job(job="past", user="ada") as environment:
                        subprocess.run([sys.executable, "-c", program], env=environment, check=True, timeout=120)
                ended = now_milliseconds()
                wait_until("its windows are kept", lambda: known_windows(store, ended) >= 4)
            report = document(store, "report", "past")
            assert {finding["rule"] for finding in report["findings"]} >= {"neighbour"}
            assert {wait["job"] for wait in report["waits"]} == {"hog"}
            assert report["promise"]["policy"] == "fifo" and report["promise"]["waited_seconds"] > 0
            assert report["accesses"]["writes"]["bytes"] == 24 << 20
            words = answer(store, "report", "past", "--html", str(tmp_path / "past.html")).stdout
            assert "weir policy set size-fair" in words
            assert "hog" in (tmp_path / "past.html").read_text()
            assert "no job 'nobody'" in answer(store, "report", "nobody", code=1).stderr
        finally:
            store.down(discard=True)
