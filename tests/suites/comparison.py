"""Outcomes of a suite on the store beside those on tmpfs, judged by a committed table of expected differences."""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any


class Outcome(StrEnum):
    """The end of one test."""

    OK = "ok"
    SKIPPED = "skipped"
    """The test says that it does not apply."""
    FAILED = "failed"
    DIED = "died"
    """A signal ended the test."""
    TIMED_OUT = "timed out"
    ABSENT = "absent"
    """The other place has a test of this name, and this place has none."""


Results = dict[str, Outcome]
"""The outcome of each test, by its name."""


@dataclass(frozen=True)
class Expected:
    """Tests that are known to end differently on the store, for one reason."""

    tests: tuple[str, ...]
    ways: tuple[str, ...]
    outcome: Outcome
    """The outcome on the store."""
    reference: Outcome
    """The outcome on tmpfs."""
    reason: str
    is_certain: bool = True
    """Whether the difference occurs in every run; the reason says why it may not."""


@dataclass(frozen=True)
class Difference:
    """One test that ended differently."""

    test: str
    outcome: Outcome
    reference: Outcome

    def __str__(self) -> str:
        return f"{self.test}: {self.outcome} on the store, where {self.reference} is right"


@dataclass(frozen=True)
class Comparison:
    """What the results of one way say."""

    tests: int
    expected: tuple[Difference, ...]
    unexpected: tuple[Difference, ...]
    gone: tuple[str, ...]
    """Tests of the table that ended as on tmpfs, so that their entry is untrue."""

    @property
    def is_good(self) -> bool:
        """Whether the table describes the results."""
        return not self.unexpected and not self.gone


def compare(reference: Results, results: Results, table: Sequence[Expected], way: str) -> Comparison:
    """Compare the outcomes of all tests by the entries of the table that hold for this way.

    A test of the table that neither place ran (a short run, another version of the suite) says nothing.
    """
    entries = {test: entry for entry in table if way in entry.ways for test in entry.tests}
    expected, unexpected, gone = [], [], []
    tests = sorted(reference.keys() | results.keys())
    for test in tests:
        difference = Difference(test, results.get(test, Outcome.ABSENT), reference.get(test, Outcome.ABSENT))
        entry = entries.get(test)
        if difference.outcome == difference.reference:
            if entry is not None and entry.is_certain:
                gone.append(test)
        elif entry is not None and (entry.outcome, entry.reference) == (difference.outcome, difference.reference):
            expected.append(difference)
        else:
            unexpected.append(difference)
    return Comparison(len(tests), tuple(expected), tuple(unexpected), tuple(gone))


def as_told(results: Results) -> Results:
    """The reference of a suite whose tests say themselves what is right: what applies is ok."""
    return {test: Outcome.SKIPPED if outcome is Outcome.SKIPPED else Outcome.OK for test, outcome in results.items()}


class TableError(ValueError):
    """A table of expected differences that says too little, or two things about one test."""


def read_table(path: Path, ways: Sequence[str]) -> list[Expected]:
    """Read a table; a suite without differences has no file.

    Raises:
        TableError: An entry has no reason, an unknown way or outcome, or a test of another entry.
    """
    if not path.is_file():
        return []
    document = tomllib.loads(path.read_text())
    table = [_entry(path, entry, ways) for entry in document.pop("difference", [])]
    if document:
        raise TableError(f"{path}: unknown keys {sorted(document)}; entries are [[difference]]")
    seen: set[tuple[str, str]] = set()
    for entry in table:
        for pair in ((way, test) for way in entry.ways for test in entry.tests):
            if pair in seen:
                raise TableError(f"{path}: {pair[1]} has two entries for the way {pair[0]}; join them")
            seen.add(pair)
    return table


def _entry(path: Path, entry: Mapping[str, Any], ways: Sequence[str]) -> Expected:
    unknown = entry.keys() - {"tests", "ways", "outcome", "reference", "reason", "certain"}
    if unknown:
        raise TableError(f"{path}: unknown keys {sorted(unknown)} in {dict(entry)}")
    try:
        result = Expected(
            tests=tuple(entry["tests"]),
            ways=tuple(entry["ways"]),
            outcome=Outcome(entry.get("outcome", Outcome.FAILED)),
            reference=Outcome(entry.get("reference", Outcome.OK)),
            reason=entry["reason"],
            is_certain=entry.get("certain", True),
        )
    except (KeyError, ValueError) as error:
        raise TableError(f"{path}: {error!r} in {dict(entry)}") from error
    if not result.reason.strip() or not result.tests or not result.ways:
        raise TableError(f"{path}: an entry names its tests, its ways and its reason: {dict(entry)}")
    if result.outcome == result.reference:
        raise TableError(f"{path}: {result.tests} are said to differ and to be {result.outcome} on both")
    if set(result.ways) - set(ways):
        raise TableError(f"{path}: {result.ways} names a way that the suite does not run: {tuple(ways)}")
    return result
