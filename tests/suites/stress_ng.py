"""stress-ng's class of file system stressors, each for some seconds, with what it verifies."""

import re
from pathlib import Path

from ways import MOUNTED

from suites.comparison import Outcome, Results
from suites.place import Answer, Place
from suites.suite import missing_packages, need

SECONDS = 3
"""Of each stressor: most go through all that they do within a second."""
TEST_SECONDS = 120.0
"""Stressors end by themselves; a few remove thousands of files first."""
APART = frozenset({"bind-mount", "binderfs", "eventfd", "ioprio", "procfs", "dup"})
"""Stressors of the class that touch no file of the directory, or mount something."""
SHORT = ("chmod", "dentry", "fallocate", "getdent", "lockf", "rename", "seek", "utime")
_OUTCOMES = {0: Outcome.OK, 3: Outcome.SKIPPED, 4: Outcome.SKIPPED}
"""Exit codes of stress-ng(1): 3 for want of resources, 4 for what is not implemented."""


class StressNg:
    """A test is one stressor."""

    name = "stress-ng"
    ways = MOUNTED
    store_options = ("--servers", "2", "--targets", "2", "--capacity", "1GiB")
    seconds_max = 3600.0
    uid = None
    has_reference = True

    def missing(self) -> str | None:
        return missing_packages("stress-ng")

    def run(self, place: Place, *, is_short: bool) -> Results:
        results: Results = {}
        program = need("stress-ng")
        listed = stressors(place.run(program, "--class", "filesystem?", seconds=TEST_SECONDS).output)
        for stressor in SHORT if is_short else [each for each in listed if each not in APART]:
            if place.is_over:
                break
            folder = place.make_folder(stressor)
            duration = "1" if is_short else str(SECONDS)
            options: list[str | Path] = [
                "--timeout",
                duration,
                "--verify",
                "--temp-path",
                folder,
                "--oomable",
                "--no-rand-seed",
            ]
            answer = place.run(program, f"--{stressor}", "1", *options, seconds=TEST_SECONDS)
            results[stressor] = outcome_of(answer)
            place.remove_folder(folder)
        return results


def stressors(output: str) -> list[str]:
    """The names of the class's stressors."""
    listed = re.search(r"stressors: (.*)", output)
    return listed[1].split() if listed else []


def outcome_of(answer: Answer) -> Outcome:
    """The outcome of a stressor; one that was skipped says so and exits with 0."""
    if answer.code == 0 and re.search(r"skipped: [1-9]|skipping stressor", answer.output):
        return Outcome.SKIPPED
    if answer.code == 0 and "stress-ng: fail:" in answer.output:
        return Outcome.FAILED
    return _OUTCOMES.get(answer.code, answer.outcome) if not answer.timed_out else Outcome.TIMED_OUT
