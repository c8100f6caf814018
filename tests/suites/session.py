"""One suite from its run on tmpfs to its verdict: places, results on disk, comparison by the table."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ways import MOUNTED, has_fuse

from suites.comparison import Comparison, Outcome, Results, compare, read_table
from suites.place import REFERENCE, in_store, reference
from suites.suite import ROOT, Suite

TABLES = Path(__file__).parent / "expected"
OUT = ROOT / "target/suites"
"""The results of the last run of each suite in each place, and the log of its commands."""


@dataclass(frozen=True)
class Verdict:
    """One suite by one way, beside tmpfs."""

    suite: str
    way: str
    comparison: Comparison


def run_suite(suite: Suite, ways: Sequence[str], *, is_short: bool, out: Path = OUT) -> Iterator[Verdict]:
    """Run a suite on tmpfs and by each of these ways that it can go, and compare."""
    folder = out / suite.name
    with reference(folder / REFERENCE, suite.seconds_max, suite.uid) as place:
        standard = suite.run(place, is_short=is_short)
    _keep(folder / REFERENCE, standard)
    for way in ways_of(suite, ways):
        with in_store(way, folder / way, suite.seconds_max, suite.store_options, suite.uid) as place:
            results = suite.run(place, is_short=is_short)
        _keep(folder / way, results)
        yield _judge(suite, way, standard, results)


def judge_again(suite: Suite, ways: Sequence[str], out: Path = OUT) -> Iterator[Verdict]:
    """Compare the results of the last run by the table as it is now."""
    folder = out / suite.name
    if (folder / REFERENCE / "results.json").is_file():
        standard = _kept(folder / REFERENCE)
        for way in ways_of(suite, ways):
            if (folder / way / "results.json").is_file():
                yield _judge(suite, way, standard, _kept(folder / way))


def ways_of(suite: Suite, ways: Sequence[str]) -> list[str]:
    """The ways that were asked for, that the suite can go, and that this machine has."""
    return [way for way in suite.ways if way in ways and (way not in MOUNTED or has_fuse())]


def _judge(suite: Suite, way: str, standard: Results, results: Results) -> Verdict:
    table = read_table(TABLES / f"{suite.name}.toml", suite.ways)
    return Verdict(suite.name, way, compare(standard, results, table, way))


def _keep(folder: Path, results: Results) -> None:
    (folder / "results.json").write_text(json.dumps(dict(sorted(results.items())), indent=1) + "\n")


def _kept(folder: Path) -> Results:
    return {test: Outcome(word) for test, word in json.loads((folder / "results.json").read_text()).items()}
