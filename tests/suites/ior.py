"""IOR, mdtest and md-workbench: parallel programs that write, read back and check, from the user's own build.

DIR/ior has the programs in `bin` (installed) or `src` (built in place), with MPI. Each runs as two processes.
"""

import re
from pathlib import Path

from launchers import launcher_of
from ways import ALL

from suites.comparison import Outcome, Results
from suites.place import Answer, Place
from suites.suite import build, missing_build, need, program

PROCESSES = "2"
TEST_SECONDS = 180.0
_CHECKED = ("-w", "-W", "-r", "-R", "-G", "1")
"""Write, check, read, check; the pattern does not depend on the time."""
_SHARED = (*_CHECKED, "-t", "64k", "-b", "1m", "-s", "3")
IOR: dict[str, tuple[str, ...]] = {
    "shared": _SHARED,
    "shared, reordered": (*_SHARED, "-C"),
    "shared, reordered by chance": (*_SHARED, "-Z"),
    "shared, at random": (*_SHARED, "-z", "--random-offset-seed=1"),
    "shared, synchronised": (*_SHARED, "-e", "-Y"),
    "shared, small": (*_CHECKED, "-t", "1000", "-b", "20000", "-s", "5"),
    "shared, strided": (*_CHECKED, "-t", "47008", "-b", "47008", "-s", "20"),
    "shared, repeated": (*_SHARED, "-i", "3", "-m"),
    "shared, preallocated": (*_SHARED, "--posix.odirect"),
    "shared, used again": (*_SHARED, "-E", "-k"),
    "own": (*_SHARED, "-F"),
    "own, in own folders": (*_SHARED, "-F", "-u"),
    "own, reordered": (*_SHARED, "-F", "-C"),
    "own, synchronised": (*_SHARED, "-F", "-e"),
    "own, small": (*_CHECKED, "-F", "-t", "1000", "-b", "20000", "-s", "5"),
    "mapped": (*_SHARED, "-a", "MMAP", "-F"),
    "MPI-IO": (*_SHARED, "-a", "MPIIO"),
    "MPI-IO, collective": (*_SHARED, "-a", "MPIIO", "-c"),
    "MPI-IO, collective, strided": (*_CHECKED, "-a", "MPIIO", "-c", "-t", "47008", "-b", "47008", "-s", "20"),
    "MPI-IO, own": (*_SHARED, "-a", "MPIIO", "-F"),
}
MDTEST: dict[str, tuple[str, ...]] = {
    "files and folders": ("-n", "60"),
    "files": ("-n", "100", "-F"),
    "folders": ("-n", "100", "-D"),
    "own folder": ("-n", "60", "-u"),
    "tree": ("-z", "2", "-b", "3", "-I", "5"),
    "leaves": ("-z", "2", "-b", "3", "-I", "5", "-L"),
    "bytes": ("-n", "40", "-F", "-w", "3901", "-e", "3901", "-X"),
    "bytes, synchronised": ("-n", "20", "-F", "-w", "3901", "-e", "3901", "-y"),
    "stat by another": ("-n", "60", "-N", "1"),
    "repeated": ("-n", "30", "-i", "3"),
}
WORKBENCH: dict[str, tuple[str, ...]] = {
    "small": ("-R=1", "-D=3", "-I=10", "-P=5", "-S=3901"),
    "waves": ("-R=2", "-D=2", "-I=20", "-P=10", "-S=200"),
}
SHORT = ("shared", "own")
_WRONG = re.compile(
    r"FAILED comparison|[1-9]\d* errors? found|ERROR|data check error|verification error", re.IGNORECASE
)


class Ior:
    """A test is one set of options of one of the programs."""

    name = "ior"
    ways = ALL
    store_options = ("--servers", "2", "--targets", "2")
    seconds_max = 3600.0
    uid = None
    has_reference = True

    def missing(self) -> str | None:
        if (lacks := missing_build("ior", "src/ior", "bin/ior")) is not None:
            return lacks
        launcher, _ = launcher_of(_built("ior"))
        return f"there is no {launcher}, with whose MPI ior was built" if program(launcher) is None else None

    def run(self, place: Place, *, is_short: bool) -> Results:
        results: Results = {}
        for name, options in IOR.items():
            if (is_short and name not in SHORT) or place.is_over:
                continue
            answer = self._run(place, "ior", *options, "-o", str(place.folder / f"ior {name}".replace(" ", "-")))
            results[f"ior: {name}"] = outcome_of(answer)
        for kind, cases in (("mdtest", MDTEST), ("md-workbench", WORKBENCH)):
            for name, options in cases.items():
                if is_short or place.is_over:
                    continue
                folder = place.make_folder(f"{kind} {name}".replace(" ", "-"))
                target = ("-d", str(folder)) if kind == "mdtest" else (f"-o={folder}/set",)
                results[f"{kind}: {name}"] = outcome_of(self._run(place, kind, *options, *target))
        return results

    def _run(self, place: Place, name: str, *options: str) -> Answer:
        file = _built(name)
        launcher, variables = launcher_of(file)
        words = " ".join(f"{key}={value}" for key, value in variables.items())
        # The library goes into the program's processes, not into mpiexec and its proxies.
        script = (
            f'preload=$LD_PRELOAD; unset LD_PRELOAD; mpiexec=$1; shift; exec env {words} "$mpiexec" -n "$0" '
            '${preload:+env LD_PRELOAD="$preload"} "$@"'
        )
        return place.run("sh", "-c", script, PROCESSES, need(launcher), file, *options, seconds=TEST_SECONDS)


def _built(name: str) -> Path:
    folder = build("ior")
    assert folder is not None
    return next(path for path in (folder / "src" / name, folder / "bin" / name) if path.exists())


def outcome_of(answer: Answer) -> Outcome:
    """The outcome of a program, which reports some wrong bytes by words alone."""
    if answer.outcome is Outcome.OK and _WRONG.search(answer.output):
        return Outcome.FAILED
    return answer.outcome
