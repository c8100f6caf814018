"""The code of the guide, as a reader runs it, in an empty folder; `test_documentation.py` runs its commands."""

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
