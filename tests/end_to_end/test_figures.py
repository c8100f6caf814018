"""Experiments really run jobs on a real store, account for every byte of them, and leave nothing."""

import csv
import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
from store import program
from waits import PATIENCE_SECONDS, wait_until
from weir.experiments.jobs import Job, run_jobs
from weir.experiments.store import Store

SPEED = "16MB/s"
RATE = 16e6
WINDOWS = 8
"""Windows of a second in a panel of the figure."""


def environment(folder: Path) -> dict[str, str]:
    """This one, with a folder of its own for whatever is temporary."""
    return {**os.environ, "TMPDIR": str(folder), "NO_COLOR": "1"}


def bench(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    folder.mkdir(exist_ok=True)
    return subprocess.run(
        [*program(), "bench", *words],
        env=environment(folder),
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )


def living(folder: Path) -> list[str]:
    """Processes that were told of a folder, in their arguments or their environment."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal() and int(entry.name) != os.getpid():
            try:
                told = (entry / "cmdline").read_bytes() + (entry / "environ").read_bytes()
            except OSError:
                continue
            if os.fsencode(folder) in told:
                found.append(entry.name)
    return found


def test_processes_servers_and_devices_account_for_the_same() -> None:
    """Bytes counted by the processes are the servers'; and an emulated device works for each byte as long as it says."""
    places = (("0.0", "1.0"), ("0.0",), ("1.0",))
    jobs = [
        Job(f"job-{number}", processes=3, seconds=1.5, start_seconds=0.25 * number, targets=targets)
        for number, targets in enumerate(places)
    ]
    with Store(policy="job-fair", servers=2, speed=SPEED) as store:
        assert store.device_rates() == [RATE, RATE]
        run = run_jobs(store, jobs, window_seconds=0.25, poll_seconds=PATIENCE_SECONDS)
    assert len(run.samples) == 9
    assert {poll.server for poll in run.polls} == {0, 1}
    for job in jobs:
        counted = sum(done.bytes_written + done.bytes_read for done in run.done[job.name])
        assert counted > 0
        of_job = [sample.jobs[job.name] for sample in run.final if job.name in sample.jobs]
        assert sum(account.bytes_total for account in of_job) == counted
        worked = {device: each for account in of_job for device, each in account.device_seconds.items() if each > 0.01}
        assert set(worked) == set(job.targets)
        assert sum(worked.values()) == pytest.approx(counted / RATE, rel=0.01)
        # Before its beginning a job does nothing.
        assert all(done.requests == 0 for done in run.done[job.name][: int(job.start_seconds / 0.25)])


@pytest.fixture(scope="module")
def figure_8(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], Path]:
    out = tmp_path_factory.mktemp("figure")
    # A request takes far longer than a process waits for a processor, so that jobs always have some that wait.
    options = ("--seconds", str(WINDOWS), "--speed", "1MB/s", "--out", str(out / "results"), "--output", "json")
    answer = bench(out / "tmp", "figure-8", *options)
    assert answer.returncode == 0, answer.stderr
    assert list((out / "tmp").iterdir()) == [], "the store's folder is left"
    assert living(out / "tmp") == []
    return json.loads(answer.stdout), out / "results"


def test_a_figure_is_numbers_and_a_plot(figure_8: tuple[dict[str, Any], Path]) -> None:
    document, out = figure_8
    assert {Path(path).name for path in document["files"]} == {"figure-8.json", "figure-8.csv", "figure-8.png"}
    assert (out / "figure-8.png").read_bytes().startswith(b"\x89PNG")
    whole = json.loads((out / "figure-8.json").read_text())
    assert [panel["policy"] for panel in whole["panels"]] == ["size-fair", "job-fair", "user-fair"]
    with (out / "figure-8.csv").open() as file:
        lines = list(csv.DictReader(file))
    assert len(lines) == sum(len(panel["windows"]) for panel in whole["panels"]) == WINDOWS * (2 + 2 + 3)


def test_in_each_window_all_is_given_to_somebody(figure_8: tuple[dict[str, Any], Path]) -> None:
    _, out = figure_8
    for panel in json.loads((out / "figure-8.json").read_text())["panels"]:
        for window in range(WINDOWS):
            rows = [row for row in panel["windows"] if row["window"] == window]
            for share in ("share_device", "share_bytes"):
                assert sum(row[share] for row in rows) == pytest.approx(1)
            present = [row["share_owed"] for row in rows if row["share_owed"] is not None]
            assert sum(present) == pytest.approx(1)


@pytest.mark.parametrize(
    ("panel", "job", "owed", "fifo"), [(0, "job-2", 0.2, None), (1, "job-2", 0.5, 0.2), (2, "job-3", 0.5, 0.2)]
)
def test_jobs_receive_about_what_they_are_owed(
    figure_8: tuple[dict[str, Any], Path], panel: int, job: str, owed: float, fifo: float | None
) -> None:
    """The bound is wide, for a busy machine, but not so wide that shares by processes, which is `fifo`, are in it."""
    document, _ = figure_8
    (summary,) = [each for each in document["panels"][panel]["summaries"] if each["job"] == job]
    assert summary["share_owed"] == pytest.approx(owed)
    for share in ("share_device", "share_bytes"):
        assert abs(summary[share] - owed) < 0.12
        assert fifo is None or abs(fifo - owed) > 0.12


def test_an_experiment_that_is_ended_takes_all_with_it(tmp_path: Path) -> None:
    folder = tmp_path / "tmp"
    folder.mkdir()
    with subprocess.Popen(
        [*program(), "bench", "figure-8", "--seconds", "600", "--out", str(tmp_path / "out")],
        env=environment(folder),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as experiment:
        wait_until("a job was started", lambda: bool(list(folder.glob("*/job-2.log"))) or experiment.poll() is not None)
        assert experiment.poll() is None
        experiment.send_signal(signal.SIGTERM)
        output, words = experiment.communicate(timeout=PATIENCE_SECONDS)
    assert (experiment.returncode, output) == (130, "")
    assert "error: interrupted" in words
    assert list(folder.iterdir()) == []
    # What was killed still has to be taken down by the kernel; left alone it works for ten minutes.
    wait_until("nothing of the experiment lives", lambda: not living(folder))
    assert not (tmp_path / "out").exists()


def test_windows_that_say_little_are_told_of(tmp_path: Path) -> None:
    answer = bench(tmp_path / "tmp", "figure-9", "--seconds", "1", "--speed", "2MB/s", "--out", str(tmp_path / "out"))
    assert answer.returncode == 0, answer.stderr
    assert "no window counts" in answer.stderr
    assert "one request is 3.3% of a window" in answer.stderr
    assert json.loads((tmp_path / "out" / "figure-9.json").read_text())["panels"][0]["summaries"] == []


def test_what_a_store_refuses_is_said_once_with_a_hint(tmp_path: Path) -> None:
    answer = bench(tmp_path / "tmp", "figure-9", "--speed", "fast", "--out", str(tmp_path / "out"))
    assert (answer.returncode, answer.stdout) == (2, "")
    (error,) = [line for line in answer.stderr.splitlines() if line.startswith("error: ")]
    assert "fast" in error
    assert "hint: " in answer.stderr
    assert not (tmp_path / "out").exists()
    assert list((tmp_path / "tmp").iterdir()) == []
