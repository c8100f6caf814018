"""Random calls by the mount, a second mount, the library beside a mount and the library alone answer as on tmpfs."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from random_calls.expected import EXPECTED
from random_calls.law import LENGTH, Law
from random_calls.players import build, limited, on_store, on_tmpfs
from seeds import seed
from store import Store

SEQUENCES = 75
"""About 15 seconds on a quiet machine; `make soak` plays them for an hour."""
FIRST_SEED = 38
LIMITS = Path(__file__).resolve().parents[2] / "docs/reference/limits.md"


@pytest.fixture(scope="module")
def program() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="weir-random-calls-") as folder:
        yield build(Path(folder))


@pytest.fixture
def memory() -> Iterator[Path]:
    """A directory of tmpfs."""
    with tempfile.TemporaryDirectory(prefix="weir-random-calls-", dir="/dev/shm") as folder:
        yield Path(folder)


def test_random_calls_answer_as_on_tmpfs(
    program: Path, memory: Path, shared_store: Store, second_mount: Path, fuse: None
) -> None:
    first = seed(FIRST_SEED)
    try:
        with (
            on_store(program, shared_store, "random-calls", second_mount) as there,
            on_tmpfs(program, memory, len(there.players)) as here,
        ):
            found = [each for each in Law(here, there).differences(range(first, first + SEQUENCES)) if each]
    finally:
        shutil.rmtree(shared_store.mount / "random-calls", ignore_errors=True)
    assert not found, "\n".join(map(str, found))


def test_a_difference_is_found_shrunk_and_repeated(program: Path, memory: Path) -> None:
    """Processes that may write no byte beyond 4 KiB stand for a store with a fault."""
    (memory / "right").mkdir()
    (memory / "wrong").mkdir()
    with (
        on_tmpfs(program, memory / "right", 2) as here,
        on_tmpfs(limited(program, 4096), memory / "wrong", 2) as there,
    ):
        law = Law(here, there)
        found = next(each for each in law.differences(range(100)) if each)
        assert len(found.steps) < 6 < LENGTH, found
        assert law.played(found.seed, found.kept) == found
        assert found.wrong != found.right
        assert f"--seed {found.seed} --keep {','.join(map(str, found.kept))}" in str(found)
        assert law.played(found.seed, found.kept[:-1]) is None


def test_nothing_but_a_stated_limit_is_expected() -> None:
    page = LIMITS.read_text()
    assert not [entry.row for entry in EXPECTED if entry.row not in page]
