"""Commands of README, quick start and all guides run as they are printed, with files that are shipped."""

from collections.abc import Callable
from pathlib import Path

import documentation
import pytest
from documentation import ELSEWHERE, PAGES, ROOT, blocks, runnable
from launchers import OPENMPI_ANYWHERE
from store import Store, program
from ways import has_fuse

TESTED = {"docs/guides/sweeps.md": "test_sweep_guide.py runs its commands and looks at their answers"}


def test_what_is_left_out_is_there() -> None:
    printed = [command for page in PAGES for block in blocks(ROOT / page) for command in block.commands()]
    for begin in ELSEWHERE:
        assert any(command.startswith(begin) for command in printed), f"no page has `{begin}` any more"


def test_most_commands_are_run_and_each_other_block_has_its_reason() -> None:
    every = [block for page in PAGES for block in blocks(ROOT / page) if block.commands()]
    reasons = [block.marks["needs"] for block in every if "needs" in block.marks]
    assert all(reasons)
    run = [command for page in PAGES for command, _ in runnable(ROOT / page)]
    assert len(run) >= 55
    assert len(run) > 2 * sum(len(block.commands()) for block in every if "needs" in block.marks)


@pytest.mark.slow
@pytest.mark.skipif(not has_fuse(), reason="no store can be mounted here")
@pytest.mark.parametrize("page", [page for page in PAGES if page not in TESTED])
def test_the_commands_of_a_page_work(make_store: Callable[[], Store], page: str) -> None:
    store = make_store()
    folder = store.root / "reader"
    folder.mkdir()
    path = f"{Path(program()[0]).parent}:/usr/local/bin:/usr/bin:/bin"
    outcomes, words = documentation.run(ROOT / page, folder, {**store.variables(), **OPENMPI_ANYWHERE, "PATH": path})
    failed = [f"{outcome.command}: {outcome.code}" for outcome in outcomes if outcome.failed]
    assert not failed, f"{page}: {failed}\n{words}"
