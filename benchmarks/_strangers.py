"""Every message of the protocol, sent to a real server by a user with no right to its object, and the refusals."""

import json
import subprocess
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parent.parent
TEST_SECONDS = 3600
"""Longest time of a run, with a build, on a busy machine."""
PREFIX = "strangers: "


def measure() -> dict[str, Any]:
    """Run the test that holds the table of rights, and take the counts it prints.

    Returns:
        `stranger_messages`, and how many of them were refused without any effect: `stranger_messages_refused`.

    Raises:
        RuntimeError: A message was neither refused nor without effect, or the test did not run.
    """
    name = "strangers::a_stranger_is_refused_by_every_message_and_changes_nothing"
    command = ["cargo", "test", "--quiet", "-p", "weir-server", "--test", "all", name, "--", "--nocapture"]
    answer = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=TEST_SECONDS, check=False)
    counts = [line.partition(PREFIX)[2] for line in answer.stdout.splitlines() if PREFIX in line]
    if answer.returncode != 0 or len(counts) != 1:
        raise RuntimeError(f"{' '.join(command)} gave {answer.returncode}:\n{answer.stdout}{answer.stderr}")
    measured: dict[str, Any] = json.loads(counts[0])
    return measured


if __name__ == "__main__":
    print(json.dumps(measure()))
