"""Tests that a benchmark runs for what they show."""

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from _harness import ROOT, TEST_SECONDS, WEIR

_LINE = re.compile(r"^(PASSED|FAILED|ERROR) (\S+?(?:\[.*?\])?)(?: - .*)?$", re.MULTILINE)


def outcomes(names: Sequence[str], log: Path) -> dict[str, bool]:
    """Run tests.

    Args:
        names: Files of tests, or single ones.
        log: Gets the output of pytest.

    Returns:
        Whether each test passed, by its name with its parameters; a skipped one is not there.
    """
    command = [sys.executable, "-m", "pytest", "-q", "-rA", "--no-header", *names]
    environment = {**os.environ, "PATH": f"{WEIR.parent}:{ROOT}/target/tools/bin:{os.environ['PATH']}"}
    log.parent.mkdir(exist_ok=True)
    with log.open("w") as output:
        subprocess.run(command, cwd=ROOT, env=environment, stdout=output, timeout=TEST_SECONDS, check=False)
    passed: dict[str, bool] = {}
    for word, name in _LINE.findall(log.read_text(errors="replace")):
        passed[name] = passed.get(name, True) and word == "PASSED"
        if word != "PASSED":
            print(f"{name}: {word.lower()}", file=sys.stderr)
    return passed
