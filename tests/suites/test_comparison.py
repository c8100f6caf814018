"""The comparison itself: every kind of difference is found, and a table that is untrue fails the run."""

from pathlib import Path

import pytest
from ways import ALL, MOUNT, PREFIX, PRELOAD

from suites.catalogue import SUITES
from suites.comparison import Difference, Expected, Outcome, TableError, compare, read_table
from suites.session import TABLES

OK, SKIPPED, FAILED, DIED, ABSENT = Outcome.OK, Outcome.SKIPPED, Outcome.FAILED, Outcome.DIED, Outcome.ABSENT


def entry(*tests: str, certain: bool = True, outcome: Outcome = FAILED, reference: Outcome = OK) -> Expected:
    return Expected(tests, (MOUNT,), outcome, reference, "for a reason", certain)


def test_equal_results_are_good_whatever_they_are() -> None:
    results = {"a": OK, "b": FAILED, "c": SKIPPED, "d": DIED}
    comparison = compare(results, dict(results), [], MOUNT)
    assert comparison.is_good
    assert comparison.tests == 4


@pytest.mark.parametrize(
    ("reference", "outcome"), [(OK, FAILED), (OK, SKIPPED), (OK, DIED), (FAILED, OK), (SKIPPED, FAILED)]
)
def test_a_difference_without_an_entry_fails_the_run(reference: Outcome, outcome: Outcome) -> None:
    comparison = compare({"a": reference, "b": OK}, {"a": outcome, "b": OK}, [], MOUNT)
    assert comparison.unexpected == (Difference("a", outcome, reference),)
    assert not comparison.is_good


def test_a_test_that_one_place_never_ran_is_a_difference() -> None:
    comparison = compare({"a": OK}, {"b": OK}, [], MOUNT)
    assert comparison.unexpected == (Difference("a", ABSENT, OK), Difference("b", OK, ABSENT))


def test_an_expected_difference_is_good_by_its_way_alone() -> None:
    reference, results = {"a": OK}, {"a": FAILED}
    assert compare(reference, results, [entry("a")], MOUNT).is_good
    assert compare(reference, results, [entry("a")], MOUNT).expected == (Difference("a", FAILED, OK),)
    assert not compare(reference, results, [entry("a")], PRELOAD).is_good


def test_an_entry_covers_its_own_outcomes_alone() -> None:
    """A test that failed and now dies, or that tmpfs skips now, has become another difference."""
    assert compare({"a": OK}, {"a": DIED}, [entry("a")], MOUNT).unexpected
    assert compare({"a": SKIPPED}, {"a": FAILED}, [entry("a")], MOUNT).unexpected


def test_an_expected_difference_that_is_gone_fails_the_run() -> None:
    comparison = compare({"a": OK}, {"a": OK}, [entry("a")], MOUNT)
    assert comparison.gone == ("a",)
    assert not comparison.is_good
    assert compare({"a": OK}, {"a": OK}, [entry("a", certain=False)], MOUNT).is_good


def test_an_entry_for_a_test_that_was_not_run_says_nothing() -> None:
    """A short run, or another version of the suite."""
    assert compare({"a": OK}, {"a": OK}, [entry("b")], MOUNT).is_good


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "table.toml"
    path.write_text(text)
    return path


def test_a_table_is_read(tmp_path: Path) -> None:
    text = """
    [[difference]]
    tests = ["a", "b"]
    ways = ["mount", "prefix"]
    reason = "it is so"
    [[difference]]
    tests = ["c"]
    ways = ["preload"]
    outcome = "timed out"
    reference = "failed"
    certain = false
    reason = "it is slow"
    """
    assert read_table(write(tmp_path, text), ALL) == [
        Expected(("a", "b"), (MOUNT, PREFIX), FAILED, OK, "it is so"),
        Expected(("c",), (PRELOAD,), Outcome.TIMED_OUT, FAILED, "it is slow", False),
    ]
    assert read_table(tmp_path / "none.toml", ALL) == []


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('tests = ["a"]\nways = ["mount"]\nreason = " "', "reason"),
        ('tests = ["a"]\nways = ["mount"]', "reason"),
        ('tests = []\nways = ["mount"]\nreason = "x"', "its tests"),
        ('tests = ["a"]\nways = ["boat"]\nreason = "x"', "boat"),
        ('tests = ["a"]\nways = ["mount"]\noutcome = "fine"\nreason = "x"', "fine"),
        ('tests = ["a"]\nways = ["mount"]\noutcome = "ok"\nreason = "x"', "ok on both"),
        ('tests = ["a"]\nways = ["mount"]\nwhy = "x"\nreason = "x"', "why"),
        ('tests = ["a", "a"]\nways = ["mount"]\nreason = "x"', "two entries"),
    ],
)
def test_a_table_that_says_too_little_is_refused(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(TableError, match=says):
        read_table(write(tmp_path, f"[[difference]]\n{text}\n"), ALL)


def test_the_committed_tables_are_sound() -> None:
    """Each belongs to a suite, and each can be read."""
    suites = {suite.name: suite for suite in SUITES}
    for path in TABLES.glob("*"):
        assert path.suffix == ".toml", path
        assert read_table(path, suites[path.stem].ways), f"{path} is empty"
