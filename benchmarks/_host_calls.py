"""Calls on files of the host: the number made with the preload library, and the number that answer otherwise with
it.
"""

import json
import os
import subprocess
import sys

from _harness import ROOT, WAIT_SECONDS


def measure() -> dict[str, int]:
    """`host_calls` and `host_call_differences` over all ways, those beside a store included."""
    # The tests have modules of the same names as the benchmarks, so they run in a process of their own.
    command = [sys.executable, str(ROOT / "tests/host_calls.py")]
    path = f"{sys.exec_prefix}/bin:{os.environ['PATH']}"
    answer = subprocess.run(
        command, env={**os.environ, "PATH": path}, stdout=subprocess.PIPE, text=True, timeout=WAIT_SECONDS, check=True
    )
    figures: dict[str, int] = json.loads(answer.stdout)
    return figures


if __name__ == "__main__":
    print(json.dumps(measure()))
