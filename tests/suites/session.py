"""One suite from its run on tmpfs to its verdict: places, results on disk, comparison by the table."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ways import MOUNTED, has_fuse

from suites.comparison import Comparison, Outcome, Results, as_told, compare, read_table
from suites.place import REFERENCE, in_store, outcome_of_servers, reference
from suites.suite import ROOT, Suite

TABLES = Path(__file__).parent / "expected"
OUT = ROOT / "target/suites"
"""The results of the last run of each suite in each place, and the log of its commands."""
SERVERS = "servers"
"""The name under which the results say whether all servers answer at the end."""


@dataclass(frozen=True)
class Verdict:
    """One suite by one way, beside tmpfs."""

    suite: str
    way: str
    comparison: Comparison


def run_suite(suite: Suite, ways: Sequence[str], *, is_short: bool, out: Path = OUT) -> Iterator[Verdict]:
    """Run a suite on tmpfs, where that is its reference, and by each of these ways that it can go, and compare."""
    folder = out / suite.name
    standard: Results | None = None
    if suite.has_reference:
        with reference(folder / REFERENCE, suite.seconds_max, suite.uid) as place:
            standard = suite.run(place, is_short=is_short) | {SERVERS: Outcome.OK}
        _keep(folder / REFERENCE, standard)
    for way in ways_of(suite, ways):
        with in_store(way, folder / way, suite.seconds_max, suite.store_options, suite.uid) as place:
            results = suite.run(place, is_short=is_short)
            if place.way is not None:
                results[SERVERS] = outcome_of_servers(place.way.store, folder / way)
        _keep(folder / way, results)
        yield _judge(suite, way, standard, results)


def judge_again(suite: Suite, ways: Sequence[str], out: Path = OUT) -> Iterator[Verdict]:
    """Compare the results of the last run by the table as it is now."""
    folder = out / suite.name
    standard = _kept(folder / REFERENCE) if suite.has_reference else None
    for way in ways_of(suite, ways):
        results = _kept(folder / way)
        if results and standard != {}:
            yield _judge(suite, way, standard, results)


def ways_of(suite: Suite, ways: Sequence[str]) -> list[str]:
    """The ways that were asked for, that the suite can go, and that this machine has."""
    return [way for way in suite.ways if way in ways and (way not in MOUNTED or has_fuse())]


def _judge(suite: Suite, way: str, standard: Results | None, results: Results) -> Verdict:
    table = read_table(TABLES / f"{suite.name}.toml", suite.ways)
    standard = as_told(results) if standard is None else standard
    return Verdict(suite.name, way, compare(standard, results, table, way))


def _keep(folder: Path, results: Results) -> None:
    (folder / "results.json").write_text(json.dumps(dict(sorted(results.items())), indent=1) + "\n")


def _kept(folder: Path) -> Results:
    """The results of the last run; none where there was no run."""
    file = folder / "results.json"
    return {test: Outcome(word) for test, word in json.loads(file.read_text()).items()} if file.is_file() else {}
