"""Pairs of a door and a role of the adversary's, and those at which the adversary got nothing and broke nothing."""

import os
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

from _harness import ROOT, TEST_SECONDS, announce

FILES = ("tests/end_to_end/test_adversary.py", "tests/end_to_end/test_adversary_on_hosts.py")
"""Files whose tests are attacks, but for those whose name begins with `test_every`."""


def measure(directory: Path) -> dict[str, float]:
    """Play every role at every door, on a store of two servers with a planner, and on two hosts with one between them.

    Returns:
        `doors`, the pairs of a door and a role; `doors_refused_right`, those whose attack failed and left the store
        whole; and `doors_untried`, those that this machine or user cannot play.

    Raises:
        RuntimeError: The tests did not run.
    """
    report = directory / "report.xml"
    command = [sys.executable, "-m", "pytest", "-q", f"--junit-xml={report}", *FILES]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("WEIR_")}
    answer = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=TEST_SECONDS, check=False
    )
    if not report.exists():
        raise RuntimeError(f"{' '.join(command)} gave {answer.returncode}:\n{answer.stdout}{answer.stderr}")
    attacks = [case for case in ElementTree.parse(report).iter("testcase") if not _is_of_the_table(case)]
    refused = sum(len(case) == 0 for case in attacks)
    untried = sum(case.find("skipped") is not None for case in attacks)
    if refused + untried < len(attacks):
        print(answer.stdout, file=sys.stderr)
    announce("refused right", f"{refused} attacks", f"{len(attacks)} of doors and roles", refused / len(attacks))
    return {"doors": len(attacks), "doors_refused_right": refused, "doors_untried": untried}


def _is_of_the_table(case: ElementTree.Element) -> bool:
    return case.get("name", "").startswith("test_every")
