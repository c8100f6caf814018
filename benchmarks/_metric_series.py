"""Series of `/metrics` that tiny runs leave behind."""

import subprocess
import sys
import urllib.request
from pathlib import Path

import weir
from _harness import WAIT_SECONDS, announce

RUNS = 25


def measure(directory: Path) -> dict[str, float]:
    """Run a tiny program many times, each as a job of its own name.

    Returns:
        `series_per_run`: series that the server shows after the runs and did not before, over their number.
    """
    home = directory / "home"
    with weir.store.up(home=home, mount=False) as store:
        address = f"http://{store.servers[0].control}/metrics"
        weir_program = str(Path(sys.executable).with_name("weir"))
        command = [
            weir_program,
            "--home",
            str(home),
            "run",
            "--prefix",
            "/weir",
            "--",
            "sh",
            "-c",
            "echo words > /weir/file",
        ]
        subprocess.run(command, check=True, timeout=WAIT_SECONDS)
        before = _series(address)
        for _ in range(RUNS):
            subprocess.run(command, check=True, timeout=WAIT_SECONDS)
        after = _series(address)
        store.down(discard=True)
    added = (after - before) / RUNS
    announce("series_per_run", f"{added:.2f}", "before: 21 for each run", added / 21)
    return {"series_per_run": added}


def _series(address: str) -> int:
    with urllib.request.urlopen(address, timeout=WAIT_SECONDS) as answer:
        return sum(not line.startswith(b"#") for line in answer.read().splitlines())
