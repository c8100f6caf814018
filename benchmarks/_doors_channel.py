"""Calls over loopback TCP with the sealed channel, beside the same calls without it, in turns of one run."""

import json
import subprocess
from pathlib import Path

from _harness import ROOT, WAIT_SECONDS, announce

SECONDS = "20"
COMMAND = ("cargo", "run", "--quiet", "--release", "--locked", "--package", "weir-channel", "--example", "pump", "--")


def measure(_directory: Path) -> dict[str, float]:
    """Measure 1 MiB writes and 4 KiB reads.

    Returns:
        Calls a second of each kind, and `sealed_write_ratio` and `sealed_read_4k_ratio`: sealed over plain, the median
        of the turns. No server works behind the socket, so a store's own ratios are nearer to 1.
    """
    answer = subprocess.run(
        [*COMMAND, SECONDS], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True, timeout=WAIT_SECONDS
    )
    figures: dict[str, float] = json.loads(answer.stdout)
    for call, unit in (("write", "MiB/s"), ("read_4k", "calls a second")):
        sealed, plain = (figures[f"{way}_{call}_per_second"] for way in ("sealed", "plain"))
        announce(f"sealed {call}", f"{sealed:.0f} {unit}", f"plain TCP {plain:.0f}", figures[f"sealed_{call}_ratio"])
    return figures
