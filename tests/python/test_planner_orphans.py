"""What the planner reads of Slurm's jobs; tests/end_to_end/test_slurm_storage.py has the whole with real daemons."""

import asyncio
from pathlib import Path

import pytest
from weir.planner.errors import PlannerError
from weir.planner.squeue import SlurmJob, jobs_of


def ask(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> dict[tuple[int, str], SlurmJob]:
    program = folder / "squeue"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    return asyncio.run(jobs_of({7, 9}))


def test_an_answer_that_comes_in_pieces_is_read_to_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = (
        "echo '1 7 CANCELLED '; sleep 0.2; seq -f '%g 9 RUNNING node[1-3]' 2 20000; sleep 0.2; echo '0 7 STAGE_OUT n'"
    )
    jobs = ask(tmp_path, monkeypatch, script)
    assert len(jobs) == 20_001
    assert jobs[7, "1"] == SlurmJob("CANCELLED", has_run=False) and jobs[7, "1"].is_over
    assert jobs[9, "20000"] == SlurmJob("RUNNING", has_run=True)
    assert not jobs[7, "0"].is_over


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("echo '1 7 RUNNING n'; exit 1", "exit code 1"),
        ("echo 'slurm is away'", "cannot be read"),
        ("echo '1 7'", "cannot be read"),
    ],
)
def test_an_answer_that_is_not_whole_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, words: str
) -> None:
    with pytest.raises(PlannerError, match=words):
        ask(tmp_path, monkeypatch, script)


def test_no_slurm_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(PlannerError, match="no squeue"):
        asyncio.run(jobs_of({7}))
