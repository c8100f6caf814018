"""fsx of xfstests: thousands of operations on one file, each result compared with what the file must hold.

From the user's own build, DIR/xfstests/ltp/fsx. The crate of the same name is another program.
"""

from pathlib import Path

from ways import ALL

from suites.comparison import Outcome, Results
from suites.place import Place
from suites.suite import build, missing_build

OPERATIONS = 4000
SHORT_OPERATIONS = 500
SEEDS = (1, 2, 3)
TEST_SECONDS = 300.0
PLAIN = ("-W", "-R")
"""No stores into mappings, no loads from them."""
VARIANTS: dict[str, tuple[str, ...]] = {
    "plain": PLAIN,
    "mapped": (),
    "pages": ("-r", "4096", "-w", "4096", "-t", "4096"),
    "reopened": (*PLAIN, "-c", "50"),
    "synchronised": (*PLAIN, "-y"),
    "asynchronous": (*PLAIN, "-A"),
    "direct": (*PLAIN, "-Z", "-r", "4096", "-w", "4096"),
    "end of file": (*PLAIN, "-x"),
}
"""Options by what they are about. Operations that a file system lacks are found out by fsx and left out."""


class Fsx:
    """A test is one variant with one seed."""

    name = "fsx"
    ways = ALL
    store_options = ("--servers", "2", "--targets", "2")
    seconds_max = 3600.0
    uid = None
    has_reference = True

    def missing(self) -> str | None:
        return missing_build("xfstests", "ltp/fsx")

    def run(self, place: Place, *, is_short: bool) -> Results:
        folder = build("xfstests")
        assert folder is not None
        results: Results = {}
        for variant, options in VARIANTS.items():
            for seed in SEEDS[:1] if is_short else SEEDS:
                if place.is_over:
                    break
                operations = str(SHORT_OPERATIONS if is_short else OPERATIONS)
                sizes = ("-l", "2500000", "-o", "262144", "-N", operations, "-S", str(seed), "-q")
                # fsx keeps its journal of operations and the right bytes beside the file unless told otherwise.
                command: list[str | Path] = [folder / "ltp/fsx", *sizes, *options, "-P", place.scratch, f"file-{seed}"]
                answer = place.run(*command, seconds=TEST_SECONDS)
                # fsx's own exit codes are as large as those of signals.
                failed = answer.outcome not in (Outcome.OK, Outcome.TIMED_OUT)
                results[f"{variant}, seed {seed}"] = Outcome.FAILED if failed else answer.outcome
        return results
