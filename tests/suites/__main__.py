"""Run suites on the store and on tmpfs: `make suites`, `make suite-NAME`, or `python -m suites` below `tests`.

The last line is one JSON object; the exit code is 1 where the table of expected differences is not the truth.
"""

import argparse
import json
import sys
import time
from collections.abc import Sequence

from ways import ALL

from suites.catalogue import SUITES
from suites.session import OUT, Verdict, judge_again, run_suite
from suites.suite import BUILDS, Suite


def main() -> int:
    """Run what the arguments name."""
    options = _arguments()
    chosen = [suite for suite in SUITES if not options.suites or suite.name in options.suites]
    if options.list:
        for suite in chosen:
            print(f"{suite.name:18} {', '.join(suite.ways):24} {suite.missing() or 'can run'}")
        return 0
    verdicts: list[Verdict] = []
    absent: dict[str, str] = {}
    print(
        f"{'suite':18} {'way':8} {'tests':>6} {'expected':>9} {'unexpected':>11} {'gone':>5} {'seconds':>8}", flush=True
    )
    for suite in chosen:
        reason = None if options.stored else suite.missing()
        if reason is not None:
            absent[suite.name] = reason
            print(f"{suite.name:18} skipped: {reason}", flush=True)
            continue
        verdicts += _run(suite, options)
    _explain(verdicts)
    figures = {
        "suites": sorted({verdict.suite for verdict in verdicts}),
        "skipped": absent,
        "tests": sum(verdict.comparison.tests for verdict in verdicts),
        "expected_differences": sum(len(verdict.comparison.expected) for verdict in verdicts),
        "unexpected_differences": sum(len(verdict.comparison.unexpected) for verdict in verdicts),
        "gone_differences": sum(len(verdict.comparison.gone) for verdict in verdicts),
    }
    print(json.dumps(figures))
    return 0 if all(verdict.comparison.is_good for verdict in verdicts) else 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m suites", description=f"Own builds are looked for in {BUILDS}.")
    parser.add_argument("suites", nargs="*", metavar="SUITE", help=", ".join(suite.name for suite in SUITES))
    parser.add_argument("--way", action="append", choices=ALL, help="only this way into the store; may be repeated")
    parser.add_argument("--short", action="store_true", help="only the part that takes some seconds")
    parser.add_argument("--stored", action="store_true", help="compare the results of the last run again")
    parser.add_argument("--list", action="store_true", help="say which suites can run here, and run none")
    options = parser.parse_args()
    unknown = set(options.suites) - {suite.name for suite in SUITES}
    if unknown:
        parser.error(f"no suite is named {', '.join(sorted(unknown))}")
    return options


def _run(suite: Suite, options: argparse.Namespace) -> list[Verdict]:
    ways: Sequence[str] = options.way or ALL
    verdicts = []
    started = time.monotonic()
    for verdict in judge_again(suite, ways) if options.stored else run_suite(suite, ways, is_short=options.short):
        told = verdict.comparison
        print(
            f"{suite.name:18} {verdict.way:8} {told.tests:6} {len(told.expected):9} {len(told.unexpected):11} "
            f"{len(told.gone):5} {time.monotonic() - started:8.0f}",
            flush=True,
        )
        verdicts.append(verdict)
        started = time.monotonic()
    return verdicts


def _explain(verdicts: Sequence[Verdict]) -> None:
    """Say what is wrong with the table, or with the store."""
    for verdict in verdicts:
        where = f"{verdict.suite} by {verdict.way}"
        for difference in verdict.comparison.unexpected:
            print(f"unexpected: {where}: {difference}")
        for test in verdict.comparison.gone:
            print(f"gone: {where}: {test} ends as it should; its entry is untrue")
        if not verdict.comparison.is_good:
            print(f"  the commands and their output: {OUT / verdict.suite / verdict.way / 'log'}")


if __name__ == "__main__":
    sys.exit(main())
