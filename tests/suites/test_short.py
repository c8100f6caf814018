"""A short part of the packaged suites; `make suites` runs all of them whole."""

from pathlib import Path

import pytest
from ways import ALL, MOUNTED, has_fuse

from suites.catalogue import SUITES
from suites.session import run_suite

SHORT = ("pjdfstest", "stress-ng", "lmdb")
"""Suites of packages and crates that find much in some seconds."""


@pytest.mark.parametrize("name", SHORT)
def test_the_table_of_expected_differences_is_the_truth(name: str, tmp_path: Path) -> None:
    suite = next(each for each in SUITES if each.name == name)
    reason = suite.missing()
    if reason is not None:
        pytest.skip(reason)
    if not has_fuse() and set(suite.ways) <= set(MOUNTED):
        pytest.skip("there is no /dev/fuse")
    for verdict in run_suite(suite, ALL, is_short=True, out=tmp_path):
        said = verdict.comparison
        words = [*map(str, said.unexpected), *(f"{test} ends as on tmpfs" for test in said.gone)]
        log = (tmp_path / name / verdict.way / "log").read_text()
        assert said.is_good, f"{name} by {verdict.way}: {words}\n{log[-8000:]}"
        assert said.tests > 0
