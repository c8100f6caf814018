"""xfstests' generic tests on a mount, from the user's own build: `XFSTESTS=DIR make suite-xfstests`.

The tests want two file systems that they mount and unmount as they like, so there are two stores, and programs `mount`
and `df` of ours come first in the search path. Tables of mounts and users are private to the run: nothing is installed.
"""

import os
import re
import shutil
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from store import Store, kept_for
from ways import MOUNT
from weir import native

from suites.comparison import Outcome, Results
from suites.place import Place, outcome_of_servers
from suites.suite import build, missing_build, missing_packages

BUILD = "XFSTESTS"
"""The variable that names the folder where xfstests was built; else it is DIR/xfstests of the other builds."""
CHOSEN = "XFSTESTS_TESTS"
"""The variable that names tests, or one group of them; `applicable` are those that the last whole run did not skip."""
GROUP = "quick"
SHORT = ("generic/001", "generic/005", "generic/006", "generic/011", "generic/013", "generic/023", "generic/028")
APPLICABLE = "applicable"
TEST_SECONDS = 180.0
"""Most tests take a few seconds. A longer one is killed, with everything that it has started."""
PROGRESS_SECONDS = 0.2
"""Between two looks at the output."""
SOURCES = ("weir-test", "weir-scratch")
"""The sources of the two mounts: that which stays through a test, and that which tests empty and mount anew."""
USERS = ("fsgqa", "123456-fsgqa", "fsgqa2")
"""Users and groups that tests become. They exist for the programs of the run alone."""
_FIRST_ID = 31415
_PROGRAMS = Path(__file__).parent / "programs"
_HEAD = re.compile(r"^(generic/\d{3,}) *(.*)$", re.MULTILINE)
_DONE = re.compile(r"\d+s *$|\[not run\]|\[expunged\]|\[failed|output mismatch|\[dumped core\]|_check_")
# The tables of users are private, and the folder of the tests is theirs to write in.
_PRIVATE = """
set -e
mount --bind "$1/passwd" /etc/passwd
mount --bind "$1/group" /etc/group
cd "$2"
shift 2
exec "$@"
"""


class Xfstests:
    """A test is one script of the group; it tells by its own output whether it went well."""

    name = "xfstests"
    ways = (MOUNT,)
    # One of the tests fills all room, and others want a gibibyte.
    store_options = ("--servers", "2", "--targets", "2", "--capacity", "1GiB")
    seconds_max = 5400.0
    uid = None
    has_reference = False

    def missing(self) -> str | None:
        if os.geteuid() != 0:
            return "only root can mount for other users, and become them"
        if os.environ.get(BUILD):
            folder = Path(os.environ[BUILD])
            if not (folder / "ltp/fsstress").is_file():
                return f"{folder} has no ltp/fsstress: build xfstests there"
        elif told := missing_build("xfstests", "ltp/fsstress"):
            return f"{told}, or name its own folder: {BUILD}=DIR"
        return missing_packages("xfs_io", "unshare", "findmnt")

    def run(self, place: Place, *, is_short: bool) -> Results:
        assert place.way is not None
        folder = built()
        tests = SHORT if is_short else chosen(folder / "tests/generic/group.list", place.log.parent)
        with kept_for(place.scratch / "second") as second:
            second.root.mkdir()
            second.json("up", *self.store_options, "--no-mount")
            _prepare(place, [place.way.store, second])
            results: Results = {}
            while len(results) < len(tests) and not place.is_over:
                told = self._some(place, folder, [test for test in tests if test not in results])
                results |= told
                if not told:
                    raise RuntimeError(f"xfstests does not start; its output is in {place.log}")
            results["servers of the second store"] = outcome_of_servers(second, place.log.parent)
        if not is_short and not os.environ.get(CHOSEN):
            applicable = [test for test in tests if results.get(test, Outcome.SKIPPED) is not Outcome.SKIPPED]
            (place.log.parent / APPLICABLE).write_text("\n".join(applicable) + "\n")
        return results

    def _some(self, place: Place, folder: Path, tests: Sequence[str]) -> Results:
        """Run these tests in their order, up to the first that takes too long."""
        environment = {
            "PATH": f"{place.scratch}/bin:{os.environ['PATH']}:/usr/sbin:/sbin",
            "HOST_OPTIONS": str(place.scratch / "local.config"),
        }
        namespaces = ("unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc")
        private: list[str | Path] = [*namespaces, "sh", "-c", _PRIVATE, "sh", place.scratch, folder]
        with place.log.open("ab") as log:
            begun = log.tell()
            process = place.start(
                *private, "./check", *tests, output=log, environment=environment, folder=place.scratch
            )
            is_late = self._is_late(place, process, begun)
            place.end(process)
        output = _said(place.log, begun)
        results = read_lines(output)
        if is_late:
            results[running(output) or tests[0]] = Outcome.TIMED_OUT
        return results

    def _is_late(self, place: Place, process: subprocess.Popen[bytes], begun: int) -> bool:
        """Wait for the end; true where one test took too long, or all together did."""
        current, since = "", time.monotonic()
        while process.poll() is None:
            now = running(_said(place.log, begun)) or ""
            if now != current:
                current, since = now, time.monotonic()
            if place.is_over or time.monotonic() - since > TEST_SECONDS:
                return True
            time.sleep(PROGRESS_SECONDS)
        return False


def built() -> Path:
    """The folder of the build that `missing` has found."""
    folder = Path(os.environ[BUILD]).resolve() if os.environ.get(BUILD) else build("xfstests")
    assert folder is not None
    return folder


def chosen(groups: Path, last: Path) -> tuple[str, ...]:
    """The tests that were asked for, or those of the quick group, from the build's own list."""
    words = os.environ.get(CHOSEN, GROUP).split()
    if words == [APPLICABLE]:
        return tuple((last / APPLICABLE).read_text().split())
    if any("/" in word for word in words):
        return tuple(words)
    tests = []
    for line in groups.read_text().splitlines():
        number, *of = line.split("#")[0].split() or [""]
        if set(words) & set(of):
            tests.append(f"generic/{number}")
    return tuple(tests)


def read_lines(output: str) -> Results:
    """The outcomes of the tests whose end the output tells."""
    results = {}
    for match in _HEAD.finditer(output):
        if _DONE.search(match[2]):
            results[match[1]] = _outcome(match[2])
    return results


def running(output: str) -> str | None:
    """The test that has begun and not ended."""
    heads = list(_HEAD.finditer(output))
    return heads[-1][1] if heads and not _DONE.search(heads[-1][2]) else None


def _outcome(words: str) -> Outcome:
    if "[not run]" in words or "[expunged]" in words:
        return Outcome.SKIPPED
    return Outcome.OK if re.fullmatch(r"\d+s *", words) else Outcome.FAILED


def _said(log: Path, begun: int) -> str:
    with log.open("rb") as file:
        file.seek(begun)
        return file.read().decode(errors="backslashreplace")


def _prepare(place: Place, stores: Sequence[Store]) -> None:
    """Write what the run finds in its scratch folder: programs, tables of users, sources of mounts, settings."""
    programs = place.scratch / "bin"
    programs.mkdir()
    for program in _PROGRAMS.iterdir():
        shutil.copy(program, programs)
    for name, fields in (("passwd", "*:{0}:{0}::/tmp:/bin/bash"), ("group", "*:{0}:")):
        lines = [f"{user}:{fields.format(_FIRST_ID + index)}\n" for index, user in enumerate(USERS)]
        (place.scratch / name).write_text(Path("/etc", name).read_text() + "".join(lines))
    for source, store in zip(SOURCES, stores, strict=True):
        record = place.scratch / "sources" / source
        record.mkdir(parents=True)
        (record / "cluster.json").symlink_to(store.home / "cluster.json")
        (record / "credential.json").symlink_to(store.home / "credentials/mount.json")
    points = [place.scratch / source for source in SOURCES]
    for point in points:
        point.mkdir()
    results = place.log.parent / "results"
    shutil.rmtree(results, ignore_errors=True)
    settings = {
        "FSTYP": "fuse", "FUSE_SUBTYP": ".weir", "TEST_DEV": SOURCES[0], "TEST_DIR": points[0],
        "SCRATCH_DEV": SOURCES[1], "SCRATCH_MNT": points[1], "RESULT_BASE": results, "DIFF_LENGTH": 40,
        "SUITE_MOUNT": native.mount_program(), "SUITE_SOURCES": place.scratch / "sources",
    }  # fmt: skip
    (place.scratch / "local.config").write_text("".join(f"export {key}={value}\n" for key, value in settings.items()))
