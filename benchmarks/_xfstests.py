"""xfstests' quick group on a mount: tests that apply, and those whose end the table does not explain."""

import json
import sys
from pathlib import Path

from _harness import ROOT

sys.path.insert(0, str(ROOT / "tests"))

from suites.session import OUT, run_suite
from suites.xfstests import Xfstests
from ways import MOUNT


def measure(directory: Path) -> dict[str, float | None]:
    """Run the tests of the build that `XFSTESTS` names; without one, say how to get it.

    Args:
        directory: Fresh folder, which is not needed: results and log stay where `make suite-xfstests` puts them.

    Returns:
        `xfstests_run`, tests that apply, and `xfstests_unexplained`, failures without an entry and entries that are
        untrue; both are None without a build.
    """
    suite = Xfstests()
    reason = suite.missing()
    if reason is not None:
        print(f"xfstests skipped: {reason}", file=sys.stderr)
        return {"xfstests_run": None, "xfstests_unexplained": None}
    (verdict,) = run_suite(suite, [MOUNT], is_short=False)
    outcomes = json.loads((OUT / suite.name / MOUNT / "results.json").read_text())
    said = verdict.comparison
    for wrong in (*map(str, said.unexpected), *said.gone):
        print(wrong, file=sys.stderr)
    return {
        "xfstests_run": float(sum(outcome != "skipped" for outcome in outcomes.values())),
        "xfstests_unexplained": float(len(said.unexpected) + len(said.gone)),
    }
