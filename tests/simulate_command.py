"""The command `weir simulate` in a folder."""

import subprocess
import sys
from pathlib import Path

from waits import PATIENCE_SECONDS


def simulate(folder: Path, *words: str, environment: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "weir.cli", "simulate", *words]
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False
    )
