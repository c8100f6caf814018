"""Random schedules of faults on three hosts: what no right store could have answered, counted.

The schedules, histories and checks are those of the tests (`tests/history`); `make soak` runs a night of them.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

from _harness import ROOT, announce

SCHEDULES = int(os.environ.get("WEIR_SCHEDULES", "20"))
"""Schedules of one run: about a minute each, in which the machine mostly waits."""
_SECONDS_MAX = 600 * SCHEDULES


def partitions(directory: Path) -> dict[str, float]:
    """Run schedules of faults and check their histories.

    Args:
        directory: Fresh directory for the ledger.

    Returns:
        Schedules, violations, operations, and the seconds of the longest operation.
    """
    options: list[str | Path] = ["--schedules", str(SCHEDULES), "--ledgers", directory]
    answer = subprocess.run([sys.executable, ROOT / "tests/soak.py", *options], check=False, timeout=_SECONDS_MAX)
    lines = [json.loads(line) for ledger in directory.glob("*.jsonl") for line in ledger.read_text().splitlines()]
    if len(lines) < SCHEDULES:
        sys.exit(f"error: {len(lines)} of {SCHEDULES} schedules were run, and the soak ended with {answer.returncode}")
    violations = sum(int(line["violation_count"]) for line in lines)
    operations = sum(int(line["operations"]) for line in lines)
    longest = max(float(line["longest_seconds"]) for line in lines)
    announce(
        "partitions",
        f"{violations} violations",
        f"{operations} operations, {SCHEDULES} schedules",
        violations / operations,
    )
    return {
        "partition_schedules": float(len(lines)),
        "partition_violations": float(violations),
        "partition_operations": float(operations),
        "partition_longest_seconds": longest,
    }
