"""What suites print is read as they print it; a suite that stops in its middle has no test that ended well by it."""

from pathlib import Path

import pytest

from suites import ltp, pjdfstest, stress_ng, xfstests
from suites.comparison import Outcome
from suites.place import Answer

OK, SKIPPED, FAILED, DIED, TIMED_OUT = Outcome.OK, Outcome.SKIPPED, Outcome.FAILED, Outcome.DIED, Outcome.TIMED_OUT


@pytest.mark.parametrize(
    ("code", "timed_out", "outcome"),
    [
        (0, False, OK),
        (1, False, FAILED),
        (-11, False, DIED),
        (139, False, DIED),
        (255, False, FAILED),
        (0, True, TIMED_OUT),
    ],
)
def test_exit_codes(code: int, timed_out: bool, outcome: Outcome) -> None:
    assert Answer(code, "", timed_out).outcome is outcome


def test_the_lines_of_pjdfstest() -> None:
    output = (
        "unlink::remove_type::block                                     ok\n"
        "mkdir::erofs_new_file                                          skipped\n"
        "\tRemounts (allow_remount) are not allowed in the configuration file\n"
        "open::open_trunc                                               FAILED\n"
        "\tassertion failed: x is ok\nBacktrace:\n  16: _start\n"
        "\nSummary: 1 failed, 1 skipped, 1 passed, 0 expected failures, 3 total\n"
    )
    assert pjdfstest.read_lines(output) == {
        "unlink::remove_type::block": OK,
        "mkdir::erofs_new_file": SKIPPED,
        "open::open_trunc": FAILED,
    }


def test_a_script_is_read_by_its_plan() -> None:
    output = "1..5\nok 1\nnot ok 2 - tried 'unlink x', expected 0, got EACCES\nok 3 # TODO later\nnot ok 4 # TODO\n"
    expected = {"unlink/00 1": OK, "unlink/00 2": FAILED, "unlink/00 3": SKIPPED, "unlink/00 4": SKIPPED}
    died = pjdfstest.read_protocol("unlink/00", Answer(-9, output, False))
    assert died == {**expected, "unlink/00 5": DIED}
    late = pjdfstest.read_protocol("unlink/00", Answer(-9, output, True))
    assert late == {**expected, "unlink/00 5": TIMED_OUT}


def test_a_script_without_a_plan_did_not_end_well() -> None:
    assert pjdfstest.read_protocol("a", Answer(0, "", False)) == {"a": FAILED}
    assert pjdfstest.read_protocol("a", Answer(-9, "", True)) == {"a": TIMED_OUT}
    assert pjdfstest.read_protocol("a", Answer(0, "1..0 # SKIP for want of users\n", False)) == {"a": SKIPPED}


@pytest.mark.parametrize(
    ("test", "call"),
    [
        ("rename01", "rename"),
        ("rename01A", "rename"),
        ("renameat201", "renameat2"),
        ("fcntl14_64", "fcntl"),
        ("chown01_16", "chown"),
        ("preadv203_64", "preadv2"),
        ("dup3_01", "dup3"),
        ("mmap001", "mmap"),
        ("sendfile02_64", "sendfile"),
        ("close_range01", "close_range"),
    ],
)
def test_tests_are_chosen_by_their_calls(test: str, call: str) -> None:
    assert ltp.call_of(test) == call


def test_long_loops_are_capped() -> None:
    assert ltp.capped("growfiles -W gf16 -b -i 0 -L 120 -u -g 4090") == "growfiles -W gf16 -b -i 0 -L 5 -u -g 4090"
    assert ltp.capped("rwtest -N rwtest01 -c -q -i 60s  -f sync 10%25000:x") == (
        "rwtest -N rwtest01 -c -q -i 5s  -f sync 10%25000:x"
    )
    assert ltp.capped("growfiles -W gf03 -i 1 -S 150") == "growfiles -W gf03 -i 1 -S 150"


def test_the_stressors_of_a_class() -> None:
    assert stress_ng.stressors("class 'filesystem' stressors: access chdir dir-many\n") == [
        "access",
        "chdir",
        "dir-many",
    ]


@pytest.mark.parametrize(
    ("code", "words", "outcome"),
    [
        (0, "successful run completed in 1.00s", OK),
        (0, "fiemap: FS_IOC_FIEMAP not supported, skipping stressor, filesystem type: tmpfs", SKIPPED),
        (0, "stress-ng: fail:  [12] rename: stat failed", FAILED),
        (2, "unsuccessful run", FAILED),
        (4, "", SKIPPED),
        (139, "", DIED),
    ],
)
def test_the_end_of_a_stressor(code: int, words: str, outcome: Outcome) -> None:
    assert stress_ng.outcome_of(Answer(code, words, False)) is outcome


def test_the_lines_of_xfstests() -> None:
    output = (
        "FSTYP         -- fuse\n\n"
        "generic/001         8s\n"
        "generic/003        [not run] relatime not supported by the current kernel\n"
        "generic/088        - output mismatch (see /results/generic/088.out.bad)\n    +generic/001 is lost\n"
        "generic/184        [failed, exit status 1]- output mismatch (see /results/generic/184.out.bad)\n"
        "generic/1001       "
    )
    assert xfstests.read_lines(output) == {
        "generic/001": OK,
        "generic/003": SKIPPED,
        "generic/088": FAILED,
        "generic/184": FAILED,
    }
    assert xfstests.running(output) == "generic/1001"
    assert xfstests.running(output + "2s\nRan: generic/001\n") is None


def test_the_tests_of_xfstests_are_those_of_a_group_or_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    groups = tmp_path / "group.list"
    groups.write_text("# comment\n\n001 rw dir quick\n002 metadata\n1003 quickly rw # quick\n1004 quick\n")
    monkeypatch.delenv(xfstests.CHOSEN, raising=False)
    assert xfstests.chosen(groups, tmp_path) == ("generic/001", "generic/1004")
    monkeypatch.setenv(xfstests.CHOSEN, "rw")
    assert xfstests.chosen(groups, tmp_path) == ("generic/001", "generic/1003")
    monkeypatch.setenv(xfstests.CHOSEN, "generic/007 generic/009")
    assert xfstests.chosen(groups, tmp_path) == ("generic/007", "generic/009")
    (tmp_path / xfstests.APPLICABLE).write_text("generic/002\n")
    monkeypatch.setenv(xfstests.CHOSEN, xfstests.APPLICABLE)
    assert xfstests.chosen(groups, tmp_path) == ("generic/002",)
