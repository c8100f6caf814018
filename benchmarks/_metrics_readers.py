"""A client's ping beside four readers of the control API, where the server knows 1,500 jobs."""

import json
import subprocess

from _harness import ROOT, WAIT_SECONDS, announce


def measure() -> dict[str, float]:
    """The 99th percentile of a ping in milliseconds, beside that of a ping without readers in the same run."""
    command = ["cargo", "bench", "--quiet", "-p", "weir-server", "--bench", "readers"]
    answer = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True, timeout=WAIT_SECONDS)
    figures: dict[str, float] = json.loads(answer.stdout.splitlines()[-1])
    beside, alone = figures["metrics_readers_ping_p99_ms"], figures["ping_p99_ms"]
    announce("ping beside readers", f"{beside:.2f} ms", f"{alone:.2f} ms alone", beside / alone)
    return {"metrics_readers_ping_p99_ms": beside, "metrics_readers_ping_p99_vs_alone": beside / alone}
