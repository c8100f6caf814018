"""The guide, as a reader follows it: every block of code and every command, in an empty folder."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from waits import PATIENCE_SECONDS

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "guides" / "adaptive.md"
BLOCK = re.compile(r"^```(python|console)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.mark.slow
def test_the_guide_can_be_followed(tmp_path: Path) -> None:
    blocks = BLOCK.findall(GUIDE.read_text())
    program = "\n".join(body for kind, body in blocks if kind == "python")
    answer = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False,
    )  # fmt: skip
    assert answer.returncode == 0, answer.stderr
    assert "(32, 64, 1)" in answer.stdout
    assert answer.stdout.count("\n") == 10 + 4

    lines = "".join(body for kind, body in blocks if kind == "console").splitlines()
    commands = [line.removeprefix("$ ").partition(" #")[0].split() for line in lines]
    ours = [command[1:] for command in commands if command[0] == "weir"]
    assert len(ours) == 5
    for command in ours:
        answer = subprocess.run(
            [sys.executable, "-m", "weir.cli", *command],
            cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False,
        )  # fmt: skip
        assert answer.returncode == 0, f"{command}: {answer.stderr}"
        assert answer.stdout
