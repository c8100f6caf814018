"""Stores whose target's disk is not mounted, or whose journal's folder is gone, and whether their start is refused."""

import json
import subprocess
import sys
from pathlib import Path

from _harness import ROOT, WAIT_SECONDS


def measure(_directory: Path) -> dict[str, float]:
    """Lose each folder of a store of its own.

    Returns:
        `unmounted_disk_refused` and `lost_journal_refused`, 1 where check and start both refuse the store.
    """
    # A program of its own, because modules of tests and of benchmarks have names in common.
    command = [sys.executable, str(ROOT / "tests/lost_folders.py")]
    answer = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, timeout=WAIT_SECONDS)
    refused: dict[str, bool] = json.loads(answer.stdout)
    return {f"{loss}_refused": float(is_refused) for loss, is_refused in refused.items()}
