"""The guide to sweeps and tuning, as a reader follows it: its files, and every command of its console blocks."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from waits import PATIENCE_SECONDS

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "guides" / "sweeps.md"
BLOCK = re.compile(r"`([a-z]+\.toml)`[^`]*(?:`[a-z]+`[^`]*)*?\n\n?```toml\n(.*?)^```$", re.MULTILINE | re.DOTALL)
CONSOLE = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.mark.slow
def test_the_guide_can_be_followed(tmp_path: Path) -> None:
    text = GUIDE.read_text()
    files = dict(BLOCK.findall(text))
    assert files.keys() == {"scenario.toml", "sweep.toml"}
    for name, body in files.items():
        (tmp_path / name).write_text(body)
    lines = "".join(CONSOLE.findall(text)).splitlines()
    commands = [line.removeprefix("$ weir ").split() for line in lines]
    assert [command[1] for command in commands] == ["sweep", "sweep", "report", "tune"]
    answers = [
        subprocess.run(
            [sys.executable, "-W", "error", "-m", "weir.cli", *command],
            cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False,
        )
        for command in commands
    ]  # fmt: skip
    first, second, report, tuned = answers
    assert first.returncode == 0, first.stderr
    assert second.returncode == 0, second.stderr
    assert len(first.stdout.splitlines()) == 1 + 8
    assert first.stderr.count("best by ") == 4
    assert "SECONDS" in second.stdout and "TARGET COST" in second.stdout
    assert len((tmp_path / "results/points.ndjson").read_text().splitlines()) == 24
    assert len(json.loads((tmp_path / "results/results.json").read_text())["cells"]) == 8
    assert report.returncode == 0, report.stderr
    assert (tmp_path / "results.html").read_text().startswith("<!DOCTYPE html>")
    # A negative answer is an answer, too.
    assert tuned.returncode in (0, 1), tuned.stderr
    assert "held out: " in tuned.stderr
    assert json.loads((tmp_path / "tuned/tuning.json").read_text())["held_out"]["workloads"]
