"""The choice of tests in `make check`, and the end of `make test`."""

import subprocess
import sys
from pathlib import Path

import pytest
from changed import files_of_tests, rust_commands
from everything import counted
from waits import PATIENCE_SECONDS

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    ("line", "counts"),
    [
        ("test result: ok. 16 passed; 0 failed; 2 ignored; 0 measured; 0 filtered out; finished in 0.01s", (16, 0, 2)),
        ("test result: FAILED. 7 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out", (7, 1, 0)),
        ("2 failed, 1528 passed, 24 skipped in 841.31s (0:14:01)", (1528, 2, 24)),
        ("\x1b[31m===== \x1b[1m1 failed\x1b[0m, \x1b[32m3 passed\x1b[0m, 2 errors in 4.20s =====\x1b[0m", (3, 3, 0)),
        ("5 passed in 0.12s", (5, 0, 0)),
        ("assert '2 passed in 3s' in output", (0, 0, 0)),
    ],
    ids=["cargo", "cargo that failed", "pytest", "pytest in colours", "quiet pytest", "words of a test"],
)
def test_finished_tests_are_counted(line: str, counts: tuple[int, int, int]) -> None:
    found = counted(line)
    assert (found["passed"], found["failed"], found["skipped"]) == counts


@pytest.mark.parametrize("targets", [["first", "second"], ["first+second"], ["second+first"]])
def test_every_part_runs_whatever_fails(tmp_path: Path, targets: list[str]) -> None:
    """A failing crate once hid all tests of Python: `make` stopped at the first target that failed."""
    tests = tmp_path / "tests"
    tests.mkdir()
    (tests / "everything.py").write_text((ROOT / "tests/everything.py").read_text())
    (tmp_path / "Makefile").write_text(
        "first: bad good\n"
        "bad:\n\t@echo 'test result: FAILED. 1 passed; 2 failed; 0 ignored;'; false\n"
        "good:\n\t@echo 'test result: ok. 10 passed; 0 failed; 3 ignored;'\n"
        "second:\n\t@echo '4 passed in 0.1s'\n"
    )
    command: list[str | Path] = [sys.executable, tests / "everything.py", *targets]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False)
    assert answer.returncode == 1
    assert answer.stdout.count("test result") == 2
    first, second = sorted(answer.stdout.splitlines()[-2:])
    assert first.split()[:2] == ["first", "FAILED"]
    assert first.endswith("11 passed, 2 failed, 3 skipped")
    assert second.split()[:2] == ["second", "passed"]
    assert second.endswith("4 passed, 0 failed, 0 skipped")


def test_a_changed_module_leads_to_its_tests() -> None:
    found = files_of_tests(["python/weir/prediction/laws.py", "docs/index.md"])
    assert "tests/python/test_prediction_laws.py" in found
    assert "tests/python/test_refactor.py" not in found
    assert files_of_tests(["tests/posix/test_names.py"]) == ["tests/posix/test_names.py"]
    assert files_of_tests(["README.md"]) == []


def test_a_changed_crate_runs_its_own_tests() -> None:
    changed = ["crates/server/src/lib.rs", "crates/server/tests/all/doors.rs", "crates/wire/src/lib.rs"]
    clippy, leaf, server, doors = rust_commands(changed)
    assert clippy[:2] == ["cargo", "clippy"]
    assert leaf[-2:] == ["--package=weir-wire", "--tests"]
    assert server[-3:] == ["--package=weir-server", "--bins", "--lib"]
    assert doors[-4:] == ["--package=weir-server", "--test=all", "--", "doors::"]
    assert rust_commands(["python/weir/errors.py"]) == []
