"""pjdfstest: what POSIX says of names, modes, owners and times. There is a crate, and there are older shell scripts.

The crate's tests are functions of one program, the scripts' tests are lines of the Test Anything Protocol.
"""

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from ways import ALL, MOUNTED

from suites.comparison import Outcome, Results
from suites.place import Answer, Place
from suites.suite import TOOLS, build, missing_build, missing_packages, need

CONFIGURATION = """
[features]
posix_fallocate = {}
rename_ctime = {}
stat_st_birthtime = {}
utime_now = {}
utimensat = {}
[settings]
naptime = 0.02
[dummy_auth]
entries = [["nobody", "nogroup"], ["daemon", "daemon"]]
"""
"""What Linux has, and two users of Debian. Times on a store are those of its server, to the nanosecond."""
_MODULE = "pjdfstest::tests::"
"""What a test's exact name begins with, and its printed name does not."""
_LINE = re.compile(r"^(?P<test>[a-z0-9_]+(?:::\w+)+) +(?P<outcome>ok|skipped|FAILED)$", re.MULTILINE)
_OUTCOMES = {"ok": Outcome.OK, "skipped": Outcome.SKIPPED, "FAILED": Outcome.FAILED}
TEST_SECONDS = 60.0
"""One test takes milliseconds."""
PROGRAM_SECONDS = 600.0
"""All tests of the crate take a minute on a busy machine."""
SCRIPT_SECONDS = 300.0
"""A script runs up to some hundred processes, each of which `weir run` sets up anew."""
SHORT_PATTERNS = ("rename::", "open::", "unlink::", "ftruncate::")


class Pjdfstest:
    """The crate."""

    name = "pjdfstest"
    ways = ALL
    store_options = ("--servers", "2", "--targets", "2")
    seconds_max = 1200.0
    uid = None
    has_reference = True

    def missing(self) -> str | None:
        if os.geteuid() != 0:
            return "only root can become the users that the tests need"
        return missing_packages("pjdfstest", folders=(TOOLS,))

    def run(self, place: Place, *, is_short: bool) -> Results:
        configuration = place.scratch / "pjdfstest.toml"
        # A second file system beside the one under test.
        secondary = place.scratch / "secondary"
        secondary.mkdir(exist_ok=True)
        configuration.write_text(CONFIGURATION)
        command: list[str | Path] = [need("pjdfstest", TOOLS), "-c", configuration, "-p", place.folder, "-s", secondary]
        patterns = SHORT_PATTERNS if is_short else ()
        answer = place.run(*command, *patterns, seconds=PROGRAM_SECONDS)
        results = read_lines(answer.output)
        # A test that ends the program takes those behind it along: they are run one by one.
        if answer.outcome in (Outcome.DIED, Outcome.TIMED_OUT):
            for test in self._names(place, patterns):
                if test not in results:
                    results[test] = self._alone(place, [*command, "--exact", f"{_MODULE}{test}"], test)
        return results

    def _alone(self, place: Place, command: Sequence[str | Path], test: str) -> Outcome:
        if place.is_over:
            return Outcome.ABSENT
        answer = place.run(*command, seconds=TEST_SECONDS)
        told = read_lines(answer.output).get(test)
        if told is None and answer.outcome is Outcome.OK:
            raise LookupError(f"pjdfstest knows no test {test!r}; its names have changed")
        return told or answer.outcome

    def _names(self, place: Place, patterns: Sequence[str]) -> list[str]:
        """The names of all tests, which only a whole run says: one on the host's own file system."""
        outside = place.scratch / "names"
        outside.mkdir(exist_ok=True)
        configuration = place.scratch / "pjdfstest.toml"
        host = Place("host", outside, place.scratch, place.log, place.deadline)
        command: list[str | Path] = [need("pjdfstest", TOOLS), "-c", configuration, "-p", outside, *patterns]
        return list(read_lines(host.run(*command, seconds=PROGRAM_SECONDS).output))


def read_lines(output: str) -> Results:
    """The outcomes that the crate's program printed."""
    return {match["test"]: _OUTCOMES[match["outcome"]] for match in _LINE.finditer(output)}


class PjdfstestScripts:
    """The shell scripts, from the user's own build: DIR/pjdfstest with its folder `tests`."""

    name = "pjdfstest-scripts"
    ways = MOUNTED
    store_options = ("--servers", "2", "--targets", "2")
    seconds_max = 3600.0
    uid = None
    has_reference = True

    def missing(self) -> str | None:
        if os.geteuid() != 0:
            return "only root can become the users that the tests need"
        return missing_build("pjdfstest", "pjdfstest")

    def run(self, place: Place, *, is_short: bool) -> Results:
        folder = build("pjdfstest")
        assert folder is not None
        results: Results = {}
        scripts = sorted((folder / "tests").glob("*/*.t"))
        for script in [each for each in scripts if not is_short or each.parent.name == "rename"]:
            if place.is_over:
                break
            test = f"{script.parent.name}/{script.stem}"
            inside = place.make_folder(test.replace("/", "-"))
            answer = place.run("sh", script, seconds=SCRIPT_SECONDS, folder=inside)
            results |= read_protocol(test, answer)
            place.remove_folder(inside)
        return results


_PLAN = re.compile(r"^1\.\.(\d+)", re.MULTILINE)
_RESULT = re.compile(r"^(not )?ok (\d+)[^#\n]*(# (?:TODO|SKIP))?", re.MULTILINE | re.IGNORECASE)


def read_protocol(script: str, answer: Answer) -> Results:
    """The outcomes of a script, by the numbers of its plan: a number that was not reached did not end well."""
    plan = _PLAN.search(answer.output)
    results = {f"{script} {number}": outcome for number, outcome in _told(answer.output)}
    if plan is None:
        results[script] = answer.outcome if answer.outcome is not Outcome.OK else Outcome.FAILED
        return results
    count = int(plan[1])
    if count == 0:
        return {script: Outcome.SKIPPED}
    unreached = Outcome.TIMED_OUT if answer.timed_out else Outcome.DIED
    return {f"{script} {number}": results.get(f"{script} {number}", unreached) for number in range(1, count + 1)}


def _told(output: str) -> Iterator[tuple[int, Outcome]]:
    for match in _RESULT.finditer(output):
        if match[3]:
            yield int(match[2]), Outcome.SKIPPED
        else:
            yield int(match[2]), Outcome.FAILED if match[1] else Outcome.OK
