"""The time until `weir health` answers for a store of three hosts one of which is cut off."""

import subprocess
import sys
from pathlib import Path

from _harness import ROOT, TEST_SECONDS, announce

SECONDS_MAX = 2.0
"""Asked of the answer."""


def measure(_directory: Path) -> dict[str, float | None]:
    """Measure it on hosts in network namespaces; None where this machine can make none."""
    program = [sys.executable, str(ROOT / "tests/health_seconds.py")]
    told = subprocess.run(program, stdout=subprocess.PIPE, text=True, timeout=TEST_SECONDS, check=True).stdout
    if not told:
        return {"health_seconds_cut_off_host": None}
    whole, cut_off = (float(each) for each in told.split())
    ratio = cut_off / SECONDS_MAX
    announce(
        "health, host cut off", f"{cut_off:.2f} s", f"all hosts there: {whole:.2f} s, asked: {SECONDS_MAX} s", ratio
    )
    return {"health_seconds_cut_off_host": cut_off}
