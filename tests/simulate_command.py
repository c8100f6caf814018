"""The command `weir simulate` in a folder, and bounded waits for what it writes."""

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from waits import PATIENCE_SECONDS


def simulate(folder: Path, *words: str, environment: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "weir.cli", "simulate", *words]
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False
    )


def until(is_so: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not is_so():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)
