"""Clients that misuse a server: the benchmark `misuse` of `crates/server`, which speaks the protocol itself."""

import json
import subprocess

from _harness import ROOT

SECONDS_MAX = 1200
"""Longest time of a run, with the compilation."""


def figures(which: str) -> dict[str, float]:
    """The figures of one kind of misuse."""
    command = ["cargo", "bench", "--quiet", "--package", "weir-server", "--bench", "misuse", "--", which]
    output = subprocess.run(command, check=True, cwd=ROOT, stdout=subprocess.PIPE, text=True, timeout=SECONDS_MAX)
    *told, last = output.stdout.strip().splitlines()
    print("\n".join(told), flush=True)
    measured: dict[str, float] = json.loads(last)
    return measured
