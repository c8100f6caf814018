"""`weir simulate`: what jobs are owed, and jobs whose server died or that have more nodes than there are."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import simulated
from waits import PATIENCE_SECONDS
from weir.simulation.figures import RunFigures
from weir.simulation.records import Record, read, write
from weir.simulation.report.page import sections
from weir.simulation.runs import record
from weir.simulation.scenario import parse_scenario
from weir.simulation.sweeps.results import read_results

DIES = 'at = "10ms"\nkind = "dies"\nserver = 1'
STANDS_STILL = 'at = "10ms"\nkind = "speed"\nvalue = 0\nserver = 1\ntarget = 0'
NEIGHBOURS = """
topology = "2x1"
[layout]
stripe_count = 1
[[jobs]]
generator = "ior"
name = "slow"
processes = 1
transfer = "64KiB"
block = "128MiB"
[[jobs]]
generator = "ior"
name = "fast"
processes = 1
transfer = "16MiB"
depth = 8
block = "512MiB"
"""
"""Two jobs, each on a target of its own, of which the first waits for each of its small requests."""
AWAY = """
topology = "2x2"
[[jobs]]
generator = "ior"
block = "64MiB"
[[jobs]]
generator = "ior"
block = "64MiB"
arrival = "1s"
[[faults]]
at = "10ms"
kind = "dies"
server = 1
[[faults]]
at = "5s"
kind = "returns"
server = 1
"""
"""Two jobs that both wait for a server."""


def weir(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "weir.cli", "simulate", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False)


def run(text: str, **changes: str) -> Record:
    settings = "".join(f'{key} = "{value}"\n' for key, value in changes.items())
    return record("run", parse_scenario(settings + text, origin="scenario.toml", folder=Path()))


def figures(text: str, **changes: str) -> RunFigures:
    return run(text, **changes).figures


@pytest.mark.parametrize("topology", ["2x1", "2x2", "2x3", "3x1", "3x2", "4x2", "8x8"])
@pytest.mark.parametrize("fault", [DIES, STANDS_STILL])
def test_jobs_whose_server_died_do_not_end(topology: str, fault: str) -> None:
    """By flows they were complete after 584 years on some topologies, and slowed 34 thousand million times."""
    job = '[[jobs]]\ngenerator = "ior"\nprocesses = 12\nblock = "256MiB"'
    outcome = run(f'topology = "{topology}"\n{job}\n[[faults]]\n{fault}').outcome
    assert not outcome.is_complete and not outcome.jobs[0].is_complete
    assert outcome.seconds < 100 and outcome.jobs[0].written_bytes < 12 * 256 << 20


def test_a_run_whose_jobs_did_not_end_says_so(tmp_path: Path) -> None:
    path = tmp_path / "dies.toml"
    path.write_text(f'topology = "2x2"\n[[jobs]]\ngenerator = "ior"\nblock = "256MiB"\n[[faults]]\n{DIES}')
    ran = weir("run", path)
    assert ran.returncode == 1 and "1 of 1 jobs did not end" in ran.stderr


@pytest.mark.parametrize("mode", ["flow", "request"])
def test_nobody_is_wronged_where_jobs_never_meet(mode: str) -> None:
    made = run(NEIGHBOURS, mode=mode)
    assert made.figures.share_error == pytest.approx(0.0, abs=0.005)
    assert made.jobs[0].share_owed == pytest.approx(made.jobs[0].share_received, abs=0.005)


@pytest.mark.parametrize("mode", ["flow", "request"])
def test_the_time_of_a_server_that_is_away_is_owed_to_nobody(mode: str) -> None:
    error = figures(AWAY, mode=mode).share_error
    assert error is not None and error < 0.05


@pytest.mark.parametrize("mode", ["flow", "request"])
def test_fifo_owes_nothing(mode: str, tmp_path: Path) -> None:
    made = run(simulated.TWO_WRITERS.replace("size-fair", "fifo") + simulated.MACHINES, mode=mode)
    assert made.figures.share_error is None
    assert [(job.share_owed, job.outcome.owed_seconds) for job in made.jobs] == [(None, 0.0)] * 2
    write(made, tmp_path)
    again = read(tmp_path)
    assert [job.share_owed for job in again.jobs] == [None, None]
    (shares,) = [section for section in sections([again]) if section.name == "shares"]
    assert {row[3] for row in shares.rows} == {"-"}


def test_tables_have_a_dash_where_fifo_owes_nothing(tmp_path: Path) -> None:
    path = simulated.written(tmp_path, simulated.TWO_WRITERS.replace("size-fair", "fifo"))
    ran = weir("run", path)
    assert ran.returncode == 0 and "went to others" not in ran.stderr
    head, *rows = ran.stdout.splitlines()
    assert head.split()[-2:] == ["OWED", "RECEIVED"]
    assert [row.split()[-2] for row in rows] == ["-", "-"]


def test_a_sweep_does_not_name_fifo_best_by_what_it_lacks(tmp_path: Path) -> None:
    path = simulated.written(tmp_path, simulated.TWO_WRITERS, "base.toml")
    (tmp_path / "sweep.toml").write_text(f'base = "{path.name}"\n[sweep]\npolicy = ["fifo", "size-fair"]\n')
    ran = weir("sweep", tmp_path / "sweep.toml", "--out", tmp_path / "out", "--objective", "share_error", "--no-alone")
    assert ran.returncode == 0, ran.stderr
    assert "best by share_error: policy=size-fair\n" in ran.stderr
    found = read_results(tmp_path / "out").best("share_error")
    assert found is not None and found.cell.settings["policy"] == "size-fair" and not found.as_good
    only = tmp_path / "fifo.toml"
    only.write_text(f'base = "{path.name}"\n[sweep]\npolicy = ["fifo"]\n')
    ran = weir("sweep", only, "--out", tmp_path / "only", "--no-alone", "--output", "json")
    assert json.loads(ran.stdout)["best"]["share_error"] is None


def test_a_job_with_more_nodes_than_there_are_is_remarked_on(tmp_path: Path) -> None:
    path = simulated.written(tmp_path, simulated.TWO_WRITERS.replace("nodes = 3", "nodes = 100"))
    ran = weir("run", path)
    assert ran.returncode == 0
    assert "job large (100 nodes) has more nodes than the 8 client nodes of pair" in ran.stderr
    assert "client nodes" not in weir("run", simulated.written(tmp_path)).stderr


def test_the_file_of_a_sweep_is_no_scenario(tmp_path: Path) -> None:
    for text in ('base = "scenario.toml"\n', simulated.scenario_text() + "[sweep]\nseeds = 3\n"):
        path = tmp_path / "sweep.toml"
        path.write_text(text)
        ran = weir("run", path)
        assert ran.returncode == 2 and "Traceback" not in ran.stderr
        assert "no scenario" in ran.stderr and "weir simulate sweep" in ran.stderr
