"""`weir simulate run` and `weir simulate report`: records, tables, and a page that needs nothing from elsewhere."""

import json
import os
import pty
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import simulated
from pages import check_needs_nothing, elements
from pyarrow import parquet
from waits import PATIENCE_SECONDS
from weir.simulation.alone import Baseline
from weir.simulation.errors import SimulationError
from weir.simulation.records import INTERVALS_MAX, read, write
from weir.simulation.report.page import page, sections
from weir.simulation.runs import record

MANY = simulated.TWO_WRITERS.replace("[[jobs]]", "[[jobs]]\ncount = 40\nevery = '1s'").replace("400MiB", "64MiB")
SEGMENTS = 750_000
LONG = simulated.TWO_WRITERS.replace('"400MiB"', f'"1MiB"\nsegments = {SEGMENTS}\nmode = "shared"')
"""Three million writes, for those who interrupt them."""
INTERRUPTIONS = 8


def weir(*arguments: object, **options: Any) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "weir.cli", "simulate", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False, **options)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """A run by each of two policies, in folders."""
    folder = tmp_path_factory.mktemp("runs")
    baseline = Baseline()
    folders = []
    for policy in ("size-fair", "job-fair"):
        scenario = simulated.scenario(simulated.TWO_WRITERS.replace("size-fair", policy).replace("large", "a <b>$x$"))
        write(record(policy, scenario, baseline=baseline), folder / policy)
        folders.append(folder / policy)
    return folders


def test_a_record_is_read_as_it_was_written(runs: list[Path]) -> None:
    document = json.loads((runs[0] / "run.json").read_text())
    assert read(runs[0]).document() == document
    assert read(runs[0] / "run.json").document() == document
    assert document["kind"] == "weir-simulated-run"
    assert document["version"] == 1
    assert document["settings"]["policy"] == "size-fair"
    assert document["settings"]["targets"] == 4
    assert document["figures"]["jobs_complete"] == 2
    assert 0 < len(document["targets"][0]["busy_series"]) <= INTERVALS_MAX


def test_the_tables_have_what_the_document_has(runs: list[Path]) -> None:
    document = json.loads((runs[0] / "run.json").read_text())
    for name in ("jobs", "targets", "servers"):
        table = parquet.read_table(runs[0] / f"{name}.parquet")
        rows = [{k: v for k, v in row.items() if not k.endswith("_series")} for row in document[name]]
        assert table.to_pylist() == rows
        assert table.schema.metadata[b"weir_simulated_run"] == b"1"
    series = parquet.read_table(runs[0] / "series.parquet").to_pylist()
    first = [row["value"] for row in series if row["series"] == "targets.busy_series" and row["place"] == 0]
    assert first == pytest.approx(document["targets"][0]["busy_series"], abs=1e-6)
    begins = [row["begin_seconds"] for row in series if row["series"] == "jobs.device_series" and row["place"] == 1]
    assert begins == pytest.approx([place * document["sample_seconds"] for place in range(len(begins))])
    assert {row["series"] for row in series} == {
        "jobs.device_series",
        "targets.busy_series",
        "servers.link_series",
    }


def test_the_reference_names_every_column(runs: list[Path]) -> None:
    text = (Path(__file__).resolve().parents[2] / "docs/reference/simulated-runs.md").read_text()
    document = json.loads((runs[0] / "run.json").read_text())
    keys = {*document, *document["figures"], *document["settings"]}
    for name in ("jobs", "targets", "servers"):
        keys |= set(document[name][0])
    keys |= set(parquet.read_table(runs[0] / "series.parquet").column_names)
    assert not {key for key in keys if f"`{key}`" not in text}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda text: "", "no simulated run: it is not JSON"),
        (lambda text: "[1]", "is no simulated run"),
        (lambda text: text.replace('"version": 1', '"version": 2'), "of version 2"),
        (
            lambda text: text.replace('"written_bytes": ', '"written_bytes": "x', 1).replace("x", 'x"', 1),
            "damaged|JSON",
        ),
        (lambda text: text.replace('"busy_series": [', '"busy_series": [[1], ', 1), "damaged"),
        (lambda text: text.replace('"user": "ada"', '"user": 5'), "damaged"),
        (lambda text: text.replace('"share_owed"', '"share"'), "damaged"),
    ],
)
def test_what_is_no_run_is_one_clear_error(runs: list[Path], tmp_path: Path, change: Any, message: str) -> None:
    file = tmp_path / "run.json"
    file.write_text(change((runs[0] / "run.json").read_text()))
    with pytest.raises(SimulationError, match=message) as caught:
        read(file)
    assert str(file) in caught.value.message
    assert caught.value.hint


def test_the_page_needs_nothing_from_elsewhere(runs: list[Path]) -> None:
    check_needs_nothing(page([read(folder) for folder in runs]))


def test_the_page_has_a_figure_and_a_table_for_each_question(runs: list[Path]) -> None:
    records = [read(folder) for folder in runs]
    text = page(records)
    found = elements(text)
    names = [section.name for section in sections(records)]
    assert names == ["slowdown", "bandwidth", "shares", "time", "targets", "servers", "use"]
    assert found.names.count("svg") == len(names)
    assert found.names.count("table") == len(names) + 2
    shown = "".join(found.text)
    # The name of a job is text, in tables as in figures: no element, and no formula.
    assert "a <b>$x$" in shown
    assert "b" not in found.names
    slowdown = records[0].jobs[1].io_slowdown
    assert slowdown is not None
    assert f"{slowdown:.4g}" in shown
    assert "75.00%" in shown


def test_a_page_of_many_jobs_draws_distributions() -> None:
    made = record("many", simulated.scenario(MANY), baseline=Baseline())
    assert len(made.jobs) == 80
    found = elements(page([made]))
    shown = "".join(found.text)
    assert "% of the jobs are at or below" in shown
    assert "received what was owed" in shown


def test_runs_of_other_jobs_are_not_compared(runs: list[Path]) -> None:
    other = record("many", simulated.scenario(MANY))
    with pytest.raises(SimulationError, match=r"many \(80 jobs\) has other jobs than size-fair \(2 jobs\)"):
        page([read(runs[0]), other])


def test_the_command_runs_a_scenario_and_reports_it(tmp_path: Path) -> None:
    path = simulated.written(tmp_path)
    answer = weir("run", path, "--out", tmp_path / "out", "--output", "json")
    assert answer.returncode == 0, answer.stderr
    document = json.loads(answer.stdout)
    assert document["is_complete"]
    assert sorted(Path(file).name for file in document["files"]) == [
        "jobs.parquet",
        "run.json",
        "series.parquet",
        "servers.parquet",
        "targets.parquet",
    ]
    assert "weir simulate report" in answer.stderr
    assert "\r" not in answer.stderr, "a bar where there is no terminal"
    again = weir("run", path, "--out", tmp_path / "again", "--seed", 3)
    assert again.returncode == 0, again.stderr
    header, *rows = again.stdout.splitlines()
    assert header.split()[:3] == ["JOB", "USER", "NODES"]
    assert [row.split()[0] for row in rows] == ["small", "large"]
    assert (tmp_path / "out/run.json").read_bytes() == (tmp_path / "again/run.json").read_bytes()

    answer = weir("report", tmp_path / "out", tmp_path / "again", "--html", tmp_path / "page.html")
    assert answer.returncode == 0, answer.stderr
    assert [line.split()[0] for line in answer.stdout.splitlines()] == ["RUN", "out", "again"]
    elements((tmp_path / "page.html").read_text())
    answer = weir("report", tmp_path / "out", "--output", "json")
    (only,) = json.loads(answer.stdout)
    assert only["name"] == "scenario"
    assert only["figures"]["jobs_complete"] == 2


def test_jobs_alone_can_be_left_out(tmp_path: Path) -> None:
    answer = weir("run", simulated.written(tmp_path), "--no-alone", "--output", "json")
    assert answer.returncode == 0, answer.stderr
    assert [job["slowdown"] for job in json.loads(answer.stdout)["jobs"]] == [None, None]


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["run", "nowhere.toml"], 2, "nowhere.toml"),
        (["run", "broken.toml"], 2, "broken.toml"),
        (["run"], 2, "SCENARIO"),
        (["report", "nowhere"], 1, "nowhere"),
        (["report", "broken.toml"], 1, "broken.toml is no simulated run"),
        (["report"], 2, "RUN"),
    ],
)
def test_wrong_input_is_one_error_with_a_hint(tmp_path: Path, arguments: list[str], code: int, message: str) -> None:
    (tmp_path / "broken.toml").write_text(simulated.scenario_text('polcy = "size-fair"\n' + simulated.TWO_WRITERS))
    answer = weir(*arguments, cwd=tmp_path)
    assert answer.returncode == code, answer.stderr
    error, hint = answer.stderr.splitlines()
    assert error.startswith("error: ") and message in error
    assert hint.startswith("hint: ")


def test_a_job_that_cannot_end_is_a_negative_answer(tmp_path: Path) -> None:
    text = simulated.TWO_WRITERS + '[[faults]]\nat = "1s"\nkind = "dies"\nserver = 1\n'
    answer = weir("run", simulated.written(tmp_path, text))
    assert answer.returncode == 1
    assert "2 of 2 jobs did not end" in answer.stderr


def read_until(descriptor: int, pattern: str, seconds_max: float = PATIENCE_SECONDS) -> str:
    text = ""
    end = time.monotonic() + seconds_max
    while not re.search(pattern, text):
        assert time.monotonic() < end, text
        try:
            text += os.read(descriptor, 1 << 16).decode(errors="replace")
        except OSError:
            break
    return text


def interrupted(folder: Path, path: Path) -> tuple[int, str, str]:
    """Interrupt a simulation on a terminal; its exit code, the words on the terminal, and its output."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "weir.cli", "simulate", "run", str(path), "--out", "out", "--output", "json"]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=theirs, text=True) as program:
        os.close(theirs)
        # A part between none and all: the run has begun and tells its progress.
        read_until(ours, "[1-9]0?%")
        program.send_signal(signal.SIGINT)
        words = read_until(ours, "what was done until then is kept")
        stdout, _ = program.communicate(timeout=PATIENCE_SECONDS)
    os.close(ours)
    return program.returncode, words, stdout


@pytest.mark.slow
def test_a_terminal_has_a_bar_and_an_interruption_keeps_what_was_done(tmp_path: Path) -> None:
    path = simulated.written(tmp_path, LONG)
    for number in range(INTERRUPTIONS):
        folder = tmp_path / str(number)
        folder.mkdir()
        code, words, stdout = interrupted(folder, path)
        # A test that is held up interrupts what comes after the run.
        if "interrupted at" in words:
            break
    assert code == 130
    assert "interrupted at" in words
    document = json.loads(stdout)
    assert document["is_interrupted"] and not document["is_complete"]
    # A late interruption finds the larger job done; the smaller one ends last.
    bytes_of_job = {"large": 3 * SEGMENTS << 20, "small": SEGMENTS << 20}
    done = [job["written_bytes"] == bytes_of_job[job["name"]] for job in document["jobs"]]
    assert document["figures"]["jobs_complete"] == sum(done) < len(bytes_of_job)
    assert any(job["written_bytes"] > 0 for job in document["jobs"])
    assert all(job["written_bytes"] <= bytes_of_job[job["name"]] for job in document["jobs"])
    assert read(folder / "out").outcome.is_interrupted
    assert "Ended early by the user" in page([read(folder / "out")])
